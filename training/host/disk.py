"""The host's disk: folders, free space, and a reserve with which the agent can still report that the disk is full."""

import errno
import math
import os
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from training.host.account import remove_tree
from training.host.errors import HostTrouble, ProgramFault

PASSING_ERRORS = frozenset(
    {
        errno.ENOSPC,
        errno.EINTR,
        errno.EAGAIN,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENETUNREACH,
        errno.EPIPE,
    }
    | {
        errno.EHOSTUNREACH,
        errno.ECONNRESET,
        errno.ECONNREFUSED,
        errno.ECONNABORTED,
        errno.ETIMEDOUT,
        errno.ENETDOWN,
    }
)
"""Errors of the operating system that may pass soon."""
CAUSED_BY_PROGRAM = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.EEXIST,
        errno.ELOOP,
        errno.ENOTEMPTY,
        errno.ENAMETOOLONG,
        errno.ENOENT,
    }
)
"""Errors that a healthy disk gives only if the program has changed its own folders."""
GIB = 1 << 30
RESERVE_BYTES = 16 * 1024 * 1024
FULL_BELOW = 8 * 1024 * 1024
SPARSE_BYTES = 1 << 30
SPARSE_FACTOR = 8
"""A file is sparse if it is larger than SPARSE_BYTES and less than an eighth of it is on the disk."""
BLOCK_BYTES = 512
SPARSE = "it is sparse: most of it was never written"
EVENT_FILE = ".tfevents."
"""Part of the name of every event file of TensorBoard."""


def disk_gib_for(folder: Path, needed: int) -> str:
    """Return the setting of a job with which `needed` more bytes fit on the disk that holds this existing folder."""
    return f"hardware.disk_gib: {_round_up((shutil.disk_usage(folder).used + needed + GIB) * 1.2)}"


def _round_up(size: float) -> int:
    """Return the next multiple of ten GiB."""
    return math.ceil(size / GIB / 10) * 10


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes on the disk that holds `path`."""

    path: Path
    free: int
    total: int
    has_inodes: bool = True
    """True if more files can be created there."""

    @property
    def is_full(self) -> bool:
        return self.free < FULL_BELOW

    @property
    def advice(self) -> str:
        """The disk that is full, and what to do."""
        return (
            f"the disk of this host is full ({self.free / 1e6:.0f} MB of {self.total / 1e9:.1f} GB are free at "
            f"{self.path}): write hardware.disk_gib: {_round_up(2 * self.total)} into the job file, keep fewer "
            "checkpoints or write less"
        )

    @property
    def advice_on_error(self) -> str:
        """The file system on which a program got ENOSPC, its state now, and what to do."""
        state = f"{self.free / 1e6:.0f} MB of {self.total / 1e9:.1f} GB are free now at {self.path}"
        if self.path.is_relative_to(SHARED_MEMORY):
            return (
                f"this host's shared memory had no room ({state}): use fewer or smaller worker processes of data "
                "loaders, or a type with more memory"
            )
        if not self.has_inodes:
            return f"the file system at {self.path} has no room for more files (no inodes are left): write fewer files"
        if self.is_full:
            return self.advice
        return f"the file system at {self.path} had no room ({state}): write less at once, or elsewhere on the disk"


SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the kernel's own folder, to which nothing is written here


def room_at(path: Path) -> Room:
    """Return the room on the file system that holds the path, or would hold it, at its mount point."""
    folder = next(each for each in (path, *path.parents) if each.exists())
    mount = next(each for each in (folder, *folder.parents) if os.path.ismount(each))
    usage = os.statvfs(mount)
    free, total = usage.f_bavail * usage.f_frsize, usage.f_blocks * usage.f_frsize
    return Room(mount, free, total, has_inodes=usage.f_files == 0 or usage.f_favail > 0)


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk that a program fills."""

    reserve: Path
    """A file in the folder that the program fills."""
    home: Path
    """The folder with everything that the program owns."""

    def room(self) -> Room:
        """Return the room without the released reserve, which only the agent may use."""
        folder = next(parent for parent in self.reserve.parents if parent.exists())
        usage = shutil.disk_usage(folder)
        return Room(folder, max(0, usage.free - self._released), usage.total)

    def hold(self) -> None:
        """Fill the reserve, unless the disk is nearly full."""
        if (self.reserve.exists() and not self._released) or self.room().free < 4 * RESERVE_BYTES:
            return
        with self.reserve.open("wb") as held:
            os.posix_fallocate(held.fileno(), 0, RESERVE_BYTES)

    def release(self) -> None:
        """Make the reserve's room free. The empty file remains as a mark that there was a reserve."""
        if self.reserve.exists():
            os.truncate(self.reserve, 0)

    @property
    def _released(self) -> int:
        return RESERVE_BYTES - self.reserve.stat().st_size if self.reserve.exists() else 0

    def _is_the_programs(self, path: object) -> bool:
        named = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
        return PurePosixPath(named).is_relative_to(self.home)

    def trouble(self, error: OSError) -> HostTrouble:
        """Return the trouble for an error of the operating system. A full disk is final: a retry would find it full."""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return HostTrouble(f"{self.room().advice} ({error})", final=True)
        if error.errno in CAUSED_BY_PROGRAM and self._is_the_programs(error.filename):
            return ProgramFault(
                f"the program, or a package that it installs, has made its own folder unusable for this host: {error}. "
                "Another attempt would fail in the same way, so none follows. Let the program leave the folders of its "
                "home as they are: do not change their permissions, and do not replace them by links or files"
            )
        return HostTrouble(
            f"this host's disk or network has failed: {error}", passes=error.errno in PASSING_ERRORS
        )


