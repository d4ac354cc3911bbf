"""The contents that a source archive may have. The client, the function that admits a job and the host all check it.

The check reads no file system: the members before a link decide its target. An archive cannot write outside its folder,
use much of its reader's memory, or keep its reader busy forever.
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
"""The largest sum of all files, unpacked."""
MOST_HEADER_BYTES = 2**20
"""The largest header: a long name, or the pax records of a member."""
DEEPEST = 64
LONGEST_NAME, LONGEST_PART = 1024, 255
"""The most bytes of a member's whole name, and of each part of the name. Linux allows no longer part."""
PATIENCE = 16
"""How often a reader may read at the end of the archive. Some loops of tarfile wait there for more bytes."""
BROKEN = (
    gzip.BadGzipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError,
    ValueError, LookupError, ArithmeticError, TypeError, RecursionError,
)  # fmt: skip
"""The exceptions that a damaged archive raises, unlike a faulty disk."""
PACKED: Mapping[bytes, Callable[[IO[bytes]], IO[bytes]]] = {
    b"\x1f\x8b": lambda file: cast(IO[bytes], gzip.GzipFile(fileobj=file)),
    b"BZh": lambda file: cast(IO[bytes], bz2.BZ2File(file)),
    b"\xfd7zXZ\x00": lambda file: cast(IO[bytes], lzma.LZMAFile(file)),  # noqa: SIM115 - its reader closes it
}
"""The readers of a packed tar, by its first bytes."""


class NotAllowedError(Exception):
    """A member that cannot be unpacked, with the reason."""


def open_tar(file: IO[bytes]) -> tarfile.TarFile:
    """Open the tar in a file, plain or packed by gzip, bzip2 or xz.

    Raise one of BROKEN if the file is not a tar. Reading raises NotAllowedError for a header that is too large.
    """
    start = file.read(6)
    file.seek(0)
    unpacked = next((unpack(file) for magic, unpack in PACKED.items() if start.startswith(magic)), file)
    return tarfile.open(fileobj=cast(Any, _InPieces(unpacked)), mode="r:")


def members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield each member in order. Raise NotAllowedError at the first member that cannot be unpacked."""
    tree = _Tree()
    for member in tar:
        tree.add(member)
        yield member


class _InPieces:
    """A file that refuses large reads, because a header itself states how long the next header is."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._waited = 0

    def read(self, size: int) -> bytes:
        if size > MOST_HEADER_BYTES:
            raise NotAllowedError(
                f"one of its headers has {size} bytes; up to {MOST_HEADER_BYTES} are allowed"
            )
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
    """The files and folders of the members read so far, by path."""

    def __init__(self) -> None:
        self._kinds: dict[PurePosixPath, str] = {}
        self._members = self._bytes = 0

    def add(self, member: tarfile.TarInfo) -> None:
        name, path, kind = show_name(member.name), _path_of(member), _kind_of(member)
        self._members += 1
        self._bytes += member.size if kind == "file" else 0
        if self._members > MOST_MEMBERS:
            raise NotAllowedError(f"it has more than {MOST_MEMBERS} members")
        if member.size < 0:
            raise NotAllowedError(f"{name} has {member.size} bytes")
        if self._bytes > MOST_BYTES:
            raise NotAllowedError(
                f"it has more than {MOST_BYTES} bytes when unpacked; data belongs in the job's data"
            )
        for parent in path.parents[:-1]:
            if self._kinds.setdefault(parent, "folder") != "folder":
                raise NotAllowedError(
                    f"{name} is written through a {self._kinds[parent]}, {show_name(str(parent))}"
                )
        before = self._kinds.get(path)
        if before is not None and (before != kind or kind.endswith("link")):
            raise NotAllowedError(f"it contains {name} twice, as a {before} and as a {kind}")
        if kind == "symbolic link":
            _check_target(member, path)
        if kind == "hard link" and self._kinds.get(PurePosixPath(member.linkname)) not in (
            "file",
            "hard link",
        ):
            raise NotAllowedError(
                f"{name} is a hard link to {show_name(member.linkname)}, which is not a file before it in the archive"
            )
        self._kinds[path] = kind


def _path_of(member: tarfile.TarInfo) -> PurePosixPath:
    path, size = PurePosixPath(member.name), len(member.name.encode(errors="surrogateescape"))
    longest = max((len(part.encode(errors="surrogateescape")) for part in path.parts), default=0)
    if path.is_absolute() or ".." in path.parts:
        raise NotAllowedError(f"{show_name(member.name)} is outside the archive's folder")
    if "\0" in member.name or size > LONGEST_NAME or longest > LONGEST_PART:
        raise NotAllowedError(f"{show_name(member.name)} is not a valid file name")
    if len(path.parts) > DEEPEST:
        raise NotAllowedError(f"{show_name(member.name)} is more than {DEEPEST} folders deep")
    return path


def _kind_of(member: tarfile.TarInfo) -> str:
    if member.issym() or member.islnk():
        return "symbolic link" if member.issym() else "hard link"
    if member.issparse():
        raise NotAllowedError(f"{show_name(member.name)} is a sparse file; pack it without --sparse")
    if not (member.isreg() or member.isdir()):
        raise NotAllowedError(f"{show_name(member.name)} is neither a file, a folder nor a link")
    return "folder" if member.isdir() else "file"


def _check_target(member: tarfile.TarInfo, path: PurePosixPath) -> None:
    """Raise NotAllowedError unless the link goes up at most to the archive's folder and then down. A path that goes up
    after another link could lead anywhere."""
    target = PurePosixPath(member.linkname)
    up = next((count for count, part in enumerate(target.parts) if part != ".."), len(target.parts))
    if target.is_absolute() or up > len(path.parent.parts) or "\0" in member.linkname:
        raise NotAllowedError(
            f"{show_name(member.name)} is a link to {show_name(member.linkname)}, outside the archive's folder"
        )
    if ".." in target.parts[up:]:
        raise NotAllowedError(
            f"{show_name(member.name)} is a link to {show_name(member.linkname)}, which goes up after it has gone down"
        )


def show_name(name: str) -> str:
    """Return a member's name for users: at most 100 characters, with characters that are not printable as escapes."""
    return ascii(name[:100])[1:-1] if not name[:100].isprintable() else name[:100]
