"""Compare a file on the disk with its object in S3: by size, and by the MD5 checksums that S3 gives as ETags.

The ETag of an object that was uploaded in one piece is the MD5 of its bytes. For an upload in n parts it is the MD5 of
the parts' MD5s, followed by `-n`. Objects that a KMS key encrypts have no checksum. For these the size is compared, and
TLS and S3 protect the content.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path

from training.host.bucket import Object

PIECE = 1024 * 1024
PARTS_AT_ONCE = 4


def difference(
    path: Path,
    item: Object,
    part_sizes: Callable[[int], Sequence[int]],
    has_sum: Callable[[], bool],
) -> str | None:
    """Return how the file differs from its object, or None if it does not.

    `part_sizes(n)` returns the sizes in bytes of the object's first n parts. `has_sum()` returns True if the object's
    ETag is a checksum.
    """
    size = path.stat().st_size
    if size != item.size:
        return f"{size} bytes instead of {item.size}"
    parts = parts_in(item.etag)
    if not parts:
        found = md5(path)
    else:
        found = md5_of_parts(path, even_parts(size, parts, first=part_sizes(1)[0]))
    if found == item.etag or not has_sum():
        return None
    if parts:
        found = md5_of_parts(path, part_sizes(parts))
    return None if found == item.etag else f"ETag {found} instead of {item.etag}"


def parts_in(etag: str) -> int:
    """Return the number of parts of an object's upload; 0 for one piece."""
    _, dash, count = etag.partition("-")
    return int(count) if dash else 0


def even_parts(size: int, parts: int, *, first: int) -> list[int]:
    """Return the part sizes that nearly all uploaders choose: all like the first, with the rest in the last."""
    return [first] * (parts - 1) + [size - first * (parts - 1)]


def md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, _md5).hexdigest()


def md5_of_parts(path: Path, sizes: Sequence[int]) -> str:
    """Return the ETag of the file for an upload in parts of these sizes. The parts are read in parallel."""
    starts = [0, *accumulate(sizes)][: len(sizes)]
    with path.open("rb") as file, ThreadPoolExecutor(PARTS_AT_ONCE, thread_name_prefix="sum") as pool:
        digests = pool.map(lambda start, size: _digest(file.fileno(), start, size), starts, sizes)
        whole = _md5(b"".join(digests))
    return f"{whole.hexdigest()}-{len(sizes)}"


def _digest(file: int, start: int, size: int) -> bytes:
    """Return the MD5 of one part of a file."""
    part, end = _md5(), start + size
    while start < end and (piece := os.pread(file, min(PIECE, end - start), start)):
        part.update(piece)
        start += len(piece)
    return part.digest()


def _md5(body: bytes = b"") -> "hashlib._Hash":
    return hashlib.md5(body, usedforsecurity=False)
