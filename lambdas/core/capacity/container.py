"""The container image of a job in its plan: the types that it runs on, and the disk that it needs."""

import math
from collections.abc import Iterable

from trainyard.core.model.images.image import Image, newest
from trainyard.core.model.instance_types import InstanceType
from trainyard.protocol.containers import ARCHITECTURES, Container, Manifest, is_in_tag
from trainyard.protocol.tags import Tag
from trainyard.values.quantities import format_bytes, format_count

DISK_FOR_EACH_BYTE = 3
"""The bytes of disk for each compressed byte of layers: the layers themselves, and their unpacked files."""
GIB, GB = 1024**3, 1e9
NAT_DOLLARS = 0.045
"""The price of a GB through a NAT gateway (aws.amazon.com/vpc/pricing, us-east-1)."""


def find_conflict(container: Container | None, kind: InstanceType) -> str | None:
    """Return why hosts of this type cannot run the container; None if they can, or if the registry was not read."""
    if container is None or not container.manifests or container.for_machine(kind.architecture):
        return None
    has = " and ".join(f"linux/{name}" for name in container.manifests)
    needs = next((name for name, ec2 in ARCHITECTURES.items() if ec2 == kind.architecture), kind.architecture)
    return f"The type's processors are {kind.architecture} (linux/{needs}), the container image is for {has}."


def is_on(container: Container | None, image: Image) -> bool:
    """Return True if the disk of hosts of this image contains the container image."""
    tag = image.tags.get(Tag.CONTAINERS, "")
    return container is not None and any(is_in_tag(tag, each.digest) for each in container.manifests.values())


def prefer(container: Container | None, current: Image, images: Iterable[Image]) -> Image:
    """Return the image for hosts of a job that names none: the yard's current image, or the newest baked one with the
    same software and processors that contains the container image."""
    if container is None or is_on(container, current):
        return current
    found = [
        each
        for each in images
        if each.is_baked
        and each.available
        and each.architecture == current.architecture
        and each.tags.get(Tag.SOFTWARE) == current.tags.get(Tag.SOFTWARE)
        and is_on(container, each)
    ]
    return newest(found) if found else current


def disk_gib(manifest: Manifest) -> int:
    """Return the GiB that a host needs for an image."""
    return math.ceil(DISK_FOR_EACH_BYTE * manifest.size / GIB)


def find_fault(container: Container | None, image: Image, disk: int) -> str | None:
    """Return the fault of an image that does not fit on the disk of a host. Return None for a disk of unknown size."""
    sizes = [disk_gib(each) for each in container.manifests.values()] if container else []
    if container is None or not sizes or not disk or max(sizes) <= disk or is_on(container, image):
        return None
    return (
        f"hardware.disk_gib: {container.reference} needs {max(sizes)} GiB on each host, {DISK_FOR_EACH_BYTE} times its "
        f"compressed layers, and the disk has {disk} GiB in all: set hardware.disk_gib: {disk + max(sizes)}"
    )


def describe(container: Container | None, image: Image, kind: InstanceType, hosts: int, disk: int) -> str:
    """Return what the hosts pull, as a sentence; nothing without a container."""
    if container is None:
        return ""
    if is_on(container, image):
        return (
            f"{container.reference} is already on the image {image.id} ({image.family}): hosts pull nothing."
        )
    manifest = container.for_machine(kind.architecture)
    if manifest is None:
        return f"{container.reference} is pulled by {format_count(hosts, 'host')}; its size is unknown."
    each = f"each of {hosts} hosts" if hosts > 1 else "the host"
    pulled = hosts * manifest.size / GB
    nat = (
        ""
        if container.reference.ecr
        else f" (through a NAT gateway ${pulled * NAT_DOLLARS:.2f} for all hosts)"
    )
    return (
        f"{container.reference}: {each} pulls {format_bytes(manifest.size)}{nat} and needs {disk_gib(manifest)} GiB of "
        f"{disk}."
    )
