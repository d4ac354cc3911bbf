"""Mount and unmount in a host's namespace, on behalf of its init (guest/mounting.py).

Each call is a process of its own (attach.py), because a namespace belongs to a process without other threads.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localcloud.base.background import in_background
from localcloud.machine.kernel import alone

if TYPE_CHECKING:
    from localcloud.machine.hypervisor.host import Host

DEVICE = Path("/dev/fuse")
MOST_SECONDS = 20.0
SHARED_FOLDERS = "file-systems"
"""The folder of the state whose folders `bind` may show on hosts."""


def missing() -> str | None:
    """Return why this machine cannot mount file systems of programs (FUSE); None if it can."""
    try:
        os.close(os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return f"{DEVICE}: {error.strerror}"
    return None


@dataclass(frozen=True)
class Share:
    """The folder of the state that a host mounts as a file system of EFS or FSx, or why it does not."""

    source: str = ""
    """The absolute path of the folder."""
    read_only: bool = False
    code: int = 0
    text: str = ""


SILENT = Share(code=1, text="silent")
"""The file system does not answer: the command on the host waits."""
FindShare = Callable[[Mapping[str, Any], str, Path], Share]
"""Returns the folder that an order of an instance names, below a folder of the state."""


def no_share(order: Mapping[str, Any], instance_id: str, root: Path) -> Share:
    return SILENT


def carry_out(order: Mapping[str, Any], host: Host, state: Path, find_share: FindShare) -> None:
    """Mount or unmount on a host as its init asks, and answer init, in the background."""
    pid = host.pid

    def act() -> None:
        descriptor = None
        if order["event"] == "umount":
            code, text = unmount(order["target"], pid)
        elif order["kind"] == "file-system":
            share = find_share(order, host.machine.instance_id, state / SHARED_FOLDERS)
            code, text = share.code, share.text
            if not code:
                shown = {"kind": "bind", "source": share.source, "read_only": share.read_only}
                code, text, _ = mount({**order, **shown}, pid, state)
        else:
            code, text, descriptor = mount(order, pid, state)
        host.answer(order["id"], code, text, [] if descriptor is None else [descriptor])
        if descriptor is not None:
            os.close(descriptor)

    in_background(f"mount on {host.machine.instance_id}", act)


def mount(order: Mapping[str, Any], pid: int, state: Path) -> tuple[int, str, int | None]:
    """Mount in the mount namespace of `pid`. Return the exit code, its text, and the descriptor for a server of FUSE,
    which the caller closes: a copy here would keep readers waiting after the server's end."""
    if order["kind"] == "bind":
        source = (state / SHARED_FOLDERS / str(order["source"])).resolve()
        if not source.is_relative_to((state / SHARED_FOLDERS).resolve()) or not source.is_dir():
            return 32, f"{order['source']} does not exist", None
        folder = os.open(source, os.O_PATH | os.O_CLOEXEC)
        try:
            return (*_run({**order, "pid": pid, "descriptor": folder}, folder), None)
        finally:
            os.close(folder)
    if problem := missing():
        return 1, f"fuse: device not found, {problem}", None
    descriptor = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
    code, text = _run({**order, "pid": pid, "descriptor": descriptor}, descriptor)
    if code:
        os.close(descriptor)
        return code, text, None
    return 0, "", descriptor


def unmount(target: str, pid: int) -> tuple[int, str]:
    """Unmount in the mount namespace of `pid`, as `umount --lazy` does."""
    return _run({"kind": "umount", "target": target, "pid": pid})


def _run(order: Mapping[str, Any], *descriptors: int) -> tuple[int, str]:
    command = [os.path.realpath(sys.executable), "-I", "-c", alone("localcloud.machine.attach")]
    try:
        done = subprocess.run(
            [*command, json.dumps(dict(order))],
            check=False,
            pass_fds=descriptors,
            capture_output=True,
            text=True,
            timeout=MOST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return 1, f"the mount took longer than {MOST_SECONDS:g} s"
    return done.returncode, done.stderr.strip()
