"""The kernel's calls that put a process apart from the machine: namespaces, mounts, roots, capabilities.

For programs of their own with the standard library only (`boot`, a function's `sandbox`): namespaces belong to
processes, and the server has threads.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Collection
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 0x2, 0x4, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NODEV = 0x1, 0x4
SYS_MOUNT_SETATTR = 442  # the same number on every architecture
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
PR_SET_PDEATHSIG, PR_CAPBSET_DROP = 1, 24

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
SYSTEM_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
BORROWED_ETC = (
    "alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "ld.so.cache", "ld.so.conf",
    "ld.so.conf.d", "localtime", "mime.types", "pki", "ssl",
)  # fmt: skip

SOURCES = Path(__file__).resolve().parents[2]


def alone(module: str) -> str:
    """Return the text for `python -c` that runs `main` of a module of ours with the standard library only."""
    return f"import sys; sys.path.insert(0, {str(SOURCES)!r}); from {module} import main; sys.exit(main())"


libc = ctypes.CDLL(None, use_errno=True)


class KernelError(Exception):
    """A call that this machine's kernel refuses; the text reaches the console of a host and the log of a function."""


def checked(result: int, doing: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise KernelError(f"{doing}: {os.strerror(number)} (errno {number})")


def mount(source: str | Path, target: Path, kind: str = "", flags: int = 0, options: str = "") -> None:
    result = libc.mount(
        os.fsencode(source),
        bytes(target),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        os.fsencode(options) or None,
    )
    checked(result, f"mount {kind or 'bind'} {source} on {target}")


def make_read_only(target: Path) -> None:
    """Read-only with everything mounted below; unlike a remount this needs no knowledge of flags that are locked."""
    attributes = struct.pack("=QQQQ", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV, 0, 0, 0)
    result = libc.syscall(
        SYS_MOUNT_SETATTR,
        AT_FDCWD,
        bytes(target),
        AT_RECURSIVE,
        attributes,
        ctypes.c_size_t(len(attributes)),
    )
    checked(result, f"make {target} read-only (needs Linux 5.12)")


def bind(source: Path, target: Path, *, read_only: bool = False) -> None:
    mount(source, target, flags=MS_BIND | MS_REC)
    if read_only:
        make_read_only(target)


def below(root: Path, path: str) -> Path:
    """A folder of the host, made if it is not there."""
    folder = root / path.lstrip("/")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def lend_system_folder(root: Path, source: Path) -> None:
    """/bin and its like, which are links into /usr on most machines and folders on some."""
    target = root / source.name
    if source.is_symlink():
        if not target.is_symlink():
            target.symlink_to(source.readlink())
    elif source.is_dir():
        lend(root, source, source)


def lend(root: Path, source: Path, path: Path) -> None:
    """Show the machine's `source` at `path` inside the host, read-only."""
    target = root / path.relative_to("/")
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    elif not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    bind(source, target, read_only=True)


def make_devices(dev: Path) -> None:
    """Show the machine's harmless devices in a folder."""
    for device in DEVICES:
        (dev / device).touch()
        bind(Path("/dev", device), dev / device)


def lend_system(root: Path) -> None:
    """Show what programs of the machine need beside /usr: /bin and its like, certificates, the linker's cache."""
    for name in SYSTEM_FOLDERS:
        lend_system_folder(root, Path("/", name))
    for name in BORROWED_ETC:
        path = Path("/etc", name)
        if path.exists():
            lend(root, path.resolve(), path)


def enter(root: Path) -> None:
    """Make `root`, a mount, the root of this process and its children, and let go of the machine's own."""
    os.chdir(root)
    machine = os.uname().machine
    if machine not in SYS_PIVOT_ROOT:
        raise KernelError(f"this machine is a {machine}; the local cloud runs on {', '.join(SYS_PIVOT_ROOT)}")
    checked(libc.syscall(SYS_PIVOT_ROOT[machine], b".", b"."), "change the root")
    checked(libc.umount2(b".", MNT_DETACH), "let go of the machine's own root")
    os.chdir("/")


def drop_capabilities(kept: Collection[int]) -> None:
    """Take all other capabilities from whatever this process executes."""
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    for capability in range(last + 1):
        if capability not in kept:
            result = libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0)
            checked(result, f"drop capability {capability}")
