"""The name and the tags of the image that a host becomes."""

from trainyard.core.model.images.image import Image
from trainyard.protocol.imaging import Imaging
from trainyard.protocol.tags import Tag

PARENT_TAGS = (Tag.DRIVER, Tag.CUDA, Tag.TENSORFLOW)
"""Tags that an image inherits from the image that its host started from, because a snapshot does not change them."""
LONGEST_NAME = 128


def parent_tags(parent: Image | None) -> dict[str, str]:
    """Return the tags that a snapshot inherits from its parent."""
    tags = parent.tags if parent else {}
    return {key: tags[key] for key in PARENT_TAGS if key in tags}


def image_name(family: str, instance: str, run: str) -> str:
    """Return the name of an image. CreateImage has no client token, so the unique name prevents a second image.

    `run` is the execution that requests the image. The instance id makes the names of two yards differ.
    """
    end = f"-{instance}-{run}"
    return f"{family[: LONGEST_NAME - len(end)]}{end}"


def tags(imaging: Imaging, *, yard: str, run: str, name: str) -> dict[str, str]:
    """Return the tags of an image and of its snapshots. `run` is the execution that makes the image."""
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
