"""Imaging: one host becomes an image. How its disk comes to rest, what becomes of it, what the image says of itself."""

from trainyard.core.model.images.image import Image
from trainyard.protocol.imaging import Imaging
from trainyard.protocol.tags import Tag

PARENT_TAGS = (Tag.DRIVER, Tag.CUDA, Tag.TENSORFLOW)
"""Tags that an image has from the one its host started from: the snapshot changes none of what they say."""
LONGEST_NAME = 128


def parent_tags(parent: Image | None) -> dict[str, str]:
    """What a snapshot has of its parent's tags."""
    tags = parent.tags if parent else {}
    return {key: tags[key] for key in PARENT_TAGS if key in tags}


def image_name(family: str, instance: str, run: str) -> str:
    """CreateImage has no token: its name makes it happen once. `run` is the execution that asks for it; instances make
    the names of two yards differ."""
    end = f"-{instance}-{run}"
    return f"{family[: LONGEST_NAME - len(end)]}{end}"


def tags(imaging: Imaging, *, yard: str, run: str, name: str) -> dict[str, str]:
    """What image and disk snapshots carry. `run` is the execution that makes the image."""
    known = {
        "Name": name,
        Tag.YARD: yard,
        Tag.RUN: imaging.host_run or run,
        Tag.EXECUTION: run,
        Tag.KIND: "snapshot",
        Tag.FAMILY: imaging.family,
        Tag.PARENT: imaging.parent,
        Tag.HOST: imaging.instance,
        Tag.TYPE: imaging.type,
    }
    step = {} if imaging.step is None else {Tag.STEP: str(imaging.step)}
    of_dev = {Tag.DEV: imaging.dev, Tag.SUBMITTER: imaging.owner or ""} if imaging.dev else {}
    return known | step | of_dev | dict(imaging.versions)
