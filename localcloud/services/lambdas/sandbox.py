"""The isolated environment of a function: a root with its bundle, its layers, Python, and an empty /tmp.

Runs as a standalone program with only the standard library, as process 1 of a process namespace (`functions` starts
it), and then becomes the function's `worker`. Paths match AWS: /var/task, /opt, /var/runtime. Other files of the
machine and other processes are hidden.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from localcloud.machine.kernel import (
    CLONE_NEWIPC,
    CLONE_NEWNS,
    CLONE_NEWUTS,
    MS_NODEV,
    MS_NOSUID,
    MS_PRIVATE,
    MS_REC,
    PR_SET_PDEATHSIG,
    below,
    bind,
    check_result,
    drop_capabilities,
    enter,
    lend,
    lend_system,
    libc,
    make_devices,
    make_read_only,
    mount,
)
from localcloud.services.lambdas import worker

PR_SET_NO_NEW_PRIVS = 38
CAPABILITY_VERSION = 0x20080522
TASK, LAYERS, RUNTIME = "/var/task", "/opt", "/var/runtime"
TRUSTED = "/etc/localcloud-trusted.pem"
"""The authorities that functions trust."""
OWN_ETC = {
    "passwd": "root:x:0:0::/tmp:/sbin/nologin\n",
    "group": "root:x:0:\n",
    "hosts": "127.0.0.1 localhost\n",
}
HIDDEN = ("/usr/local", "/usr/src")
"""Folders below /usr that do not belong to the system."""
DESCRIPTORS = 1024
"""Limit of open files of a function's process, as on AWS."""


def main() -> None:
    """Enter the root that the first argument describes, then answer invocations until stdin closes."""
    spec: dict[str, Any] = json.loads(sys.argv[1])
    del sys.argv[1:]
    libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    os.umask(0o022)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, hard))
    check_result(libc.unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS), "make the function's namespaces")
    mount("none", Path("/"), flags=MS_REC | MS_PRIVATE)
    enter(make_root(spec))
    give_up_capabilities()
    os.chdir(TASK)
    forget_sources()
    worker.main()


def make_root(spec: dict[str, Any]) -> Path:
    """Mount everything that the function sees on an empty folder."""
    root, python = Path(spec["root"]), Path(spec["python_home"])
    mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m")
    lend(root, Path("/usr"), Path("/usr"))
    for hidden in map(Path, HIDDEN):
        inside = root / hidden.relative_to("/")
        if inside.is_dir() and not python.is_relative_to(hidden):
            mount("tmpfs", inside, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=0")
            make_read_only(inside)
    lend_system(root)
    if not python.is_relative_to("/usr"):
        lend(root, python, python)
    lend(root, Path(spec["code"]), Path(TASK))
    lend_layers(root, spec["layers"])
    for package in spec["packages"]:
        lend(root, Path(package), Path(RUNTIME, Path(package).name))
    for name, text in OWN_ETC.items():
        (root / "etc" / name).write_text(text + (spec["names"] if name == "hosts" else ""))
    lend(root, Path(spec["trusted"]), Path(TRUSTED))
    mount("proc", below(root, "/proc"), "proc", MS_NOSUID | MS_NODEV)
    make_read_only(root / "proc")
    dev = below(root, "/dev")
    make_devices(dev)
    (dev / "shm").mkdir()
    mount("tmpfs", below(root, "/tmp"), "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777,size={spec['tmp_mib']}m")  # noqa: S108
    close(root)
    return root


def lend_layers(root: Path, layers: list[str]) -> None:
    """Mount the layers as one folder. For equal paths the later layer wins."""
    folder = below(root, LAYERS)
    if len(layers) == 1:
        bind(Path(layers[0]), folder, read_only=True)
    elif layers:
        os.chdir(Path(layers[0]).parent)  # mount options hold 4096 bytes and no colon
        names = [Path(layer).name for layer in reversed(layers)]
        mount("overlay", folder, "overlay", options=f"lowerdir={':'.join(names)}")


def close(root: Path) -> None:
    """Make the root itself read-only. Mounts on it stay as they are."""
    flags = 0x20 | 0x1 | MS_NOSUID | MS_NODEV  # MS_REMOUNT | MS_RDONLY
    check_result(
        libc.mount(None, bytes(root), None, ctypes.c_ulong(flags), b"mode=755,size=1m"), "close the root"
    )


def give_up_capabilities() -> None:
    """Drop all capabilities for this process and its children, so that mounts, device nodes and settings fail."""
    drop_capabilities(())
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    check_result(libc.capset(header, (ctypes.c_uint32 * 6)()), "give up capabilities")
    check_result(libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0), "forbid new privileges")


def forget_sources() -> None:
    """Remove the local cloud's modules from the import path."""
    del sys.path[0]
    sys.path_importer_cache.clear()  # the cached paths are outdated
    for name in [name for name in sys.modules if name.partition(".")[0] == "localcloud"]:
        del sys.modules[name]