def is_sparse(status: os.stat_result) -> bool:
    """Return True if a large file has less than an eighth of its size on the disk: S3 would bill the holes."""
    return status.st_size > SPARSE_BYTES and status.st_blocks * BLOCK_BYTES * SPARSE_FACTOR < status.st_size


def walk(folder: Path, *, besides: Collection[Path] = ()) -> Iterator["os.DirEntry[str]"]:
    """Yield every entry below a folder that is not a folder itself, without following links. Skip the folders
    `besides`, folders that this thread may not read, and paths that are too long for Linux. The walk uses no recursion,
    because a program may nest folders to any depth."""
    waiting = [str(folder)]
    skipped = {str(path) for path in besides}
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                found = list(entries)
        except OSError:  # it has just been removed, may not be read, or has too long a path
            continue
        for entry in found:
            if not entry.is_dir(follow_symlinks=False):
                yield entry
            elif entry.path not in skipped:
                waiting.append(entry.path)


def readable_files(folder: Path) -> Iterator[Path]:
    """Yield every file below a folder that this thread may read (account.py). A link counts as its target."""
    for entry in walk(folder):
        path = Path(entry.path)
        if is_readable(path):
            yield path


def measure_below(folder: Path, *, besides: Collection[Path]) -> tuple[int, int]:
    """Return the count of files and the sum of their bytes. Both stay the same if a program only writes a file again
    with the same content. The folders `besides` are left out, and so are TensorFlow's event files, which a program
    still writes while it waits."""
    files = size = 0
    for entry in walk(folder, besides=besides):
        path = Path(entry.path)
        try:
            if EVENT_FILE not in entry.name and is_readable(path):
                files, size = files + 1, size + path.stat().st_size
        except OSError:  # just replaced; the next look finds the new file
            continue
    return files, size


def is_readable(path: Path) -> bool:
    """Return True if the path is a file that this thread may read, and False instead of raising PermissionError."""
    try:
        return os.access(path, os.R_OK, effective_ids=True) and path.is_file()
    except OSError:  # a path that is too long
        return False


def inside(folder: Path, relative: str) -> Path:
    """Return `folder / relative`. Raises ProgramFault if that lies outside the folder."""
    parts = PurePosixPath(relative).parts
    if not parts or ".." in parts or relative.startswith("/"):
        raise ProgramFault(f"{relative!r} points outside its folder")
    return folder.joinpath(*parts)


def fresh(folder: Path) -> None:
    """Create an empty folder in place of whatever the path was. Raises OSError if that cannot be removed."""
    if folder.exists() or folder.is_symlink():
        remove_tree(folder)
    folder.mkdir(parents=True)
