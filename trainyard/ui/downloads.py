"""What a run has left, as a file: an object as it is, a folder as one archive. The browser opens nothing of it."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trainyard.client import Yard
from trainyard.client.bucket import Bucket
from trainyard.client.errors import NoModel
from trainyard.command_line import command_line
from trainyard.ui.pages.run import DOCUMENTS, PARTS


@dataclass(frozen=True)
class Download:
    """A name to save it under, what it is made of, and its bytes where they are known before."""

    name: str
    pieces: Iterator[bytes]
    size: int | None


def of(yard: Yard, run: str, name: str) -> Download:
    """`model` and the other folders, or a document. Raises NoModel where there is none."""
    bucket, key = yard.bucket, f"runs/{run}/{name}"
    if name in DOCUMENTS:
        sizes = bucket.keys(key)
        if key in sizes:
            return Download(f"{run}-{name}", bucket.pieces(key), sizes[key])
    elif name in PARTS and (keys := bucket.keys(f"{key}/")):
        return Download(f"{run}-{name}.tar", archive(bucket, f"runs/{run}/", keys), None)
    raise NoModel(f"{key} is not there", "the run has left none (yet)", command_line("show", run))


def archive(bucket: Bucket, prefix: str, keys: Mapping[str, int]) -> Iterator[bytes]:
    """A tar of the objects, made while it is read. A log may grow meanwhile: what was listed is what is in it."""
    for key, size in keys.items():
        member = tarfile.TarInfo(key.removeprefix(prefix).lstrip("/"))
        member.size = size
        yield member.tobuf(tarfile.PAX_FORMAT)
        left = size
        for piece in bucket.pieces(key):
            yield piece[:left]
            left -= min(len(piece), left)
        yield b"\0" * (left + -size % tarfile.BLOCKSIZE)
    yield b"\0" * (2 * tarfile.BLOCKSIZE)
