"""What a run has left, as a file: an object as it is, a folder as one archive. The browser opens nothing of it."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from trainyard.client import Yard
from trainyard.client.bucket import Bucket
from trainyard.client.errors import NoModel
from trainyard.command_line import command_line
from trainyard.protocol import keys
from trainyard.ui.pages.run import DOCUMENTS, PARTS

ODD = re.compile(
    r'[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\\:*?"<>|]|%(?=[0-9A-F]{2})'
)
"""Characters that a file system, an extractor or a terminal may take for something else; and what looks encoded."""
DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(?=\.|$)", re.IGNORECASE)
"""Names that are no files on Windows, whatever follows the point."""


@dataclass(frozen=True)
class Download:
    """A name to save it under, what it is made of, and its bytes where they are known before."""

    name: str
    pieces: Iterator[bytes]
    size: int | None


def of(yard: Yard, run: str, name: str) -> Download:
    """`model` and the other folders, or a document. Raises NoModel where there is none."""
    bucket, key = yard.bucket, f"{keys.run(run)}{name}"
    if name in DOCUMENTS:
        sizes = bucket.keys(key)
        if key in sizes:
            return Download(f"{run}-{name}", bucket.pieces(key), sizes[key])
    elif name in PARTS and (sizes := bucket.keys(f"{key}/")):
        return Download(f"{run}-{name}.tar", archive(bucket, keys.run(run), sizes), None)
    raise NoModel(f"{key} is not there", "the run has left none (yet)", command_line("show", run))


def archive(bucket: Bucket, prefix: str, keys: Mapping[str, int]) -> Iterator[bytes]:
    """A tar of the objects, made while it is read. A log may grow meanwhile: what was listed is what is in it."""
    names = member_names([key.removeprefix(prefix) for key in keys])
    for key, size in keys.items():
        if (name := names.get(key.removeprefix(prefix))) is None:
            continue
        member = tarfile.TarInfo(name)
        member.size = size
        yield member.tobuf(tarfile.PAX_FORMAT)
        left = size
        for piece in bucket.pieces(key):
            yield piece[:left]
            left -= min(len(piece), left)
        yield b"\0" * (left + -size % tarfile.BLOCKSIZE)
    yield b"\0" * (2 * tarfile.BLOCKSIZE)


def member_names(keys: Collection[str]) -> dict[str, str]:
    """Return the path that each key becomes in an archive, different for each, none of which leads out of the folder.

    A program chooses its keys. What is no plain name is percent-encoded: `..`, an empty part, control characters,
    a backslash, a name of a device. A file whose name other keys need for a folder ends with a percent sign. Keys that
    end with a slash only mark a folder and become none.
    """
    folders = {str(above) for key in keys for above in PurePosixPath(key).parents}
    return {
        key: "/".join(map(_encoded, key.split("/"))) + ("%" if key in folders else "")
        for key in keys
        if not key.endswith("/")
    }


def _encoded(part: str) -> str:
    if not part.strip("."):
        return "%2E" * len(part) or "%"
    text = ODD.sub(lambda found: _percent(found[0]), part)
    text = (
        DEVICE.sub(lambda found: _percent(found[0][0]) + found[0][1:], text) if DEVICE.match(text) else text
    )
    return text[:-1] + _percent(text[-1]) if text[-1] in ". " else text


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode(errors="surrogatepass"))
