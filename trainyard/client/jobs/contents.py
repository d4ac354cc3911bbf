"""The files of a folder that go along with a job, and what stays behind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class File:
    """One file: its path in the package, and what a look at it shows."""

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
    """A file or folder that stays behind. `by`: the ignore file that says so; empty for what never goes along."""

    path: str
    why: str
    by: str = ""
    size: int = 0
    is_more: bool = False
    """Its size is larger: not all of its files were counted."""


@dataclass(frozen=True)
class Tree:
    """What goes along of a folder, or of one file. `shown` is the folder's path as a user types it."""

    root: Path
    shown: str
    files: tuple[File, ...]
    links: tuple[Link, ...] = ()
    empty_folders: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def is_empty(self) -> bool:
        return not self.files

    @property
    def largest(self) -> tuple[File, ...]:
        """The files by size, the largest first."""
        return tuple(sorted(self.files, key=lambda file: (-file.size, file.path)))
