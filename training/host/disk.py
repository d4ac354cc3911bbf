"""The host's disk: folders, how much is free, and a reserve that lets the agent speak when nothing is."""

import errno
import os
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

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
RESERVE_BYTES = 16 * 1024 * 1024
FULL_BELOW = 8 * 1024 * 1024
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
    """`reserve` is a file in the folder that the program fills."""

    reserve: Path

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

    def trouble(self, error: OSError) -> HostTrouble:
        """What an error of the operating system means. A full disk would be as full the next time."""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return HostTrouble(f"{self.room().advice} ({error})", final=True)
        return HostTrouble(
            f"this host's disk or network is in trouble: {error}", passes=error.errno in PASSING_ERRORS
        )


def readable_files(folder: Path) -> Iterator[Path]:
    """Every file below it that this thread may read (account.py). A link counts as the file that it leads to."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            if is_readable(path):
                yield path


def written_below(folder: Path, *, besides: Collection[Path]) -> tuple[int, int]:
    """How many files there are and their bytes together: both stay while nothing new is written, though a file be
    written anew with what it had. Left out are those `besides`, and TensorFlow's event files, which a program that
    waits goes on to write."""
    files = size = 0
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if Path(parent, name) not in besides]
        for name in names:
            path = Path(parent, name)
            try:
                if EVENT_FILE not in name and is_readable(path):
                    files, size = files + 1, size + path.stat().st_size
            except FileNotFoundError:  # it has just been replaced: the next look sees what by
                continue
    return files, size


def is_readable(path: Path) -> bool:
    """Whether there is a file that this thread may read; no error where it may not even look whether there is one."""
    return os.access(path, os.R_OK, effective_ids=True) and path.is_file()


def inside(folder: Path, relative: str) -> Path:
    """`folder / relative`, refused when it would lie elsewhere."""
    parts = PurePosixPath(relative).parts
    if not parts or ".." in parts or relative.startswith("/"):
        raise ProgramFault(f"{relative!r} points outside its folder")
    return folder.joinpath(*parts)


def fresh(folder: Path) -> None:
    """An empty folder, whatever was there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
