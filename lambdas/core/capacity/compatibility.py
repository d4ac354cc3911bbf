"""Whether hosts of an instance type can work with an image: its processors, its NVIDIA driver, its TensorFlow.

What is not known is not held against a type, but for the driver: an image that does not say which one it has is judged
by AWS's current base images, which every recipe starts from unless it says otherwise.

Where the rules are from:
- Open kernel modules serve Turing and newer alone; Kepler ended with the driver's branch 470, Volta with 580, and
  Blackwell began with 570 (NVIDIA: README of the open kernel modules, Data Center Drivers).
- AWS's base images have the open modules, at present of branch 595; none lists P2 or P3 (DLAMI release notes).
- CUDA 11 needs a driver of 450, 12 of 525.60.13, 13 of 580 (NVIDIA: CUDA Compatibility, minor version compatibility).
- TensorFlow's own releases up to 2.21 are built by CUDA 12.5, which knows no Blackwell: their first kernel fails there
  with CUDA_ERROR_INVALID_PTX (TensorFlow's issues 97387, 101746 and 111958).
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
"""The last release of TensorFlow (major, minor) that is known to fail on Blackwell. Its builds by others carry a local
version (`2.17.0+nv25.2`) and are not judged."""


@dataclass(frozen=True)
class Software:
    """What an image holds, None where nobody knows. `proprietary`: whether the driver's kernel modules are the closed
    ones; `cuda`: the version that its TensorFlow brings."""

    architecture: str | None
    driver: str | None = None
    proprietary: bool = False
    cuda: str | None = None
    tensorflow: str | None = None


def software(image: Image) -> Software:
    """What EC2 and the image's tags say. The tag of the driver is its version, and then perhaps ` proprietary`."""
    driver, _, modules = (_tag(image, Tag.DRIVER) or "").partition(" ")
    return Software(
        architecture=image.architecture or None,
        driver=driver or None,
        proprietary=modules == "proprietary",
        cuda=_tag(image, Tag.CUDA),
        tensorflow=_tag(image, Tag.TENSORFLOW),
    )


def against(kind: InstanceType, software: Software) -> str | None:
    """Why hosts of this type cannot work with the image, in a sentence or more; None for one that can."""
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
    """Of an image that does not say which driver it has."""
    if generation.open_modules:
        return None
    return (
        f"The type has a {gpu}, which the NVIDIA driver of AWS's current base images does not serve: its open kernel "
        "modules need a Turing or newer."
    )


def _driver(gpu: str, generation: Generation, software: Software) -> str | None:
    says = f"the image's NVIDIA driver is {software.driver}"
    branch = (_version(software.driver) or (0,))[0]
    if generation.last_driver and branch > generation.last_driver:
        return f"The type has a {gpu}, whose last driver branch was {generation.last_driver}; {says}."
    if generation.first_driver and branch < generation.first_driver:
        return f"The type has a {gpu}, which needs a driver of branch {generation.first_driver} or newer; {says}."
    if not generation.open_modules and not software.proprietary:
        return f"The type has a {gpu}; {says} with the open kernel modules, which need a Turing or newer."
    return None


def _cuda(software: Software) -> str | None:
    """A driver runs every CUDA of its own major version and of those before."""
    cuda, driver = _version(software.cuda), _version(software.driver)
    least = LEAST_DRIVER.get(cuda[0]) if cuda else None
    if driver is None or least is None or driver >= least:
        return None
    needs = ".".join(str(number) for number in least)
    return (
        f"The image's TensorFlow uses CUDA {software.cuda}, which needs an NVIDIA driver of {needs} or newer; the "
        f"image has {software.driver}."
    )


def _tensorflow(gpu: str, generation: Generation, software: Software) -> str | None:
    version = _version(software.tensorflow)
    if generation.name != "Blackwell" or version is None or "+" in str(software.tensorflow):
        return None
    if version[:2] > NO_BLACKWELL:
        return None
    return (
        f"The type has a {gpu}, for which TensorFlow {software.tensorflow} of the image is not built: its kernels fail "
        "with CUDA_ERROR_INVALID_PTX. Bake an image with a build of TensorFlow that is."
    )


def _tag(image: Image, tag: str) -> str | None:
    value = image.tags.get(tag, "")
    return value if value not in ("", "none") else None


def _version(text: str | None) -> Version | None:
    """The leading numbers; None where there are none."""
    found = re.match(r"\d+(?:\.\d+)*", text or "")
    return tuple(int(part) for part in found.group().split(".")) if found else None
