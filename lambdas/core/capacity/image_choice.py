"""Choose the image that hosts start from, or refuse it with the reason."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import assert_never

from trainyard.command_line import command_line
from trainyard.core.model import dev
from trainyard.core.model.errors import Refused
from trainyard.core.model.hardware import Hardware
from trainyard.core.model.images import tensorflow_releases
from trainyard.core.model.images.image import AMI, Image
from trainyard.protocol.tags import Tag
from trainyard.values.lazy import dataclass


class ImageSource(StrEnum):
    """Who names the image that the hosts start from."""

    RUN = "run"
    """Its admission, which has checked whose it is."""
    JOB = "job"
    """The job's `hardware.image`."""
    PARAMETER = "parameter"
    """The yard's image parameter: the current image."""


@dataclass(frozen=True)
class ImageReference:
    """The image that hosts would start from: `named` as its source says it (None: the parameter does not exist, `none`:
    nothing is baked yet), `image` as EC2 knows it (None: it knows none of that name). `baked`: which versions of
    TensorFlow images of the yard have, where the job names one; `submitter`: whose run it is."""

    source: ImageSource
    named: str | Mapping[str, str] | None
    image: Image | None
    yard: str
    parameter: str
    baked: frozenset[str] = frozenset()
    submitter: str | None = None


def disk_gib(hardware: Hardware, image: Image) -> int:
    """Of all disks of a host together: the root disk is an image's first."""
    given = [snapshot.gib for snapshot in image.snapshots]
    return sum([hardware.disk_gib or given[0], *given[1:]]) if given else hardware.disk_gib or 0


def choose_image(reference: ImageReference, hardware: Hardware) -> Image | Refused:
    """The image, if hosts can start from it, on such disks."""
    error = "JobRefused" if reference.source is ImageSource.JOB else "Misconfigured"
    if reference.image is None:
        return Refused(error, _unknown(reference))
    if reference.source is not ImageSource.RUN and not reference.image.is_of(reference.yard):
        return Refused(error, _foreign(reference, reference.image))
    if whose := dev.somebodys(reference.image.tags, reference.submitter):
        says = f"The image {reference.image.id} is of {whose}, and has its files"
        return Refused(error, f"{says}: only its owner starts hosts from it. Take another.")
    if not reference.image.available:
        why = f" ({reference.image.reason})" if reference.image.reason else ""
        also = "Wait until it is, or take" if reference.image.state == "pending" else "Take"
        return Refused(
            error, f"The image {reference.image.id} is {reference.image.state}{why}. {also} another."
        )
    least = reference.image.snapshots[0].gib if reference.image.snapshots else 0
    if hardware.disk_gib is not None and hardware.disk_gib < least:
        problem = (
            f"hardware.disk_gib: found {hardware.disk_gib}; the root disk of the image {reference.image.id} has "
            f"{least} GiB, and EC2 makes no smaller one: set {least} or more, leave it out, or bake an image "
            "with a smaller root_gib"
        )
        return Refused("JobRefused", problem)
    return reference.image


def _unknown(reference: ImageReference) -> str:
    named, parameter = reference.named, reference.parameter
    if isinstance(named, Mapping):
        return _not_baked(named["tensorflow"], reference)
    match reference.source:
        case ImageSource.RUN:
            return f"The image {named}, which the run was admitted with, does not exist here any more."
        case ImageSource.JOB:
            return (
                f"hardware.image: the yard has no image, no image of a run and no family of images called {named!r}; "
                "it was never made, or it was retired. `aws ec2 describe-images --owners self --filters "
                f"Name=tag:{Tag.YARD},Values={reference.yard}` lists what there is."
            )
        case ImageSource.PARAMETER:
            return _unknown_parameter(named, parameter)
    assert_never(reference.source)


def _not_baked(version: str, reference: ImageReference) -> str:
    """With the commands that bake one."""
    has = f"they have {', '.join(sorted(reference.baked))}" if reference.baked else "it has none"
    says = f"hardware.image: no baked image of the yard has TensorFlow {version} ({has})."
    if not tensorflow_releases.is_known(version):
        return f"{says} Recipes know {tensorflow_releases.RANGE}: take one of these."
    name = f"tensorflow-{version.replace('.', '-')}"
    asked = f"~={version}.0" if version.count(".") == 1 else f"=={version}"
    return (
        f"{says} Bake one beside the current image, then start the job again:\n"
        f"  printf 'name: {name}\\ntensorflow: \"{asked}\"\\ncurrent: false\\n' > {name}.yaml\n"
        f"  {command_line('image', 'bake', f'{name}.yaml')}"
    )


def _unknown_parameter(named: str | None, parameter: str) -> str:
    bake = "Run the bake state machine, then start the job again."
    if named is None:
        return f"The image parameter {parameter} does not exist, so no host can start. Deploy again."
    if named == "none":
        return f"The yard has no image yet: {parameter} says none. {bake}"
    if not re.fullmatch(AMI, named):
        return f"The image parameter {parameter} says {named!r}, not the id of an image. {bake}"
    return f"The image parameter {parameter} names {named}, which does not exist here. {bake}"


def _foreign(reference: ImageReference, image: Image) -> str:
    says = (
        "hardware.image"
        if reference.source is ImageSource.JOB
        else f"The image parameter {reference.parameter}"
    )
    return (
        f"{says} names {image.id}, which this yard has not made: it lacks the tag {Tag.YARD}={reference.yard}, and "
        "hosts may start from no other image."
    )
