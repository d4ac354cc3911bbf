"""The host's disk: folders, how much is free, and a reserve that lets the agent speak when nothing is."""

import errno
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
"""Errors of the operating system that may be over soon."""
PROGRAMS_DOING = frozenset(
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
"""Errors that a healthy disk gives only for what the program has done to its own folders."""
RESERVE_BYTES = 16 * 1024 * 1024
FULL_BELOW = 8 * 1024 * 1024
SPARSE_BYTES = 1 << 30
SPARSE_FACTOR = 8
"""A file is sparse if it is larger than SPARSE_BYTES and less than an eighth of it is on the disk."""
BLOCK_BYTES = 512
SPARSE = "it is sparse: most of it was never written"
EVENT_FILE = ".tfevents."
"""In the name of every file of TensorBoard's events."""


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes on the disk that holds `path`."""

    path: Path
    free: int
    total: int
    has_inodes: bool = True
    """More files can be made there."""

    @property
    def is_full(self) -> bool:
        return self.free < FULL_BELOW

    @property
    def advice(self) -> str:
        """What is full, and what to do."""
        return (
            f"the disk of this host is full ({self.free / 1e6:.0f} MB of {self.total / 1e9:.1f} GB are free at "
            f"{self.path}): give the launch template a larger volume, keep fewer checkpoints or write less"
        )

    @property
    def advice_on_error(self) -> str:
        """What had no room when a program got ENOSPC there, as it is now, and what to do."""
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


SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the kernel's own place, in which nothing is made here


def room_at(path: Path) -> Room:
    """The room on the file system that holds the path or would hold it, by the place where that is mounted."""
    folder = next(each for each in (path, *path.parents) if each.exists())
    mount = next(each for each in (folder, *folder.parents) if os.path.ismount(each))
    usage = os.statvfs(mount)
    free, total = usage.f_bavail * usage.f_frsize, usage.f_blocks * usage.f_frsize
    return Room(mount, free, total, has_inodes=usage.f_files == 0 or usage.f_favail > 0)


@dataclass(frozen=True, slots=True)
class Disk:
    """`reserve` is a file in the folder that the program fills; `home` holds what is the program's own."""

    reserve: Path
    home: Path

    def room(self) -> Room:
        """Without what was released of the reserve: the disk is full for a program though the agent can still write."""
        folder = next(parent for parent in self.reserve.parents if parent.exists())
        usage = shutil.disk_usage(folder)
        return Room(folder, max(0, usage.free - self._released), usage.total)

    def hold(self) -> None:
        """Keep some room back; where there is hardly any it is left to those who need it now."""
        if (self.reserve.exists() and not self._released) or self.room().free < 4 * RESERVE_BYTES:
            return
        with self.reserve.open("wb") as held:
            os.posix_fallocate(held.fileno(), 0, RESERVE_BYTES)

    def release(self) -> None:
        """The empty file that stays says that there was one."""
        if self.reserve.exists():
            os.truncate(self.reserve, 0)

    @property
    def _released(self) -> int:
        return RESERVE_BYTES - self.reserve.stat().st_size if self.reserve.exists() else 0

    def _is_the_programs(self, path: object) -> bool:
        named = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
        return PurePosixPath(named).is_relative_to(self.home)

    def trouble(self, error: OSError) -> HostTrouble:
        """What an error of the operating system means. A full disk would be as full the next time."""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return HostTrouble(f"{self.room().advice} ({error})", final=True)
        if error.errno in PROGRAMS_DOING and self._is_the_programs(error.filename):
            return ProgramFault(
                f"the program, or a package that it installs, has made its own folder unusable for this host: {error}. "
                "Another attempt would end alike, so none follows. Let the program leave the folders of its home as it "
                "finds them: no other permissions, no links or files in their place"
            )
        return HostTrouble(
            f"this host's disk or network is in trouble: {error}", passes=error.errno in PASSING_ERRORS
        )


def is_sparse(facts: os.stat_result) -> bool:
    """Return True for a large file of which less than an eighth is on the disk: S3 would bill the holes."""
    return facts.st_size > SPARSE_BYTES and facts.st_blocks * BLOCK_BYTES * SPARSE_FACTOR < facts.st_size


def walk(folder: Path, *, besides: Collection[Path] = ()) -> Iterator["os.DirEntry[str]"]:
    """Yield everything below a folder that is no folder, without following links. Folders `besides`, those that this
    thread may not read and paths that are longer than Linux takes are passed over. Uses no recursion: a program may
    nest its folders as deep as it likes."""
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
    """Every file below it that this thread may read (account.py). A link counts as the file that it leads to."""
    for entry in walk(folder):
        path = Path(entry.path)
        if is_readable(path):
            yield path


def written_below(folder: Path, *, besides: Collection[Path]) -> tuple[int, int]:
    """How many files there are and their bytes together: both stay while nothing new is written, though a file be
    written anew with what it had. Left out are those `besides`, and TensorFlow's event files, which a program that
    waits goes on to write."""
    files = size = 0
    for entry in walk(folder, besides=besides):
        path = Path(entry.path)
        try:
            if EVENT_FILE not in entry.name and is_readable(path):
                files, size = files + 1, size + path.stat().st_size
        except OSError:  # it has just been replaced: the next look sees what by
            continue
    return files, size


def is_readable(path: Path) -> bool:
    """Whether there is a file that this thread may read; no error where it may not even look whether there is one."""
    try:
        return os.access(path, os.R_OK, effective_ids=True) and path.is_file()
    except OSError:  # a path that is too long
        return False


def inside(folder: Path, relative: str) -> Path:
    """`folder / relative`, refused when it would lie elsewhere."""
    parts = PurePosixPath(relative).parts
    if not parts or ".." in parts or relative.startswith("/"):
        raise ProgramFault(f"{relative!r} points outside its folder")
    return folder.joinpath(*parts)


def fresh(folder: Path) -> None:
    """An empty folder, whatever was there. Raises OSError if what was there cannot be removed."""
    if folder.exists() or folder.is_symlink():
        remove_tree(folder)
    folder.mkdir(parents=True)
