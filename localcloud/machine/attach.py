"""Mount or unmount once in the mount namespace of a host: a program of its own for hypervisor/mounts.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from localcloud.machine import kernel
from localcloud.machine.kernel import CLONE_NEWNS, MNT_DETACH, MS_NODEV, MS_NOSUID, KernelError

MS_RDONLY = 0x1
FUSE_NAME = "mountpoint-s3"


def main() -> int:
    """Carry out the order of the first argument."""
    order = json.loads(sys.argv[1])
    try:
        own = f"/proc/self/fd/{order['descriptor']}" if order["kind"] == "bind" else ""
        tree = kernel.open_tree(own) if own else None
        with Path(f"/proc/{order['pid']}/ns/mnt").open("rb") as namespace:
            kernel.check_result(kernel.libc.setns(namespace.fileno(), CLONE_NEWNS), "enter the host")
        target = Path(order["target"])
        if order["kind"] == "umount":
            kernel.check_result(kernel.libc.umount2(bytes(target), MNT_DETACH), "not mounted")
            return 0
        if tree is not None:
            kernel.move_mount(tree, target)
            if order["read_only"]:
                kernel.make_read_only(target)
            return 0
        options = f"fd={order['descriptor']},rootmode=40000,user_id=0,group_id=0,allow_other"
        kernel.mount(FUSE_NAME, target, "fuse", MS_NOSUID | MS_NODEV | MS_RDONLY, options)
    except (KernelError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0
