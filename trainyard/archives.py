"""What a program's archive may hold: one check, for who packs it, for the function that admits it and for the host.

It knows no file system: where a link leads is found out from the members before it. Nothing of an archive is written
outside its folder, and none makes its reader take much memory, or read for ever.
"""

import bz2
import gzip
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import IO, Any, cast

MOST_MEMBERS = 100_000
MOST_BYTES = 10 * 2**30
"""Of all files, unpacked."""
MOST_HEADER_BYTES = 2**20
"""Of a header: a long name, or what pax says of a member."""
DEEPEST = 64
LONGEST_NAME, LONGEST_PART = 1024, 255
"""Bytes of a member's whole name, and of each part of it: Linux takes no longer part."""
PATIENCE = 16
"""How often somebody may go on reading at the end: tarfile has loops that wait there for more."""
BROKEN = (
    gzip.BadGzipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError,
    ValueError, LookupError, ArithmeticError, TypeError, RecursionError,
)  # fmt: skip
"""What reading raises where the archive is at fault, and not the disk it lies on."""
PACKED: Mapping[bytes, Callable[[IO[bytes]], IO[bytes]]] = {
    b"\x1f\x8b": lambda file: cast(IO[bytes], gzip.GzipFile(fileobj=file)),
    b"BZh": lambda file: cast(IO[bytes], bz2.BZ2File(file)),
    b"\xfd7zXZ\x00": lambda file: cast(IO[bytes], lzma.LZMAFile(file)),  # noqa: SIM115 - its reader closes it
}
"""How a packed tar is read, by its first bytes."""


class NotAllowedError(Exception):
    """A member that may not be unpacked, and why."""


def opened(file: IO[bytes]) -> tarfile.TarFile:
    """The tar in this file, plain or packed by gzip, bzip2 or xz. Raises one of BROKEN for what is none, and when it is
    read, NotAllowedError for a header that is too large."""
    start = file.read(6)
    file.seek(0)
    unpacked = next((unpack(file) for magic, unpack in PACKED.items() if start.startswith(magic)), file)
    return tarfile.open(fileobj=cast(Any, _InPieces(unpacked)), mode="r:")


def members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Each member that may be unpacked, in its order; raises NotAllowedError at the first that may not."""
    tree = _Tree()
    for member in tar:
        tree.add(member)
        yield member


class _InPieces:
    """A file of which nobody reads much at once: a header says itself how long the one after it is."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._waited = 0

    def read(self, size: int) -> bytes:
        if size > MOST_HEADER_BYTES:
            raise NotAllowedError(f"a header of it has {size} bytes; up to {MOST_HEADER_BYTES} are allowed")
        found = self._file.read(max(0, size))
        self._waited = 0 if found else self._waited + 1
        if self._waited > PATIENCE:
            raise tarfile.ReadError("unexpected end of data")
        return found

    def seek(self, offset: int) -> int:
        return self._file.seek(offset)

    def tell(self) -> int:
        return self._file.tell()


class _Tree:
    """What the members so far make, by path."""

    def __init__(self) -> None:
        self._kinds: dict[PurePosixPath, str] = {}
        self._members = self._bytes = 0

    def add(self, member: tarfile.TarInfo) -> None:
        name, path, kind = shown(member.name), _path_of(member), _kind_of(member)
        self._members += 1
        self._bytes += member.size if kind == "file" else 0
        if self._members > MOST_MEMBERS:
            raise NotAllowedError(f"it has more than {MOST_MEMBERS} members")
        if member.size < 0:
            raise NotAllowedError(f"{name} has {member.size} bytes")
        if self._bytes > MOST_BYTES:
            raise NotAllowedError(
                f"unpacked it has more than {MOST_BYTES} bytes; data belongs into the job's data"
            )
        for parent in path.parents[:-1]:
            if self._kinds.setdefault(parent, "folder") != "folder":
                raise NotAllowedError(
                    f"{name} is written through a {self._kinds[parent]}, {shown(str(parent))}"
                )
        before = self._kinds.get(path)
        if before is not None and (before != kind or kind.endswith("link")):
            raise NotAllowedError(f"{name} is there twice, as a {before} and as a {kind}")
        if kind == "symbolic link":
            _check_target(member, path)
        if kind == "hard link" and self._kinds.get(PurePosixPath(member.linkname)) not in (
            "file",
            "hard link",
        ):
            raise NotAllowedError(
                f"{name} is a hard link to {shown(member.linkname)}, no file that comes before it"
            )
        self._kinds[path] = kind


def _path_of(member: tarfile.TarInfo) -> PurePosixPath:
    path, size = PurePosixPath(member.name), len(member.name.encode(errors="surrogateescape"))
    longest = max((len(part.encode(errors="surrogateescape")) for part in path.parts), default=0)
    if path.is_absolute() or ".." in path.parts:
        raise NotAllowedError(f"{shown(member.name)} is outside the archive's folder")
    if "\0" in member.name or size > LONGEST_NAME or longest > LONGEST_PART:
        raise NotAllowedError(f"{shown(member.name)} has a name that no file can have")
    if len(path.parts) > DEEPEST:
        raise NotAllowedError(f"{shown(member.name)} is more than {DEEPEST} folders deep")
    return path


def _kind_of(member: tarfile.TarInfo) -> str:
    if member.issym() or member.islnk():
        return "symbolic link" if member.issym() else "hard link"
    if member.issparse():
        raise NotAllowedError(f"{shown(member.name)} is a sparse file; pack it without --sparse")
    if not (member.isreg() or member.isdir()):
        raise NotAllowedError(f"{shown(member.name)} is neither a file, a folder nor a link")
    return "folder" if member.isdir() else "file"


def _check_target(member: tarfile.TarInfo, path: PurePosixPath) -> None:
    """It may go up as far as the archive's folder, and then down: who goes up after another link may be anywhere."""
    target = PurePosixPath(member.linkname)
    up = next((count for count, part in enumerate(target.parts) if part != ".."), len(target.parts))
    if target.is_absolute() or up > len(path.parent.parts) or "\0" in member.linkname:
        raise NotAllowedError(
            f"{shown(member.name)} is a link to {shown(member.linkname)}, outside the archive's folder"
        )
    if ".." in target.parts[up:]:
        raise NotAllowedError(
            f"{shown(member.name)} is a link to {shown(member.linkname)}, which goes up after it has gone down"
        )


def shown(name: str) -> str:
    """A member's name as people may be shown it: what is not printable as its escape, at most 100 characters."""
    return ascii(name[:100])[1:-1] if not name[:100].isprintable() else name[:100]
