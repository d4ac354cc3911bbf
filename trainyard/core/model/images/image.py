"""An image as EC2 and the yard's tags describe it, and the image that a name selects."""

from collections.abc import Iterable, Mapping

from trainyard.core.model.images.tensorflow_releases import is_version
from trainyard.protocol.tags import Tag
from trainyard.values.lazy import dataclass

AMI = r"ami-[0-9a-f]{8,17}"
"""The pattern of an image's id."""


@dataclass(frozen=True)
class Snapshot:
    """One disk of an image. `gib` is the size of the whole volume; EC2 stores only the written blocks."""

    id: str
    gib: int


@dataclass(frozen=True)
class Image:
    """An image of EC2."""

    id: str
    name: str
    state: str
    reason: str
    """Why the image failed."""
    created: str
    """EC2's ISO 8601 text, which sorts by time."""
    tags: Mapping[str, str]
    architecture: str = ""
    """EC2's name: `x86_64` or `arm64`."""
    snapshots: tuple[Snapshot, ...] = ()
    protected: bool = False
    """True if EC2 protects the image from being deregistered."""

    @property
    def available(self) -> bool:
        return self.state == "available"

    def is_of(self, yard: str) -> bool:
        """Return True if this yard made the image. Only such images can be started, and only such images are
        retired."""
        return self.tags.get(Tag.YARD) == yard

    @property
    def run(self) -> str:
        """Return the run whose host became the image, otherwise the execution that made the image."""
        return self.tags.get(Tag.RUN, "")

    @property
    def execution(self) -> str:
        """Return the execution that made a snapshot."""
        return self.tags.get(Tag.EXECUTION, "")

    @property
    def family(self) -> str:
        return self.tags.get(Tag.FAMILY, "")

    @property
    def tensorflow(self) -> str:
        """Return the version of TensorFlow that the bake found; empty if it was not determined."""
        return self.tags.get(Tag.TENSORFLOW, "")

    @property
    def is_baked(self) -> bool:
        return self.tags.get(Tag.KIND) == "baked"

    @property
    def parent(self) -> str:
        """Return the image that the host started from."""
        return self.tags.get(Tag.PARENT, "")


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A snapshot in EC2."""

    id: str
    gib: int
    created: str
    family: str
    makers: tuple[str, ...]
    """The run of the imaged host, and the execution that made the snapshot."""
    image: str
    """The image that CreateImage made the snapshot for, according to its description."""
    made: bool
    """True if the yard made the snapshot for an image; False if a user made it from a volume."""


def select_image(name: str | Mapping[str, str], images: Iterable[Image]) -> Image | None:
    """Return the image with this id, otherwise the newest image of the run with this id, otherwise the newest image of
    the family with this name. For a mapping, return the newest baked image with this version of TensorFlow.

    An image that is not available counts only if the run or family has no available one.
    """
    known = tuple(images)
    if not isinstance(name, str):
        baked = [
            image for image in known if image.is_baked and is_version(image.tensorflow, name["tensorflow"])
        ]
        return newest(baked) if baked else None
    for mine in (
        [image for image in known if image.id == name],
        [image for image in known if name in (image.run, image.execution)],
        [image for image in known if image.family == name],
    ):
        if mine:
            return newest(mine)
    return None


def newest(images: Iterable[Image]) -> Image:
    """Return the newest available image, or the newest if none is available. Raise ValueError for no images."""
    return max(images, key=lambda image: (image.available, image.created, image.id))
