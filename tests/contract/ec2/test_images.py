"""Images: copies of a host's disk that other hosts start with."""

import base64
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.conftest import ACCOUNT, eventually
from tests.contract.ec2.conftest import BASE_PARAMETER, Yard, error_code, members, tags, unique
from tests.contract.ec2.images import available, image_of, made_image, snapshot_of

LEAVE_A_MARK = "#!/bin/sh\nmkdir -p /opt/mark && echo once-baked > /opt/mark/file\necho left\n"
LOOK_FOR_IT = "#!/bin/sh\ncat /opt/mark/file\n"


def printed(yard: Yard, host: str, text: str) -> None:
    """Wait until the host is running and its user data has printed this, in either order."""
    yard.becomes(host, "running")
    eventually(lambda: text in yard.printed(host))


def test_a_host_from_an_image_has_the_disk_that_was_copied(yard: Yard) -> None:
    builder = yard.run(UserData=LEAVE_A_MARK)[0]
    printed(yard, builder, "left")
    yard.fault("image-slow", seconds=600)
    image = made_image(yard, builder, NoReboot=True)
    assert image_of(yard, image)["State"] == "pending"
    yard.fault("clear")
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
    yard.fault("image-slow", seconds=600)
    image = made_image(yard, host)
    with pytest.raises(ClientError, match="InvalidAMIID"):
        yard.run(ImageId=image)
    yard.fault("clear")
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


def test_an_image_restarts_its_host_unless_told_not_to(yard: Yard) -> None:
    """Test the reboot: processes end and new ones start, but disk, address and state stay."""
    counting = "#!/bin/sh\necho $(cut -d' ' -f22 /proc/1/stat) >> /opt/boots\n"
    unit = "[Service]\nType=oneshot\nExecStart=/bin/sh /opt/count\n[Install]\nWantedBy=multi-user.target\n"
    setup = (
        f"#!/bin/sh\ncat > /opt/count <<'E'\n{counting}E\ncat > /etc/systemd/system/count.service <<'E'\n{unit}E\n"
        "systemctl enable --now count\necho left\n"
    )
    host = yard.run(UserData=setup)[0]
    printed(yard, host, "left")
    boots = yard.cloud.state / "instances" / host / "upper" / "opt" / "boots"
    assert len(boots.read_text().split()) == 1
    available(yard, made_image(yard, host, NoReboot=True))
    assert len(boots.read_text().split()) == 1
    before = yard.instance(host)
    image = made_image(yard, host)
    available(yard, image)
    eventually(lambda: len(boots.read_text().split()) == 2)
    assert yard.state(host) == "running"
    assert yard.instance(host)["PrivateIpAddress"] == before["PrivateIpAddress"]
    clone = yard.run(ImageId=image, UserData="#!/bin/sh\ncat /opt/boots\necho seen\n")[0]
    printed(yard, clone, "seen")
    assert yard.states_seen(host) == ["pending", "running"]


def test_images_are_found_by_what_they_are(yard: Yard) -> None:
    host, tag = yard.run()[0], unique("family")
    yard.becomes(host, "running")
    made = [
        made_image(yard, host, NoReboot=True, TagSpecifications=tags("image", family=tag)) for _ in range(2)
    ]
    mine = {"Name": "tag:family", "Values": [tag]}

    def found(*filters: dict[str, Any], **more: Any) -> list[str]:
        answer = yard.ec2.describe_images(Filters=[mine, *filters], **more)
        return [one["ImageId"] for one in answer["Images"]]

    assert found() == made
    for image in made:
        available(yard, image)
    name = image_of(yard, made[0])["Name"]
    assert found({"Name": "name", "Values": [name]}) == made[:1]
    assert found({"Name": "name", "Values": ["image-*", "other"]}) == made
    assert found({"Name": "state", "Values": ["available"]}) == made
    assert found({"Name": "state", "Values": ["failed", "pending"]}) == []
    assert found({"Name": "architecture", "Values": ["x86_64"]}, Owners=["self"]) == made
    assert found(Owners=["amazon"]) == []
    assert found(ImageIds=made[1:]) == made[1:], "ids and filters both hold"
    bogus = [{"Name": "colour", "Values": ["red"]}]
    assert error_code(yard.ec2.describe_images, Filters=bogus) == "InvalidParameterValue"
    first, second = (image_of(yard, image)["CreationDate"] for image in made)
    assert first < second, "no two images are of one instant"


