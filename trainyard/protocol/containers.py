"""The container image of a program: as the job file names it, and as Admit pins it in job.json for all hosts."""

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any

from trainyard.protocol import image_reference
from trainyard.protocol.image_reference import NotAReferenceError, Reference
from trainyard.values.fields import Flag, Kind, Text, key, required, whole
from trainyard.values.lazy import dataclass
from trainyard.values.validation import BareWord, show_value

ARCHITECTURES = {"amd64": "x86_64", "arm64": "arm64"}
"""EC2's name of each architecture of an image."""
LAYERS = (
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd",
)
"""The types of layers that hosts unpack."""
FOREIGN = ("foreign", "nondistributable")
"""Words in the types of layers that lie outside of the registry."""
LOGIN = r"[A-Za-z0-9_.-]{1,40}"
SHORT_DIGITS = 12
"""The hexadecimal digits of a digest in the tag of an image of hosts."""
MOST_BAKED = 16
"""The container images that the tag has room for: a tag's value has up to 256 characters."""
NONE_BAKED = "none"


@dataclass(frozen=True)
class ImageReference(Kind[str]):
    """A reference to a container image."""

    words = image_reference.WORDS

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": whole(image_reference.WRITTEN)}

    def problem(self, value: object) -> str | None:
        if isinstance(value, BareWord) or not isinstance(value, str):
            return f"found {show_value(value)}; {self.words} is allowed: write it in quotes"
        try:
            image_reference.parse(value)
        except NotAReferenceError as error:
            return str(error)
        return None


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The image for one architecture."""

    digest: str
    """The digest of the manifest that hosts of this architecture pull."""
    layers: int = 0
    """The number of its layers."""
    size: int = 0
    """The sum of the compressed bytes of its layers."""
    user: str = ""
    """The USER of the image as it is written there, or empty."""
    has_entrypoint: bool = True
    """False if the image has no ENTRYPOINT."""
    has_cmd: bool = True
    """False if the image has no CMD."""
    cuda: str = ""
    """The image's CUDA_VERSION, or empty."""
    requires: str = ""
    """The image's NVIDIA_REQUIRE_CUDA: the drivers that NVIDIA's toolkit starts it with."""


@dataclass(frozen=True, kw_only=True)
class Container:
    """The container image of a program. In job.json, `digest` and `manifests` are filled in."""

    image: str = field(
        metadata=required(
            ImageReference(),
            "The container image of the program, as `docker pull` reads it: of Amazon ECR, Docker Hub "
            "(`docker.io`), `nvcr.io`, `ghcr.io` or "
            "another registry of the setting `registries`. A tag is resolved once, at the admission of the run; all "
            "hosts and attempts run these bytes ([containers](tasks/containers.md)).",
        )
    )
    entrypoint: bool = key(
        True, Flag(), "`false`: the program starts without the words of the image's ENTRYPOINT."
    )
    login: str = key(
        "",
        Text(LOGIN, "the name of a secret, up to 40 letters, digits, dots, hyphens and underscores"),
        "A secret of the yard with the text `user:password` for the registry ([secrets](#secrets)). Never for Amazon "
        "ECR, which the run reads with its own role.",
        usual="none: the registry is read without a login",
    )
    digest: str = ""
    """The digest that the tag had at admission: of the list of all architectures, or of the only manifest. Empty if
    Admit could not reach the registry; then the first host resolves the tag."""
    manifests: Mapping[str, Manifest] = field(default_factory=dict)
    """The image for each architecture, by its name in images: `amd64` or `arm64`."""

    @property
    def reference(self) -> Reference:
        """Return the registry, repository, tag and digest of the image as written."""
        return image_reference.parse(self.image)

    @property
    def pinned(self) -> "Container":
        """Return the container as a job file may contain it, with the digest that its tag had."""
        image = self.reference.at(self.digest) if self.digest else self.image
        return replace(self, image=image, digest="", manifests={})

    def for_machine(self, architecture: str) -> Manifest | None:
        """Return the image for hosts of an architecture, by EC2's name (`x86_64`, `arm64`). Return None if the image
        has none, or if Admit could not read it."""
        return next(
            (found for name, found in self.manifests.items() if ARCHITECTURES.get(name) == architecture), None
        )


def explain_layer(kind: str) -> str:
    """Return why hosts cannot unpack a layer of this type, and what to do."""
    if any(word in kind for word in FOREIGN):
        return f"it has a layer of the type {kind}, which lies outside of its registry: choose another base image"
    if ".image." not in kind:
        return f"it has a layer of the type {kind}, so it is not a container image: check its name"
    return (
        f"it has a layer of the type {kind}, which hosts cannot unpack: push it again with `docker buildx build "
        "--output type=image,compression=gzip,force-compression=true,push=true`"
    )


def write_tag(digests: Iterable[str]) -> str:
    """Return the value of the tag Tag.CONTAINERS for these digests of manifests."""
    return " ".join(map(_shorten, digests)) or NONE_BAKED


def is_in_tag(tag: str, digest: str) -> bool:
    """Return True if the value of the tag Tag.CONTAINERS names this digest of a manifest."""
    return bool(digest) and _shorten(digest) in tag.split()


def _shorten(digest: str) -> str:
    return digest.removeprefix("sha256:")[:SHORT_DIGITS]
