"""AMIs: made under a name that makes it happen once, looked at, retired with their snapshots."""

import re
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from lambdas.aws.clients import client
from lambdas.core.model import wire
from lambdas.core.model.errors import Misconfigured, ServiceUnavailable
from lambdas.core.model.image import AMI, Image, Snapshot, Stored

UNKNOWN = ("InvalidAMIID.NotFound", "InvalidAMIID.Malformed", "InvalidAMIID.Unavailable")
GONE = ("InvalidSnapshot.NotFound",)
MADE_FOR = re.compile(AMI)
"""CreateImage describes its snapshots: `Created by CreateImage(i-0123...) for ami-0123...`."""


def find(image: str) -> Image | None:
    """The image, or None when EC2 does not know it."""
    try:
        answer = client("ec2").describe_images(ImageIds=[image], IncludeDisabled=True)
    except ClientError as error:
        if error.response["Error"]["Code"] in UNKNOWN:
            return None
        raise
    return next((_image(data) for data in answer["Images"]), None)


def of_yard(yard: str) -> tuple[Image, ...]:
    """Every image that this yard made."""
    return _own(Filters=[{"Name": "tag:trainyard:yard", "Values": [yard]}])


def of_account() -> tuple[Image, ...]:
    """Every image of the account in this region, whoever made it."""
    return _own()


def _own(**more: Any) -> tuple[Image, ...]:
    pages = (
        client("ec2").get_paginator("describe_images").paginate(Owners=["self"], IncludeDisabled=True, **more)
    )
    return tuple(_image(data) for page in pages for data in page["Images"])


def create(
    instance: str, name: str, *, description: str, tags: Mapping[str, str], reboot: bool = False
) -> str:
    """The id of the image of that name: a new one, or the one an earlier call with this name began.

    Without a reboot, unless asked for: the documents that prepare the disk end with a sync."""
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
                f"EC2 says that there is an image {name} already, and does not show it yet",
                "InvalidAMIName.Duplicate",
            ) from error
        return str(named["Images"][0]["ImageId"])
    return str(answer["ImageId"])


def retire(image: str) -> None:
    """Deregister the image and delete its snapshots; one that is gone already is fine, once EC2 has said so for some
    seconds: of one that was just made it may say the same.

    Raises AccessDenied, or Misconfigured for everything else that EC2 says against it: of snapshots that it could not
    delete it tells in a 200 answer."""
    try:
        answer = client("ec2").deregister_image(ImageId=image, DeleteAssociatedSnapshots=True)
    except ClientError as error:
        if error.response["Error"]["Code"] in UNKNOWN:
            return
        raise Misconfigured(f"EC2 does not deregister {image}: {_answer_of(error)}") from error
    failed = [
        f"{result.get('SnapshotId')}: {result.get('ReturnCode')}"
        for result in answer.get("DeleteSnapshotResults", [])
        if result.get("ReturnCode") not in ("success", "skipped")
    ]
    if failed:
        raise Misconfigured(
            f"{image} was deregistered, but not all of its snapshots were deleted: {', '.join(failed)}. "
            "They cost money until they are (missing-permissions: the role of this function lacks ec2:DeleteSnapshot)"
        )


def delete_snapshot(snapshot: str) -> None:
    """Delete a snapshot that no image stands on; one that is gone already is fine. Raises as `retire` does."""
    try:
        client("ec2").delete_snapshot(SnapshotId=snapshot)
    except ClientError as error:
        if error.response["Error"]["Code"] in GONE:
            return
        raise Misconfigured(f"EC2 does not delete {snapshot}: {_answer_of(error)}") from error


def snapshots_of_yard(yard: str) -> tuple[Stored, ...]:
    """Every snapshot that carries the yard's tag, also those that nobody made for an image."""
    pages = (
        client("ec2")
        .get_paginator("describe_snapshots")
        .paginate(OwnerIds=["self"], Filters=[{"Name": "tag:trainyard:yard", "Values": [yard]}])
    )
    return tuple(_stored(data) for page in pages for data in page["Snapshots"])


def being_made(yard: str) -> dict[str, str]:
    """The instances that an image of the yard is being made of, and that image."""
    pending = {"Name": "state", "Values": ["pending"]}
    made = _own(Filters=[{"Name": "tag:trainyard:yard", "Values": [yard]}, pending])
    return {image.tags["trainyard:host"]: image.id for image in made if "trainyard:host" in image.tags}


def _stored(data: Mapping[str, Any]) -> Stored:
    """The yard's tag `trainyard:kind` is on what CreateImage made for it, and on nothing else."""
    tags = _tags(data)
    image = MADE_FOR.search(data.get("Description", ""))
    return Stored(
        id=data["SnapshotId"],
        gib=int(data["VolumeSize"]),
        created=wire.stamp(data["StartTime"]),
        family=tags.get("trainyard:family", ""),
        makers=tuple(tags[key] for key in ("trainyard:execution", "trainyard:run") if key in tags),
        image=image.group() if image else "",
        made="trainyard:kind" in tags,
    )


def _tags(data: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in data.get("Tags", [])}


def _answer_of(error: ClientError) -> str:
    return f"{error.response['Error']['Code']}: {error.response['Error'].get('Message', '')}"


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
