"""Unpack the source archive of a run into a folder of this computer."""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path
from typing import Any

from trainyard import archives
from trainyard.client.errors import ArchiveBroken
from trainyard.client.fetch_record import HALF
from trainyard.client.fetching import Fetched, check_folder, move_into

FILTER: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
"""An additional check of members, if this Python has it."""


def unpack(archive: Path, folder: Path, *, uri: str, owner: str) -> Fetched:
    """Unpack a tar into the folder. Raise ArchiveBroken and leave the folder unchanged if the tar is invalid."""
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=HALF, dir=folder) as made:
        try:
            with archive.open("rb") as file, archives.open_tar(file) as tar:
                for member in archives.members(tar):
                    member.mode = (member.mode & 0o755) | (0o700 if member.isdir() else 0o600)
                    tar.extract(member, made, set_attrs=not member.issym(), **FILTER)
        except (archives.NotAllowedError, *archives.BROKEN) as error:
            raise ArchiveBroken(
                f"{uri} cannot be unpacked: {error}",
                "nothing was written",
                f"aws s3 cp {uri} . fetches it as it is",
            ) from error
        return move_into(Path(made), folder, owner=owner)