def test_a_snapshot_tells_what_it_is_of(yard: Yard) -> None:
    template = yard.template()
    host = yard.run(LaunchTemplate={"LaunchTemplateId": template})[0]
    root = yard.becomes(host, "running")["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]
    tag = unique("run")
    yard.fault("image-slow", seconds=600)
    image = made_image(yard, host, NoReboot=True, TagSpecifications=tags("snapshot", run=tag))
    assert snapshot_of(yard, image)["State"] == "pending"
    yard.fault("clear")
    available(yard, image)
    filters = [{"Name": "tag:run", "Values": [tag]}, {"Name": "status", "Values": ["completed"]}]
    (found,) = yard.ec2.describe_snapshots(OwnerIds=["self"], Filters=filters)["Snapshots"]
    assert found["Description"] == f"Created by CreateImage({host}) for {image}"
    assert (found["VolumeId"], found["VolumeSize"], found["StorageTier"]) == (root, 100, "standard")
    assert (found["Encrypted"], found["Tags"]) == (True, [{"Key": "run", "Value": tag}])
    assert abs((datetime.now(UTC) - found["StartTime"]).total_seconds()) < 60
    clone = yard.run(ImageId=image)[0]
    volume = yard.becomes(clone, "running")["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]
    (disk,) = yard.ec2.describe_volumes(VolumeIds=[volume])["Volumes"]
    assert (disk["SnapshotId"], disk["Encrypted"], disk["Size"]) == (found["SnapshotId"], True, 100)


def test_a_host_tells_its_family(yard: Yard) -> None:
    host = yard.run(TagSpecifications=tags("instance", run="r"))[0]
    found = yard.becomes(host, "running")
    assert found["ImageId"] == yard.base
    assert found["Tags"] == [{"Key": "run", "Value": "r"}]
    assert found["Architecture"] == "x86_64"
    assert [(d["DeviceName"], d["Ebs"]["VolumeId"][:4]) for d in found["BlockDeviceMappings"]] == [
        ("/dev/sda1", "vol-")
    ]


def test_an_image_is_launched_in_any_zone(yard: Yard) -> None:
    builder = yard.run(UserData=LEAVE_A_MARK, SubnetId=yard.subnets["us-east-1a"])[0]
    printed(yard, builder, "left")
    image = made_image(yard, builder, NoReboot=True)
    available(yard, image)
    template = yard.template(UserData=base64.b64encode(LOOK_FOR_IT.encode()).decode())
    for zone in ("us-east-1b", "us-east-1c"):
        override = {"InstanceType": "g6.xlarge", "SubnetId": yard.subnets[zone], "ImageId": image}
        answer = yard.ec2.create_fleet(
            Type="instant",
            LaunchTemplateConfigs=[
                {
                    "LaunchTemplateSpecification": {"LaunchTemplateId": template, "Version": "1"},
                    "Overrides": [override],
                }
            ],
            TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "spot"},
        )
        yard.started += members(answer)
        (host,) = members(answer)
        printed(yard, host, "once-baked")
        found = yard.instance(host)
        assert (found["ImageId"], found["Placement"]["AvailabilityZone"]) == (image, zone)


def test_a_type_and_an_image_of_different_architectures_do_not_go_together(yard: Yard) -> None:
    wrong = "The architecture 'arm64' of the specified instance type does not match the architecture 'x86_64'"
    with pytest.raises(ClientError, match=wrong) as refused:
        yard.run(InstanceType="g5g.xlarge")
    assert refused.value.response["Error"]["Code"] == "InvalidParameterValue"
    fleet = yard.fleet(yard.template(), ["g5g.xlarge/a"], 1)
    assert members(fleet) == []
    assert [e["ErrorCode"] for e in fleet["Errors"]] == ["InvalidParameterValue"]
    assert wrong in fleet["Errors"][0]["ErrorMessage"]
    arm = yard.ssm.get_parameter(Name=BASE_PARAMETER.replace("x86_64", "arm64"))["Parameter"]["Value"]
    assert image_of(yard, arm)["Architecture"] == "arm64"
    assert error_code(yard.run, ImageId=arm, InstanceType="g5.xlarge") == "InvalidParameterValue"
    host = yard.run(ImageId=arm, InstanceType="g5g.xlarge")[0]
    assert yard.becomes(host, "running")["Architecture"] == "arm64"
    image = made_image(yard, host, NoReboot=True)
    assert image_of(yard, image)["Architecture"] == "arm64"
    available(yard, image)


def test_a_disk_may_be_larger_than_its_image_and_is_initialized_as_fast_as_asked_and_allowed(
    yard: Yard,
) -> None:
    def root(**ebs: Any) -> list[dict[str, Any]]:
        return [{"DeviceName": "/dev/sda1", "Ebs": ebs}]

    template = yard.template(
        BlockDeviceMappings=root(VolumeSize=100, Encrypted=True, VolumeInitializationRate=300)
    )
    override = {
        "InstanceType": "g6.xlarge",
        "SubnetId": yard.subnets["us-east-1a"],
        "BlockDeviceMappings": root(VolumeSize=120),
    }
    specification = {"LaunchTemplateId": template, "Version": "1"}
    request: dict[str, Any] = {
        "Type": "instant",
        "LaunchTemplateConfigs": [{"LaunchTemplateSpecification": specification, "Overrides": [override]}],
        "TargetCapacitySpecification": {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "spot"},
    }
    (host,) = members(yard.ec2.create_fleet(**request))
    yard.started.append(host)
    volume = yard.becomes(host, "running")["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]
    (disk,) = yard.ec2.describe_volumes(VolumeIds=[volume])["Volumes"]
    assert (disk["Size"], disk["VolumeType"], disk["Encrypted"]) == (120, "gp3", True)
    assert disk["VolumeInitializationRate"] == 300
    override["BlockDeviceMappings"] = root(VolumeSize=50)
    refused = yard.ec2.create_fleet(**request)
    assert [e["ErrorCode"] for e in refused["Errors"]] == ["InvalidBlockDeviceMapping"]
    for rate in (99, 301):
        wrong = root(VolumeInitializationRate=rate)
        assert error_code(yard.run, BlockDeviceMappings=wrong) == "InvalidParameterValue"
    seventeen = yard.template(BlockDeviceMappings=root(VolumeInitializationRate=300))
    refused = yard.fleet(seventeen, ["g6.xlarge/a"], 17)
    assert members(refused) == []
    assert [e["ErrorCode"] for e in refused["Errors"]] == ["VolumeInitializationRateLimitExceeded"]
    many = {"count": 50, "BlockDeviceMappings": root(VolumeInitializationRate=300)}
    assert error_code(yard.run, **many) == "VolumeInitializationRateLimitExceeded"


def test_twelve_images_of_a_host_are_cheap(yard: Yard) -> None:
    """Test the disk usage of images: only the changes of each host are stored."""
    host = yard.run(UserData=LEAVE_A_MARK)[0]
    printed(yard, host, "left")
    made = [made_image(yard, host, NoReboot=True) for _ in range(12)]
    for image in made:
        available(yard, image)
    sizes = [
        sum(
            path.lstat().st_size
            for path in (yard.cloud.state / "images" / image).rglob("*")
            if path.is_file()
        )
        for image in made
    ]
    assert max(sizes) < 100_000
    for image in made:
        yard.ec2.deregister_image(ImageId=image, DeleteAssociatedSnapshots=True)
    eventually(lambda: not [one for one in made if (yard.cloud.state / "images" / one).exists()])


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
