"""Images of running instances."""

from typing import Any

from tests.contract.conftest import eventually
from tests.contract.ec2.conftest import Yard, unique


def made_image(yard: Yard, host: str, **more: object) -> str:
    return str(yard.ec2.create_image(InstanceId=host, Name=unique("image"), **more)["ImageId"])


def available(yard: Yard, image: str) -> None:
    eventually(lambda: image_of(yard, image)["State"] == "available")


def image_of(yard: Yard, image: str) -> dict[str, Any]:
    return dict(yard.ec2.describe_images(ImageIds=[image])["Images"][0])


def snapshot_of(yard: Yard, image: str) -> dict[str, Any]:
    snapshot = image_of(yard, image)["BlockDeviceMappings"][0]["Ebs"]["SnapshotId"]
    return dict(yard.ec2.describe_snapshots(SnapshotIds=[snapshot])["Snapshots"][0])
