"""OCI images from folders: a layer for each folder, compressed by gzip, with the same digest for the same content."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


@dataclass(frozen=True)
class Blob:
    """A manifest, a configuration or a layer."""

    kind: str
    content: bytes

    @property
    def digest(self) -> str:
        return "sha256:" + hashlib.sha256(self.content).hexdigest()

    @property
    def descriptor(self) -> dict[str, Any]:
        """Return how a manifest names the blob."""
        return {"mediaType": self.kind, "digest": self.digest, "size": len(self.content)}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The configuration of an image."""

    user: str = ""
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    environment: Mapping[str, str] | None = None
    folder: str = ""
    """WORKDIR."""
    architecture: str = "amd64"


@dataclass(frozen=True)
class Image:
    """An image for one architecture."""

    manifest: Blob
    config: Blob
    layers: tuple[Blob, ...]
    architecture: str

    @property
    def descriptor(self) -> dict[str, Any]:
        """Return how a list of architectures names the image."""
        return {
            **self.manifest.descriptor,
            "platform": {"os": "linux", "architecture": self.architecture},
        }


def build(layers: Sequence[Path | bytes], settings: Settings | None = None) -> Image:
    """Return the image of folders, or of tar archives, in this order."""
    settings = settings or Settings()
    archives = [layer if isinstance(layer, bytes) else pack(layer) for layer in layers]
    blobs = tuple(Blob(LAYER, gzip.compress(archive, 6, mtime=0)) for archive in archives)
    wanted = {
        "User": settings.user,
        "Entrypoint": [*settings.entrypoint],
        "Cmd": [*settings.command],
        "Env": [f"{name}={value}" for name, value in (settings.environment or {}).items()],
        "WorkingDir": settings.folder,
    }
    sums = [f"sha256:{hashlib.sha256(archive).hexdigest()}" for archive in archives]
    config = Blob(
        CONFIG,
        _as_json(
            {
                "architecture": settings.architecture,
                "os": "linux",
                "config": {name: value for name, value in wanted.items() if value},
                "rootfs": {"type": "layers", "diff_ids": sums},
            }
        ),
    )
    described = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.descriptor,
        "layers": [blob.descriptor for blob in blobs],
    }
    return Image(Blob(MANIFEST, _as_json(described)), config, blobs, settings.architecture)


def index(images: Sequence[Image]) -> Blob:
    """Return the list of an image's architectures."""
    described = [image.descriptor for image in images]
    return Blob(INDEX, _as_json({"schemaVersion": 2, "mediaType": INDEX, "manifests": described}))


def pack(folder: Path) -> bytes:
    """Return a tar of a folder's content. All of it belongs to root and is from 1970."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            member = archive.gettarinfo(path, str(path.relative_to(folder)))
            member.uid = member.gid = member.mtime = 0
            member.uname = member.gname = "root"
            if member.isreg():
                with path.open("rb") as file:
                    archive.addfile(member, file)
            else:
                archive.addfile(member)
    return content.getvalue()


def _as_json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
