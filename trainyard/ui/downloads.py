"""Downloads of a run's results: an object as it is, a folder as a tar archive. The browser only saves them."""

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
"""Characters that a file system, an extractor or a terminal may misread, and text that looks percent-encoded."""
DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(?=\.|$)", re.IGNORECASE)
"""Names of Windows devices, with any extension."""


@dataclass(frozen=True)
class Download:
    """A file to download."""

    name: str
    pieces: Iterator[bytes]
    size: int | None
    """Bytes; None if unknown."""


def open_download(yard: Yard, run: str, name: str) -> Download:
    """Return a folder such as `model` as an archive, or a file such as summary.json. Raises NoModel."""
    bucket, key = yard.bucket, f"{keys.run(run)}{name}"
    if name in DOCUMENTS:
        sizes = bucket.keys(key)
        if key in sizes:
            return Download(f"{run}-{name}", bucket.pieces(key), sizes[key])
    elif name in PARTS and (sizes := bucket.keys(f"{key}/")):
        return Download(f"{run}-{name}.tar", archive(bucket, keys.run(run), sizes), None)
    raise NoModel(
        f"{key} does not exist", "the run has not written it, or not yet", command_line("show", run)
    )


def archive(bucket: Bucket, prefix: str, keys: Mapping[str, int]) -> Iterator[bytes]:
    """Yield a tar archive of the objects. A growing log is cut at its listed size."""
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
    """Return a distinct path inside the archive for each key.

    Programs choose their keys, so unsafe parts are percent-encoded: `..`, empty parts, control characters, backslashes
    and device names. A file with the name of another key's folder gets a percent sign at its end. Keys that end with a
    slash only mark a folder and are dropped.
    """
    folders = {str(above) for key in keys for above in PurePosixPath(key).parents}
    return {
        key: "/".join(map(_encode, key.split("/"))) + ("%" if key in folders else "")
        for key in keys
        if not key.endswith("/")
    }


def _encode(part: str) -> str:
    if not part.strip("."):
        return "%2E" * len(part) or "%"
    text = ODD.sub(lambda found: _percent(found[0]), part)
    text = (
        DEVICE.sub(lambda found: _percent(found[0][0]) + found[0][1:], text) if DEVICE.match(text) else text
    )
    return text[:-1] + _percent(text[-1]) if text[-1] in ". " else text


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode(errors="surrogatepass"))
