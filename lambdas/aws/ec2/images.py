"""AMIs and their snapshots: create them once under a name, find them, retire them."""

import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from botocore.exceptions import ClientError

from lambdas.aws.calls import call_or_none, list_items
from lambdas.aws.clients import client
from trainyard.core.model.errors import Misconfigured, ServiceUnavailable
from trainyard.core.model.images.image import AMI, Image, Snapshot, Stored
from trainyard.protocol.tags import Tag
from trainyard.values import serialization

UNKNOWN = ("InvalidAMIID.NotFound", "InvalidAMIID.Malformed", "InvalidAMIID.Unavailable")
GONE = ("InvalidSnapshot.NotFound",)
MADE_FOR = re.compile(AMI)
"""The AMI in the description of a snapshot: `Created by CreateImage(i-0123...) for ami-0123...`."""


def find(image: str) -> Image | None:
    """Return the image; None if EC2 does not list it."""
    answer = call_or_none(UNKNOWN, client("ec2").describe_images, ImageIds=[image], IncludeDisabled=True)
    return next((_image(data) for data in answer["Images"]), None) if answer else None


def find_in_yard(yard: str) -> tuple[Image, ...]:
    """Return every image that this yard made."""
    return _own(Filters=_made_by(yard))


def find_dev_images(yard: str, name: str) -> tuple[Image, ...]:
    """Return every image of the dev host of that name."""
    return _own(Filters=[*_made_by(yard), {"Name": f"tag:{Tag.DEV}", "Values": [name]}])


def find_in_account() -> tuple[Image, ...]:
    """Return every image of the account in this region, from any source."""
    return _own()


def _own(**more: Any) -> tuple[Image, ...]:
    found = list_items("ec2", "describe_images", "Images", Owners=["self"], IncludeDisabled=True, **more)
    return tuple(_image(data) for data in found)


def create(
    instance: str, name: str, *, description: str, tags: Mapping[str, str], reboot: bool = False
) -> str:
    """Create an image; return its ID. A repeated call with the same name returns the first image.

    By default the host is not rebooted, because the SSM documents that prepare the disk end with a sync."""
    marks = [{"Key": key, "Value": value} for key, value in tags.items()]
    try:
        answer = client("ec2").create_image(
            InstanceId=instance,
            Name=name,
            Description=description[:255],
            NoReboot=not reboot,
            TagSpecifications=[{"ResourceType": kind, "Tags": marks} for kind in ("image", "snapshot")],
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "InvalidAMIName.Duplicate":
            raise
        named = client("ec2").describe_images(Owners=["self"], Filters=[{"Name": "name", "Values": [name]}])
        if not named["Images"]:
            raise ServiceUnavailable(
                f"EC2 has an image {name} that it does not show yet",
                "InvalidAMIName.Duplicate",
            ) from error
        return str(named["Images"][0]["ImageId"])
    return str(answer["ImageId"])


def retire(image: str) -> None:
    """Deregister the image and delete its snapshots. If EC2 reports the image as missing for some seconds, it counts as
    retired; a new image may be invisible at first.

    Raises AccessDenied, or Misconfigured for any other refusal. EC2 reports snapshots that it could not delete in a 200
    answer."""
    deregister = partial(client("ec2").deregister_image, ImageId=image, DeleteAssociatedSnapshots=True)
    answer = _call_unless_gone(deregister, UNKNOWN, f"deregister {image}")
    failed = [
        f"{result.get('SnapshotId')}: {result.get('ReturnCode')}"
        for result in answer.get("DeleteSnapshotResults", [])
        if result.get("ReturnCode") not in ("success", "skipped")
    ]
    if failed:
        raise Misconfigured(
            f"{image} was deregistered, but not all of its snapshots were deleted: {', '.join(failed)}. "
            "They cost money until they are deleted (missing-permissions: the role of this function lacks "
            "ec2:DeleteSnapshot)"
        )


def delete_snapshot(snapshot: str) -> None:
    """Delete a snapshot that belongs to no image. A missing snapshot is skipped. Raises AccessDenied, or Misconfigured
    for any other refusal."""
    _call_unless_gone(partial(client("ec2").delete_snapshot, SnapshotId=snapshot), GONE, f"delete {snapshot}")


def _call_unless_gone(call: Callable[[], Any], gone: Collection[str], what: str) -> dict[str, Any]:
    """Return the answer of EC2, or an empty one if the object is gone."""
    try:
        return call_or_none(gone, call) or {}
    except ClientError as error:
        answer = error.response["Error"]
        raise Misconfigured(f"EC2 does not {what}: {answer['Code']}: {answer.get('Message', '')}") from error


def snapshots_of_yard(yard: str) -> tuple[Stored, ...]:
    """Return every snapshot with the yard's tag, including snapshots without an image."""
    found = list_items("ec2", "describe_snapshots", "Snapshots", OwnerIds=["self"], Filters=_made_by(yard))
    return tuple(_read_snapshot(data) for data in found)


def being_made(yard: str) -> dict[str, str]:
    """Return the instances that are being imaged, each with its image."""
    pending = {"Name": "state", "Values": ["pending"]}
    made = _own(Filters=[*_made_by(yard), pending])
    return {image.tags[Tag.HOST]: image.id for image in made if Tag.HOST in image.tags}


def _made_by(yard: str) -> list[dict[str, Any]]:
    return [{"Name": f"tag:{Tag.YARD}", "Values": [yard]}]


def _read_snapshot(data: Mapping[str, Any]) -> Stored:
    """Convert a snapshot. Only snapshots of images that the yard made have the tag `Tag.KIND`."""
    tags = _tags(data)
    image = MADE_FOR.search(data.get("Description", ""))
    return Stored(
        id=data["SnapshotId"],
        gib=int(data["VolumeSize"]),
        created=serialization.timestamp(data["StartTime"]),
        family=tags.get(Tag.FAMILY, ""),
        makers=tuple(tags[key] for key in (Tag.EXECUTION, Tag.RUN) if key in tags),
        image=image.group() if image else "",
        made=Tag.KIND in tags,
    )


def _tags(data: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in data.get("Tags", [])}


def _image(data: Mapping[str, Any]) -> Image:
    disks = [mapping["Ebs"] for mapping in data.get("BlockDeviceMappings", []) if "Ebs" in mapping]
    return Image(
        id=data["ImageId"],
        name=data.get("Name", ""),
        state=data["State"],
        reason=data.get("StateReason", {}).get("Message", ""),
        created=data.get("CreationDate", ""),
        tags=_tags(data),
        architecture=data.get("Architecture", ""),
        snapshots=tuple(
            Snapshot(disk["SnapshotId"], int(disk.get("VolumeSize", 0)))
            for disk in disks
            if disk.get("SnapshotId")
        ),
        protected=data.get("DeregistrationProtection", "disabled").startswith("enabled"),
    )
