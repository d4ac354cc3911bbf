"""The record of the downloads in a folder, with the run they belong to."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Self
from uuid import uuid4

RECORD = ".trainyard/fetched.json"
"""The file in a folder that lists the downloads."""
HALF = ".trainyard-"
"""The prefix of a file that is being downloaded."""


@dataclass(frozen=True)
class FetchedFile:
    """A downloaded file as it was written, with the ETag of its object."""

    etag: str
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, target: Path, etag: str = "") -> Self:
        seen = target.stat()
        return cls(etag, seen.st_size, seen.st_mtime_ns)


@dataclass
class Record:
    """The downloads in a folder, and their run. `files` and `links` are by name."""

    owner: str = ""
    files: dict[str, FetchedFile] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Return the record, or an empty one if the folder has no readable record."""
        try:
            said = json.loads((folder / RECORD).read_text())
            files = {name: FetchedFile(**known) for name, known in said["files"].items()}
            return cls(str(said["owner"]), files, dict(said["links"]))
        except (FileNotFoundError, NotADirectoryError, ValueError, TypeError, KeyError, AttributeError):
            return cls()

    def write(self, folder: Path) -> None:
        """Write the record completely or not at all."""
        target = folder / RECORD
        target.parent.mkdir(parents=True, exist_ok=True)
        half = target.with_name(f"{HALF}{uuid4().hex}")
        try:
            half.write_text(json.dumps(asdict(self), indent=1))
            half.replace(target)
        finally:
            half.unlink(missing_ok=True)

    def is_untouched(self, name: str, target: Path) -> bool:
        """Return True if the file has not changed since its download."""
        known = self.files.get(name)
        if known is None or target.is_symlink() or not target.is_file():
            return False
        seen = target.stat()
        return (known.size, known.mtime_ns) == (seen.st_size, seen.st_mtime_ns)


def changed_by_user(folder: Path, before: Record, missing: Iterable[str]) -> tuple[str, ...]:
    """Return the files that are replaced although the user has put them there or changed them."""
    return tuple(
        name for name in missing if (folder / name).is_file() and not before.is_untouched(name, folder / name)
    )


def remove_replaced(folder: Path, record: Record, folders: Collection[str]) -> None:
    """Remove downloaded files of the same run whose names are folders in the bucket now."""
    for name in [name for name in record.files if name in folders]:
        if record.is_untouched(name, folder / name):
            (folder / name).unlink()
            del record.files[name]


def remove_others(folder: Path, before: Record, stay: Collection[str]) -> tuple[str, ...]:
    """Remove downloads from another run that are not replaced."""
    others = [name for name in before.files if name not in stay]
    removed = [name for name in others if before.is_untouched(name, folder / name)]
    removed += [name for name, to in before.links.items() if _leads_to(folder / name, to)]
    for name in removed:
        (folder / name).unlink()
        for above in PurePosixPath(name).parents:
            if above.name and not any((folder / above).iterdir()):
                (folder / above).rmdir()
    return tuple(removed)


def _leads_to(link: Path, to: str) -> bool:
    return link.is_symlink() and link.readlink() == Path(to)
