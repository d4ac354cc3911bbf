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
    """The source that names the image of the hosts."""

    RUN = "run"
    """The run's admission, which checked the owner."""
    JOB = "job"
    """The job's `hardware.image`."""
    PARAMETER = "parameter"
    """The yard's image parameter: the current image."""


@dataclass(frozen=True)
class ImageReference:
    """The image that hosts would start from."""

    source: ImageSource
    named: str | Mapping[str, str] | None
    """The name in its source. None for a missing parameter, `none` before the first bake."""
    image: Image | None
    """The image in EC2; None if EC2 has none of that name."""
    yard: str
    parameter: str
    baked: frozenset[str] = frozenset()
    """TensorFlow versions of the yard's images, if the job names one."""
    submitter: str | None = None
    """The submitter of the run."""


def disk_gib(hardware: Hardware, image: Image) -> int:
    """Return the size of all disks of a host. The root disk is the first of an image."""
    given = [snapshot.gib for snapshot in image.snapshots]
    return sum([hardware.disk_gib or given[0], *given[1:]]) if given else hardware.disk_gib or 0


def choose_image(reference: ImageReference, hardware: Hardware) -> Image | Refused:
    """Return the image, if hosts with such disks can start from it, or the refusal."""
    error = "JobRefused" if reference.source is ImageSource.JOB else "Misconfigured"
    if reference.image is None:
        return Refused(error, _unknown(reference))
    if reference.source is not ImageSource.RUN and not reference.image.is_of(reference.yard):
        return Refused(error, _foreign(reference, reference.image))
    if whose := dev.dev_host_of(reference.image.tags, reference.submitter):
        says = f"The image {reference.image.id} belongs to {whose}, and contains its files"
        return Refused(error, f"{says}: only its owner may start hosts from it. Use another image.")
    if not reference.image.available:
        why = f" ({reference.image.reason})" if reference.image.reason else ""
        also = "Wait until it is available, or use" if reference.image.state == "pending" else "Use"
        return Refused(
            error, f"The image {reference.image.id} is {reference.image.state}{why}. {also} another image."
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
            return f"The image {named}, which the run was admitted with, no longer exists here."
        case ImageSource.JOB:
            return (
                f"hardware.image: the yard has no image, run with an image, or image family called {named!r}; "
                "it was never made, or was retired. `aws ec2 describe-images --owners self --filters "
                f"Name=tag:{Tag.YARD},Values={reference.yard}` lists the images."
            )
        case ImageSource.PARAMETER:
            return _unknown_parameter(named, parameter)
    assert_never(reference.source)


def _not_baked(version: str, reference: ImageReference) -> str:
    """Return the refusal with the commands that bake an image."""
    has = f"they have {', '.join(sorted(reference.baked))}" if reference.baked else "it has none"
    says = f"hardware.image: no baked image of the yard has TensorFlow {version} ({has})."
    if not tensorflow_releases.is_known(version):
        return f"{says} Recipes support {tensorflow_releases.RANGE}: choose one of these."
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
        return f"The yard has no image yet: the parameter {parameter} is none. {bake}"
    if not re.fullmatch(AMI, named):
        return f"The image parameter {parameter} is {named!r}, which is not the id of an image. {bake}"
    return f"The image parameter {parameter} names {named}, which does not exist here. {bake}"


def _foreign(reference: ImageReference, image: Image) -> str:
    says = (
        "hardware.image"
        if reference.source is ImageSource.JOB
        else f"The image parameter {reference.parameter}"
    )
    return (
        f"{says} names {image.id}, which this yard did not make: it lacks the tag {Tag.YARD}={reference.yard}, and "
        "hosts start only from its own images."
    )
