"""Manifests of images: the architectures that an image has, and the size of each.

https://github.com/opencontainers/image-spec/blob/main/manifest.md and image-index.md. The formats of Docker have the
same keys.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from trainyard.protocol.containers import ARCHITECTURES, LAYERS, Manifest, explain_layer
from trainyard.protocol.image_reference import DIGEST
from trainyard.values.lazy import dataclass

MANIFEST_KINDS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
INDEX_KINDS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
ACCEPTED = (*MANIFEST_KINDS, *INDEX_KINDS)
"""The formats that hosts read. Schema 1 of Docker is none of them."""
SYSTEM = "linux"
MOST_CHARACTERS = 40
"""The longest version that is read."""


class UnreadableManifestError(ValueError):
    """A document of a registry in a format that ACCEPTED lacks."""


@dataclass(frozen=True)
class Index:
    """The manifests of an image, by architecture."""

    digests: Mapping[str, str]
    others: tuple[str, ...]
    """Platforms that no host of a yard has, such as windows/amd64."""


@dataclass(frozen=True)
class Single:
    """The manifest of one architecture. Its configuration names the architecture."""

    config: str
    """The digest of the configuration."""
    layers: int
    size: int


def read(content: bytes) -> Index | Single:
    """Return what a manifest or an index contains. Raise UnreadableManifestError for any other document."""
    document = _object(content)
    listed = document.get("manifests")
    if isinstance(listed, list):
        return _index(listed)
    config, layers = document.get("config"), document.get("layers")
    if not isinstance(config, Mapping) or not isinstance(layers, list):
        raise UnreadableManifestError(
            "its manifest is in an old format, or is none; build the image again with a current tool and push it"
        )
    found = [layer.get("size") for layer in layers if isinstance(layer, Mapping)]
    sizes = [size for size in found if isinstance(size, int) and size >= 0]
    if len(sizes) < len(layers):
        raise UnreadableManifestError("its manifest has layers without a size; push the image again")
    kinds = [str(layer.get("mediaType")) for layer in layers]
    if other := next((kind for kind in kinds if kind not in LAYERS), None):
        raise UnreadableManifestError(explain_layer(other))
    return Single(_digest(config), len(layers), sum(sizes))


def pin(digest: str, single: Single, config: bytes) -> tuple[str, Manifest]:
    """Return the architecture of a manifest, from the configuration that it names, and the manifest."""
    document = _object(config)
    inside = document.get("config")
    user = inside.get("User") if isinstance(inside, Mapping) else ""
    architecture = str(document.get("architecture") or "")
    variables = _variables(inside)
    manifest = Manifest(
        digest=digest,
        layers=single.layers,
        size=single.size,
        user=str(user or ""),
        has_entrypoint=_has(inside, "Entrypoint"),
        has_cmd=_has(inside, "Cmd"),
        cuda=variables.get("CUDA_VERSION", "")[:MOST_CHARACTERS],
        requires="" if "NVIDIA_DISABLE_REQUIRE" in variables else variables.get("NVIDIA_REQUIRE_CUDA", ""),
    )
    if not architecture:
        raise UnreadableManifestError(
            "its configuration names no architecture, so it is not a container image: check its name"
        )
    if document.get("os") not in (None, "", SYSTEM):
        architecture = f"{document['os']}/{architecture}"
    return architecture, manifest


def _has(configuration: object, words: str) -> bool:
    return isinstance(configuration, Mapping) and bool(configuration.get(words))


def _variables(configuration: object) -> dict[str, str]:
    """Return the environment variables of an image."""
    listed = configuration.get("Env") if isinstance(configuration, Mapping) else None
    pairs = [str(each).partition("=") for each in listed] if isinstance(listed, list) else []
    return {name: value for name, _, value in pairs}


def _index(listed: Sequence[Any]) -> Index:
    digests: dict[str, str] = {}
    others = []
    for each in listed:
        platform = each.get("platform") if isinstance(each, Mapping) else None
        if not isinstance(platform, Mapping):
            continue
        system, architecture = str(platform.get("os", "")), str(platform.get("architecture", ""))
        if system == SYSTEM and architecture in ARCHITECTURES:
            digests.setdefault(architecture, _digest(each))
        elif system != "unknown":  # attestations of a build
            others.append(f"{system}/{architecture}")
    return Index(digests, tuple(others))


def _digest(described: Mapping[str, Any]) -> str:
    digest = described.get("digest")
    if not isinstance(digest, str) or not re.fullmatch(DIGEST, digest):
        raise UnreadableManifestError("its manifest names no digest of SHA-256; push the image again")
    return digest


def _object(content: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(content)
    except ValueError as error:
        raise UnreadableManifestError("its manifest is not JSON; push the image again") from error
    if not isinstance(document, Mapping):
        raise UnreadableManifestError("its manifest is JSON, but not an object; push the image again")
    return document
