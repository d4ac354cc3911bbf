"""The upload of a job as objects of the bucket: a source archive, or the files of a data folder."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import tarfile
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from trainyard.client.errors import FileChanged
from trainyard.client.jobs.contents import File, Tree
from trainyard.client.jobs.path_names import ignore_file, shown_path
from trainyard.core.jobfile import program_archive
from trainyard.core.jobfile.package_lists import OTHER_LISTS
from trainyard.core.jobfile.program_archive import Archive
from trainyard.core.jobfile.references import MOST_SOURCE_BYTES
from trainyard.protocol import keys
from trainyard.values.quantities import format_bytes

ARCHIVES = (".tar", ".tar.gz", ".tgz")
ENDS = {"programs": ".tar.gz", "data": "/"}
"""The endings of keys, by their first folder."""
FIRST_SECOND, LAST_SECOND = 315_619_200, 4_354_732_800
"""The times that a zip file can hold, in any time zone: 1980-01-02 to 2107-12-31."""
LEVEL = 6
PIECE = 2**20
HEAD, MOST_HEADS = 4096, 16 * 2**20
"""The bytes inspected at the beginning of a file, and of all such beginnings together."""
MAGIC = (b"#!", b"version https://git-lfs")
LOOKED_INTO = (".py", ".sh", ".bash", *OTHER_LISTS)
"""The beginnings and endings of inspected files."""
SAMPLE, SAMPLES = 2**18, 4
"""The size of a sampled piece of a large file, and the number of pieces, for an estimate."""
LARGEST_SHOWN = 3
SOON_PACKED = 32 * 2**20
"""The largest size in bytes of a program that is packed to learn its packed size. A larger program gets an estimate."""


@dataclass(frozen=True)
class Package:
    """Files of this computer with their destination: `key` is the key of one archive, or ends in `/`."""

    key: str
    tree: Tree
    heads: Mapping[str, bytes]
    """The first bytes of scripts, lists and pointers, by the file's path."""
    holder: object = None
    """The clone that the files come from. Its folder is deleted with the last package that refers to it."""
    contents: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of each file, by its path."""

    @property
    def stem(self) -> str:
        """Return the key without the hash of the content. Packages with one stem are versions of a folder."""
        return self.key.rpartition("-")[0]

    @property
    def root(self) -> Path:
        """Return the folder, or the file if it is an archive already."""
        return self.tree.files[0].source if self.is_made else self.tree.root

    @property
    def files(self) -> tuple[File, ...]:
        return self.tree.files

    @property
    def is_folder(self) -> bool:
        """Return True if each file is an object of its own."""
        return self.key.endswith("/")

    @property
    def is_made(self) -> bool:
        """Return True for an archive that the user made."""
        return not self.is_folder and len(self.files) == 1 and self.files[0].path.endswith(ARCHIVES)

    @property
    def size(self) -> int:
        """Return the number of bytes of all files."""
        return self.tree.size

    @property
    def described(self) -> str:
        """Describe the number of files, their size and the largest ones."""
        count = f"{len(self.files):,} file{'s' if len(self.files) != 1 else ''}, {format_bytes(self.size)}"
        largest = self.tree.largest[:LARGEST_SHOWN]
        if len(self.files) == 1 or largest[0].size < PIECE:
            return count
        return f"{count}; the largest: {_name_files(largest)}"

    @property
    def packed_size(self) -> int:
        """Return the size of the archive. For a large one that is not packed yet, return an estimate."""
        if self.is_made or self.size > SOON_PACKED:
            return self.size if self.is_made else sum(map(_estimate, self.files))
        return len(content_of(self))

    def pack(self, target: IO[bytes]) -> None:
        """Write the archive. Its bytes are equal for equal files with equal times. Raise FileChanged."""
        if self.is_made:
            with open_unchanged(self.files[0]) as content:
                while piece := content.read(PIECE):
                    target.write(piece)
            return
        with (
            gzip.GzipFile(fileobj=target, mode="wb", compresslevel=LEVEL, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w") as archive,
        ):
            for folder in self.tree.empty_folders:
                archive.addfile(_member(folder, tarfile.DIRTYPE, 0o755))
            for file in self.files:
                member = _member(file.path, tarfile.REGTYPE, 0o755 if file.is_executable else 0o644)
                member.size, member.mtime = file.size, _storable(file.nanoseconds)
                with open_unchanged(file) as content:
                    archive.addfile(member, content)
            for link in self.tree.links:
                member = _member(link.path, tarfile.SYMTYPE, 0o777)
                member.linkname = link.target
                archive.addfile(member)

    def archive(self, also: str | None) -> Archive:
        """Return the contents of the archive without packing it. `also` is a file that is read beside Python files."""
        texts: dict[str, bytes] = {}
        left = program_archive.MOST_TEXTS
        for file in self.files:
            is_text = file.path.endswith(".py") or file.path == also
            if is_text and file.size <= min(program_archive.MOST_TEXT, left):
                with open_unchanged(file) as content:
                    texts[file.path] = content.read()
                left -= file.size
        names = {file.path: file.path for file in self.files} | dict(_through_links(self.tree))
        found = {path: texts[real] for path, real in names.items() if real in texts}
        return Archive(frozenset(names), found)


def make_package(
    found: Tree, kind: str, name: str, user: str, holder: object = None
) -> tuple[Package | None, tuple[str, ...]]:
    """Return the package of these files in the user's folder, named by their content, or None and the faults of
    unreadable files."""
    heads: dict[str, bytes] = {}
    contents: dict[str, str] = {}
    lines: list[str] = []
    faults: list[str] = []
    left = MOST_HEADS
    for file in found.files:
        try:
            with open_unchanged(file) as content:
                head, own = _read(content)
        except FileChanged as error:
            faults.append(f"{error.what}; {error.next_step}")
        except OSError as error:
            shown = shown_path(f"{found.shown}/{file.path}")
            faults.append(
                f"{shown} cannot be read ({error.strerror}); look at the disk, or run the command again"
            )
        else:
            lines.append(f"{file.path}\0{file.is_executable}\0{own}\n")
            contents[file.path] = own
            if left >= len(head) and (file.path.endswith(LOOKED_INTO) or head.startswith(MAGIC)):
                heads[file.path] = head
                left -= len(head)
    if faults:
        return None, tuple(faults)
    if kind == "programs":
        lines += [f"{link.path}\0{link.target}\n" for link in found.links]
        lines += [f"{folder}/\n" for folder in found.empty_folders]
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    made = [each for each in ARCHIVES if kind == "programs" and name.endswith(each)]
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", name.partition(".")[0]).strip("-") or kind
    key = f"{keys.owned(f'{kind}/', user)}{stem}-{digest[:16]}{[*made, ENDS[kind]][0]}"
    return Package(key, found, heads, holder, contents), ()


def estimate_too_large(found: Tree) -> str | None:
    """Return why a program is too large to be uploaded, before it is read: by its size if it is an archive, otherwise
    by an estimate of its packed size."""
    if found.size <= MOST_SOURCE_BYTES:
        return None
    is_made = len(found.files) == 1 and found.files[0].path.endswith(ARCHIVES)
    packed = found.size if is_made else sum(_estimate(file) for file in found.files if file.size >= PIECE)
    return too_large(found, packed) if packed > MOST_SOURCE_BYTES else None


def too_large(found: Tree, packed: int) -> str:
    """Return why a program of this packed size cannot be uploaded."""
    whole = "" if packed == found.size else f"{format_bytes(found.size)}, "
    return (
        f"{found.shown} is too large: it has {whole}{format_bytes(packed)} packed, and up to "
        f"{format_bytes(MOST_SOURCE_BYTES)} are allowed; the largest: {_name_files(found.largest[:LARGEST_SHOWN])}. "
        "Put data under `data` of the job file, or "
        f"name what stays behind in {ignore_file(found.shown)}"
    )


@contextmanager
def open_unchanged(file: File) -> Iterator[IO[bytes]]:
    """Open a file that was seen before. Raise FileChanged if it has changed, before or while it is read."""
    try:
        with file.source.open("rb") as content:
            _check(file, os.fstat(content.fileno()))
            yield content
            _check(file, os.fstat(content.fileno()))
    except FileNotFoundError as error:
        raise _changed_error(file, "vanished") from error


def _check(file: File, found: os.stat_result) -> None:
    if (found.st_size, found.st_mtime_ns) != (file.size, file.nanoseconds):
        raise _changed_error(file, "changed")


def _changed_error(file: File, how: str) -> FileChanged:
    return FileChanged(
        f"{shown_path(str(file.source))} {how} while it was read",
        "the run would have an unknown content, so none was started",
        "run the command again once no other program writes there",
    )


def _read(content: IO[bytes]) -> tuple[bytes, str]:
    """Return the first bytes, and the SHA-256 of all."""
    head = piece = content.read(HEAD)
    total = hashlib.sha256()
    while piece:
        total.update(piece)
        piece = content.read(PIECE)
    return head, total.hexdigest()


def _member(path: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path)
    member.type, member.mode, member.mtime = kind, mode, FIRST_SECOND
    return member


def _storable(nanoseconds: int) -> int:
    return min(max(nanoseconds // 10**9, FIRST_SECOND), LAST_SECOND)


def _estimate(file: File) -> int:
    """Estimate the packed size of a file from some pieces."""
    read = packed = 0
    with open_unchanged(file) as content:
        for number in range(SAMPLES):
            content.seek(number * file.size // SAMPLES)
            piece = content.read(SAMPLE)
            read, packed = read + len(piece), packed + len(zlib.compress(piece, LEVEL))
    return file.size * packed // read if read else 0


def _through_links(found: Tree) -> Iterator[tuple[str, str]]:
    """Yield each path that a file also has through a link, with the file's own path."""
    paths = sorted(file.path for file in found.files)
    for link in found.links:
        target = os.path.normpath(f"{link.path}/../{link.target}")
        below = "" if target == "." else f"{target}/"
        if f"{link.path}/".startswith(below):
            continue  # A link to a folder that contains it adds nothing.
        first, behind = (
            bisect_left(paths, target),
            bisect_left(paths, f"{target}0"),
        )  # "0" follows "/" in ASCII
        for path in paths[first:behind]:
            if path == target:
                yield link.path, path
            elif path.startswith(below):
                yield f"{link.path}/{path.removeprefix(below)}", path


def _name_files(files: tuple[File, ...]) -> str:
    return ", ".join(f"{shown_path(file.path)} ({format_bytes(file.size)})" for file in files)


def content_of(package: Package) -> bytes:
    """Return the packed archive."""
    buffer = io.BytesIO()
    package.pack(buffer)
    return buffer.getvalue()
