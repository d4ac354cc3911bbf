"""An image as EC2 and the yard's tags tell of it, and which one a name means."""

from collections.abc import Iterable, Mapping

from trainyard.core.model.images.tensorflow_releases import is_version
from trainyard.protocol.tags import Tag
from trainyard.values.lazy import dataclass

AMI = r"ami-[0-9a-f]{8,17}"
"""What an image's id looks like."""


@dataclass(frozen=True)
class Snapshot:
    """One disk of an image; `gib` is the size of the whole volume, of which EC2 stores what was written."""

    id: str
    gib: int


@dataclass(frozen=True)
class Image:
    """`created` is EC2's ISO-8601 text, which sorts by time; `reason` is why it failed; `architecture` is EC2's word
    (`x86_64`, `arm64`); `protected` is EC2's protection from being deregistered."""

    id: str
    name: str
    state: str
    reason: str
    created: str
    tags: Mapping[str, str]
    architecture: str = ""
    snapshots: tuple[Snapshot, ...] = ()
    protected: bool = False

    @property
    def available(self) -> bool:
        return self.state == "available"

    def is_of(self, yard: str) -> bool:
        """Whether this yard made it: only such images may be started, and only such ones are retired."""
        return self.tags.get(Tag.YARD) == yard

    @property
    def run(self) -> str:
        """The run whose host it was made of, else the execution that made it."""
        return self.tags.get(Tag.RUN, "")

    @property
    def execution(self) -> str:
        """The execution that made a snapshot."""
        return self.tags.get(Tag.EXECUTION, "")

    @property
    def family(self) -> str:
        return self.tags.get(Tag.FAMILY, "")

    @property
    def tensorflow(self) -> str:
        """The version that its bake found; "" where nobody has looked."""
        return self.tags.get(Tag.TENSORFLOW, "")

    @property
    def is_baked(self) -> bool:
        return self.tags.get(Tag.KIND) == "baked"

    @property
    def parent(self) -> str:
        """The image that the host started from."""
        return self.tags.get(Tag.PARENT, "")


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A snapshot as EC2 keeps it. `makers`: the run whose host it is of, and the execution that made it; `image`: the
    one that CreateImage made it for, as its description says; `made`: whether the yard made it for an image, and nobody
    of a volume by hand."""

    id: str
    gib: int
    created: str
    family: str
    makers: tuple[str, ...]
    image: str
    made: bool


def meant(name: str | Mapping[str, str], images: Iterable[Image]) -> Image | None:
    """The image of that id, else the newest of the run of that id, else the newest of the family of that name; of a
    mapping the newest baked one with the version of TensorFlow that it names.

    Of a run's or a family's images one that is not available counts only where none is."""
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
    """The newest that is available; where none is, the newest. Raises ValueError when there are none."""
    return max(images, key=lambda image: (image.available, image.created, image.id))
