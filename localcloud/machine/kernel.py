"""System calls that isolate a process from the machine: namespaces, mounts, roots, capabilities.

Only for standalone programs (`boot`, a function's `sandbox`), because namespaces belong to processes and the server has
threads.
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
SYS_OPEN_TREE, SYS_MOVE_MOUNT = 428, 429  # the same numbers on every architecture
OPEN_TREE_CLONE, MOVE_MOUNT_F_EMPTY_PATH = 0x1, 0x4
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
    """Return code for `python -c` that runs `main` of one of our modules with only the standard library."""
    return f"import sys; sys.path.insert(0, {str(SOURCES)!r}); from {module} import main; sys.exit(main())"


libc = ctypes.CDLL(None, use_errno=True)


class KernelError(Exception):
    """The machine's kernel refuses a call. The text reaches a host's console and a function's log."""


def check_result(result: int, doing: str) -> None:
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
    check_result(result, f"mount {kind or 'bind'} {source} on {target}")


def make_read_only(target: Path) -> None:
    """Make a mount and everything below it read-only. Unlike a remount, this works with locked flags."""
    attributes = struct.pack("=QQQQ", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV, 0, 0, 0)
    result = libc.syscall(
        SYS_MOUNT_SETATTR,
        AT_FDCWD,
        bytes(target),
        AT_RECURSIVE,
        attributes,
        ctypes.c_size_t(len(attributes)),
    )
    check_result(result, f"make {target} read-only (needs Linux 5.12)")


def bind(source: Path, target: Path, *, read_only: bool = False) -> None:
    mount(source, target, flags=MS_BIND | MS_REC)
    if read_only:
        make_read_only(target)


def open_tree(path: str) -> int:
    """Return a descriptor of a copy of the mount at `path`, which another namespace can attach."""
    descriptor = libc.syscall(SYS_OPEN_TREE, AT_FDCWD, path.encode(), OPEN_TREE_CLONE | AT_RECURSIVE)
    if descriptor < 0:
        check_result(descriptor, f"copy the mount of {path}")
    return int(descriptor)


def move_mount(tree: int, target: Path) -> None:
    """Attach a copy of `open_tree` at a folder of this namespace."""
    result = libc.syscall(SYS_MOVE_MOUNT, tree, b"", AT_FDCWD, bytes(target), MOVE_MOUNT_F_EMPTY_PATH)
    check_result(result, f"mount on {target}")


def below(root: Path, path: str) -> Path:
    """Return a folder of the host, created if missing."""
    folder = root / path.lstrip("/")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def lend_system_folder(root: Path, source: Path) -> None:
    """Lend /bin and similar folders, which on most machines are links into /usr."""
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
    """Show what programs need besides /usr: /bin and similar folders, certificates, the linker's cache."""
    for name in SYSTEM_FOLDERS:
        lend_system_folder(root, Path("/", name))
    for name in BORROWED_ETC:
        path = Path("/etc", name)
        if path.exists():
            lend(root, path.resolve(), path)


def enter(root: Path) -> None:
    """Make the mount `root` the root of this process and its children, and detach the machine's root."""
    os.chdir(root)
    machine = os.uname().machine
    if machine not in SYS_PIVOT_ROOT:
        raise KernelError(f"this machine is a {machine}; the local cloud runs on {', '.join(SYS_PIVOT_ROOT)}")
    check_result(libc.syscall(SYS_PIVOT_ROOT[machine], b".", b"."), "change the root")
    check_result(libc.umount2(b".", MNT_DETACH), "detach the machine's root")
    os.chdir("/")


def drop_capabilities(kept: Collection[int]) -> None:
    """Drop all other capabilities from this process and the programs that it executes."""
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    for capability in range(last + 1):
        if capability not in kept:
            result = libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0)
            check_result(result, f"drop capability {capability}")
