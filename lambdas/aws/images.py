"""AMIs: made under a name that makes it happen once, looked at, retired with their snapshots."""

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from lambdas.aws.clients import client
from lambdas.core.errors import Misconfigured
from lambdas.core.image import Image, Snapshot

UNKNOWN = ("InvalidAMIID.NotFound", "InvalidAMIID.Malformed", "InvalidAMIID.Unavailable")


def find(image: str) -> Image | None:
    """The image, or None when EC2 does not know it."""
    try:
        answer = client("ec2").describe_images(ImageIds=[image])
    except ClientError as error:
        if error.response["Error"]["Code"] in UNKNOWN:
            return None
        raise
    return next((_image(data) for data in answer["Images"]), None)


def of_yard(yard: str) -> tuple[Image, ...]:
    """Every image that this yard made, newest first."""
    pages = (
        client("ec2")
        .get_paginator("describe_images")
        .paginate(Owners=["self"], Filters=[{"Name": "tag:trainyard:yard", "Values": [yard]}])
    )
    found = [_image(data) for page in pages for data in page["Images"]]
    return tuple(sorted(found, key=lambda image: (image.created, image.id), reverse=True))


def create(instance: str, name: str, *, description: str, tags: Mapping[str, str]) -> str:
    """The id of the image of that name: a new one, or the one an earlier call with this name began.

    Without a reboot, which would start the host agent in the middle of it: the documents that prepare the
    disk end with a sync."""
    marks = [{"Key": key, "Value": value} for key, value in tags.items()]
    try:
        answer = client("ec2").create_image(
            InstanceId=instance,
            Name=name,
            Description=description[:255],
            NoReboot=True,
            TagSpecifications=[{"ResourceType": kind, "Tags": marks} for kind in ("image", "snapshot")],
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "InvalidAMIName.Duplicate":
            raise
        named = client("ec2").describe_images(Owners=["self"], Filters=[{"Name": "name", "Values": [name]}])
        if not named["Images"]:
            raise
        return str(named["Images"][0]["ImageId"])
    return str(answer["ImageId"])


def retire(image: str) -> None:
    """Deregister the image and delete its snapshots. EC2 reports snapshots it could not delete in a 200 answer."""
    answer = client("ec2").deregister_image(ImageId=image, DeleteAssociatedSnapshots=True)
    failed = [
        f"{result.get('SnapshotId')}: {result.get('ReturnCode')}"
        for result in answer.get("DeleteSnapshotResults", [])
        if result.get("ReturnCode") not in ("success", "skipped")
    ]
    if failed:
        raise Misconfigured(
            f"{image} was deregistered, but not all of its snapshots were deleted: {', '.join(failed)}. "
            "They cost money until someone deletes them (missing-permissions: ec2:DeleteSnapshot)."
        )


def in_use() -> frozenset[str]:
    """The images that any instance of the account still runs from."""
    pages = client("ec2").get_paginator("describe_instances").paginate()
    return frozenset(
        instance["ImageId"]
        for page in pages
        for reservation in page["Reservations"]
        for instance in reservation["Instances"]
        if instance["State"]["Name"] != "terminated"
    )


def _image(data: Mapping[str, Any]) -> Image:
    disks = [mapping["Ebs"] for mapping in data.get("BlockDeviceMappings", []) if "Ebs" in mapping]
    return Image(
        id=data["ImageId"],
        name=data.get("Name", ""),
        state=data["State"],
        reason=data.get("StateReason", {}).get("Message", ""),
        created=data.get("CreationDate", ""),
        tags={tag["Key"]: tag["Value"] for tag in data.get("Tags", [])},
        architecture=data.get("Architecture", ""),
        snapshots=tuple(
            Snapshot(disk["SnapshotId"], int(disk.get("VolumeSize", 0)))
            for disk in disks
            if disk.get("SnapshotId")
        ),
    )
