"""Compatibility of instance types with an image: processors, NVIDIA driver, TensorFlow.

Unknown properties exclude no type, except the driver: an image without a driver tag is judged by AWS's current base
images, the default of recipes.

Sources of the rules:
- Open kernel modules support Turing and newer only; Kepler support ended with the driver's branch 470, Volta support
  with 580, and Blackwell support began with 570 (NVIDIA: README of the open kernel modules, Data Center Drivers).
- AWS's base images have the open modules, currently of branch 595; none lists P2 or P3 (DLAMI release notes).
- CUDA 11 needs a driver of 450, 12 of 525.60.13, 13 of 580 (NVIDIA: CUDA Compatibility, minor version
  compatibility).
- TensorFlow's own releases up to 2.21 are built with CUDA 12.5, which does not support Blackwell: their first kernel
  fails there with CUDA_ERROR_INVALID_PTX (TensorFlow's issues 97387, 101746 and 111958).
"""

import re

from trainyard.core.model.images.image import Image
from trainyard.core.model.instance_types import Generation, InstanceType, generation_of
from trainyard.protocol.tags import Tag
from trainyard.values.lazy import dataclass

Version = tuple[int, ...]

LEAST_DRIVER: dict[int, Version] = {11: (450,), 12: (525, 60, 13), 13: (580,)}
"""The oldest driver of each CUDA, by its major version."""
NO_BLACKWELL: Version = (2, 21)
"""The last release of TensorFlow (major, minor) that fails on Blackwell. Builds of others carry a local version
(`2.17.0+nv25.2`) and are not judged."""


@dataclass(frozen=True)
class Software:
    """The software of an image. None marks what is unknown."""

    architecture: str | None
    driver: str | None = None
    proprietary: bool = False
    """True if the driver's kernel modules are the closed ones."""
    cuda: str | None = None
    """The CUDA version of its TensorFlow."""
    tensorflow: str | None = None


def software_of(image: Image) -> Software:
    """Read the software from EC2 and the image's tags. The driver's tag is its version, perhaps followed by `
    proprietary`."""
    driver, _, modules = (_tag(image, Tag.DRIVER) or "").partition(" ")
    return Software(
        architecture=image.architecture or None,
        driver=driver or None,
        proprietary=modules == "proprietary",
        cuda=_tag(image, Tag.CUDA),
        tensorflow=_tag(image, Tag.TENSORFLOW),
    )


def find_conflicts(kind: InstanceType, software: Software) -> str | None:
    """Return why hosts of this type cannot use the image, in sentences; None if they can."""
    found = [_architecture(kind, software)]
    if kind.gpus:
        generation = generation_of(kind)
        gpu = f"{kind.gpu.upper()} ({generation.name})"
        found += [
            _no_driver(gpu, generation) if software.driver is None else _driver(gpu, generation, software),
            _cuda(software),
            _tensorflow(gpu, generation, software),
        ]
    reasons = [reason for reason in found if reason]
    return " ".join(reasons) if reasons else None


def _architecture(kind: InstanceType, software: Software) -> str | None:
    if software.architecture in (None, kind.architecture):
        return None
    return f"The type's processors are {kind.architecture}, the image is for {software.architecture}."


def _no_driver(gpu: str, generation: Generation) -> str | None:
    """Return the reason for an image without a driver tag."""
    if generation.open_modules:
        return None
    return (
        f"The type has a {gpu}, which the NVIDIA driver of AWS's current base images does not support: its open kernel "
        "modules need a Turing or newer."
    )


def _driver(gpu: str, generation: Generation, software: Software) -> str | None:
    says = f"the image's NVIDIA driver is {software.driver}"
    branch = (version(software.driver) or (0,))[0]
    if generation.last_driver and branch > generation.last_driver:
        return f"The type has a {gpu}, whose last driver branch was {generation.last_driver}; {says}."
    if generation.first_driver and branch < generation.first_driver:
        return f"The type has a {gpu}, which needs a driver of branch {generation.first_driver} or newer; {says}."
    if not generation.open_modules and not software.proprietary:
        return f"The type has a {gpu}; {says} with the open kernel modules, which need a Turing or newer."
    return None


def _cuda(software: Software) -> str | None:
    """Return the reason of a driver that is too old: it supports CUDA up to its own major version."""
    cuda, driver = version(software.cuda), version(software.driver)
    least = LEAST_DRIVER.get(cuda[0]) if cuda else None
    if driver is None or least is None or driver >= least:
        return None
    needs = ".".join(str(number) for number in least)
    return (
        f"The image's TensorFlow uses CUDA {software.cuda}, which needs an NVIDIA driver of {needs} or newer; the "
        f"image has {software.driver}."
    )


def _tensorflow(gpu: str, generation: Generation, software: Software) -> str | None:
    release = version(software.tensorflow)
    if generation.name != "Blackwell" or release is None or "+" in str(software.tensorflow):
        return None
    if release[:2] > NO_BLACKWELL:
        return None
    return (
        f"The type has a {gpu}, for which TensorFlow {software.tensorflow} of the image is not built: its kernels fail "
        "with CUDA_ERROR_INVALID_PTX. Bake an image with a build of TensorFlow that is."
    )


def _tag(image: Image, tag: str) -> str | None:
    value = image.tags.get(tag, "")
    return value if value not in ("", "none") else None


def version(text: str | None) -> Version | None:
    """Return the leading numbers, or None for a text without them."""
    found = re.match(r"\d+(?:\.\d+)*", text or "")
    return tuple(int(part) for part in found.group().split(".")) if found else None
