"""Images: a copy of a host's disk that other hosts start from."""

import pytest
from botocore.exceptions import ClientError

from tests.contract.conftest import ACCOUNT, eventually
from tests.contract.ec2.conftest import BASE_PARAMETER, Yard, error_code, tags, unique

LEAVE_A_MARK = "#!/bin/sh\nmkdir -p /opt/mark && echo once-baked > /opt/mark/file\necho left\n"
LOOK_FOR_IT = "#!/bin/sh\ncat /opt/mark/file\n"


def printed(yard: Yard, host: str, text: str) -> None:
    eventually(lambda: text in yard.printed(host))


def made_image(yard: Yard, host: str, **more: object) -> str:
    return str(yard.ec2.create_image(InstanceId=host, Name=unique("image"), **more)["ImageId"])


def available(yard: Yard, image: str) -> None:
    eventually(lambda: yard.ec2.describe_images(ImageIds=[image])["Images"][0]["State"] == "available")


def test_a_host_from_an_image_has_the_disk_that_was_copied(yard: Yard) -> None:
    builder = yard.run(UserData=LEAVE_A_MARK)[0]
    printed(yard, builder, "left")
    image = made_image(yard, builder, NoReboot=True)
    assert yard.ec2.describe_images(ImageIds=[image])["Images"][0]["State"] == "pending"
    available(yard, image)
    told = eventually(lambda: yard.events(image, "EC2 AMI State Change"))[0]
    assert (told["detail"]["ImageId"], told["detail"]["State"]) == (image, "available")
    assert told["resources"] == [f"arn:aws:ec2:us-east-1::image/{image}"]
    yard.ec2.terminate_instances(InstanceIds=[builder])
    printed(yard, yard.run(ImageId=image, UserData=LOOK_FOR_IT)[0], "once-baked")


def test_an_image_of_a_stopped_host_works_too(yard: Yard) -> None:
    builder = yard.run(UserData=LEAVE_A_MARK)[0]
    printed(yard, builder, "left")
    yard.ec2.stop_instances(InstanceIds=[builder])
    yard.becomes(builder, "stopped")
    image = made_image(yard, builder)
    available(yard, image)
    printed(yard, yard.run(ImageId=image, UserData=LOOK_FOR_IT)[0], "once-baked")


def test_nothing_is_launched_from_a_pending_image(yard: Yard) -> None:
    host = yard.run()[0]
    yard.becomes(host, "running")
    image = made_image(yard, host)
    with pytest.raises(ClientError, match="InvalidAMIID"):
        yard.run(ImageId=image)
    available(yard, image)


def test_the_name_of_an_image_makes_it_happen_once(yard: Yard) -> None:
    host, name = yard.run()[0], unique("image")
    yard.becomes(host, "running")
    image = yard.ec2.create_image(InstanceId=host, Name=name)["ImageId"]
    assert error_code(yard.ec2.create_image, InstanceId=host, Name=name) == "InvalidAMIName.Duplicate"
    available(yard, image)
    yard.ec2.deregister_image(ImageId=image)
    yard.ec2.create_image(InstanceId=host, Name=name)
    assert error_code(yard.ec2.create_image, InstanceId=host, Name="what?") == "InvalidAMIName.Malformed"


def test_an_image_is_as_large_as_the_root_volume_and_carries_its_tags(yard: Yard) -> None:
    host = yard.run(BlockDeviceMappings=[{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 123}}])[0]
    yard.becomes(host, "running")
    image = made_image(yard, host, TagSpecifications=tags("image", "snapshot", recipe="abc"))
    found = yard.ec2.describe_images(Owners=["self"], Filters=[{"Name": "tag:recipe", "Values": ["abc"]}])[
        "Images"
    ]
    assert [one["ImageId"] for one in found] == [image]
    device = found[0]["BlockDeviceMappings"][0]
    assert (device["DeviceName"], device["Ebs"]["VolumeSize"]) == ("/dev/sda1", 123)
    snapshot = yard.ec2.describe_snapshots(SnapshotIds=[device["Ebs"]["SnapshotId"]])["Snapshots"][0]
    assert snapshot["Tags"] == [{"Key": "recipe", "Value": "abc"}]
    available(yard, image)
    with pytest.raises(ClientError, match="smaller than snapshot"):
        yard.run(ImageId=image, BlockDeviceMappings=[{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 50}}])


def test_deregistering_takes_the_snapshots_along_when_asked(yard: Yard) -> None:
    host = yard.run()[0]
    yard.becomes(host, "running")
    image = made_image(yard, host)
    available(yard, image)
    described = yard.ec2.describe_images(ImageIds=[image])["Images"][0]
    snapshot = described["BlockDeviceMappings"][0]["Ebs"]["SnapshotId"]
    assert error_code(yard.ec2.delete_snapshot, SnapshotId=snapshot) == "InvalidSnapshot.InUse"
    answer = yard.ec2.deregister_image(ImageId=image, DeleteAssociatedSnapshots=True)
    assert answer["DeleteSnapshotResults"] == [{"SnapshotId": snapshot, "ReturnCode": "success"}]
    assert error_code(yard.ec2.describe_images, ImageIds=[image]) == "InvalidAMIID.NotFound"
    assert error_code(yard.ec2.describe_snapshots, SnapshotIds=[snapshot]) == "InvalidSnapshot.NotFound"
    assert eventually(lambda: [e["detail"]["State"] for e in yard.events(image, "EC2 AMI State Change")])[-1]
    eventually(lambda: yard.events(image, "EC2 AMI State Change")[-1]["detail"]["State"] == "deregistered")


def test_snapshots_are_found_by_their_owner(yard: Yard) -> None:
    host = yard.run()[0]
    yard.becomes(host, "running")
    available(yard, made_image(yard, host))
    mine = yard.ec2.describe_snapshots(OwnerIds=["self"])["Snapshots"]
    assert {one["OwnerId"] for one in mine} == {ACCOUNT}
    amazons = yard.ec2.describe_snapshots(OwnerIds=["amazon"])["Snapshots"]
    assert amazons
    assert ACCOUNT not in {one["OwnerId"] for one in amazons}


def test_the_base_image_is_published_and_belongs_to_amazon(yard: Yard) -> None:
    image = yard.ssm.get_parameter(Name=BASE_PARAMETER)["Parameter"]["Value"]
    found = yard.ec2.describe_images(
        Owners=["amazon"],
        Filters=[{"Name": "name", "Values": ["Deep Learning Base OSS Nvidia Driver GPU AMI*"]}],
    )["Images"]
    assert image in [one["ImageId"] for one in found]
    assert error_code(yard.ec2.deregister_image, ImageId=image) == "AuthFailure"
    mine = yard.ec2.describe_images(Owners=["self"])["Images"]
    assert image not in [one["ImageId"] for one in mine]
