"""The files of a folder that are uploaded with a job, and the files that stay behind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class File:
    """A file that is uploaded: its path in the package, and its properties."""

    path: str
    source: Path
    size: int
    nanoseconds: int
    """When it was last modified."""
    is_executable: bool = False


@dataclass(frozen=True)
class Link:
    """A link to another path of the same package."""

    path: str
    target: str


@dataclass(frozen=True)
class LeftOut:
    """A file or folder that stays behind. `by` is the ignore file that excludes it; empty for files that are never
    uploaded."""

    path: str
    why: str
    by: str = ""
    size: int = 0
    is_more: bool = False
    """True if the size is larger, because not all of its files were counted."""


@dataclass(frozen=True)
class Tree:
    """The uploaded files of a folder, or one file. `shown` is the folder's path as the user writes it."""

    root: Path
    shown: str
    files: tuple[File, ...]
    links: tuple[Link, ...] = ()
    empty_folders: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Return the number of bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def is_empty(self) -> bool:
        return not self.files

    @property
    def largest(self) -> tuple[File, ...]:
        """Return the files by size, the largest first."""
        return tuple(sorted(self.files, key=lambda file: (-file.size, file.path)))
