"""IAM for EC2: each touched or created resource needs a permission, each with its own tags."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.conftest import Credentials, allow, eventually
from tests.contract.ec2.conftest import BASE_PARAMETER, Yard, members, tags, unique
from tests.contract.ec2.roles import Statement, acting, denied

ACCOUNT = "123456789012"
INPUTS = ["image/*", "snapshot/*", "security-group/*", "subnet/*", "launch-template/*"]
MADE = ("instance", "volume", "network-interface", "spot-instances-request", "fleet")
LAUNCH = ["ec2:RunInstances", "ec2:CreateFleet"]


def arns(*resources: str) -> list[str]:
    accounts = ["" if r.split("/")[0] in ("image", "snapshot") else ACCOUNT for r in resources]
    return [f"arn:aws:ec2:us-east-1:{a}:{r}" for a, r in zip(accounts, resources, strict=True)]


def launcher(yard: Yard, **changes: Statement | None) -> list[Statement]:
    """Return AWS's example statements for a fleet launcher. A change replaces one statement; None removes it."""
    ours = {"aws:RequestTag/yard": "mine"}
    statements: dict[str, Statement | None] = {
        "inputs": allow(LAUNCH, arns(*INPUTS)),
        "made": allow(LAUNCH, arns(*(f"{kind}/*" for kind in MADE)), StringEquals=ours),
        "tagged": allow(
            "ec2:CreateTags",
            arns(*(f"{kind}/*" for kind in MADE)),
            StringEquals={"ec2:CreateAction": ["RunInstances", "CreateFleet"], **ours},
        ),
        "passed": allow(
            "iam:PassRole", yard.role_arn, StringEquals={"iam:PassedToService": "ec2.amazonaws.com"}
        ),
        "image": allow("ssm:GetParameters", f"arn:aws:ssm:us-east-1::parameter{BASE_PARAMETER}"),
        **changes,
    }
    return [statement for statement in statements.values() if statement is not None]


def launched(yard: Yard, client: Any, template: str, tagged: tuple[str, ...] = MADE) -> list[str]:
    """Return the members of a spot fleet of one host that this client requests."""
    override = {"InstanceType": "g6.xlarge", "SubnetId": yard.subnets["us-east-1a"]}
    answer = client.create_fleet(
        Type="instant",
        LaunchTemplateConfigs=[
            {
                "LaunchTemplateSpecification": {"LaunchTemplateId": template, "Version": "1"},
                "Overrides": [override],
            }
        ],
        TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "spot"},
        TagSpecifications=tags(*tagged, yard="mine"),
    )
    yard.started += members(answer)
    return members(answer)


def test_a_launcher_with_the_usual_policy_launches(yard: Yard) -> None:
    assert len(launched(yard, acting(yard, *launcher(yard)), yard.template(TagSpecifications=[]))) == 1


@pytest.mark.parametrize("untagged", MADE)
def test_one_created_type_left_untagged_denies_the_whole_launch(yard: Yard, untagged: str) -> None:
    client = acting(yard, *launcher(yard))
    rest = tuple(kind for kind in MADE if kind != untagged)
    with pytest.raises(ClientError) as raised:
        launched(yard, client, yard.template(TagSpecifications=[]), tagged=rest)
    assert raised.value.response["Error"]["Code"] == "UnauthorizedOperation"
    assert f"{untagged}/" in raised.value.response["Error"]["Message"]


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        ("passed", "iam:PassRole"),
        ("tagged", "ec2:CreateTags"),
        ("inputs", "ec2:"),
        ("made", "ec2:CreateFleet"),
        ("image", "ssm:GetParameters"),
    ],
)
def test_each_permission_of_a_launcher_is_needed_and_named(yard: Yard, missing: str, named: str) -> None:
    client = acting(yard, *launcher(yard, **{missing: None}))
    with pytest.raises(ClientError) as raised:
        launched(yard, client, yard.template(TagSpecifications=[]))
    assert raised.value.response["Error"]["Code"] == "UnauthorizedOperation"
    assert named in raised.value.response["Error"]["Message"]


@pytest.mark.parametrize(
    ("condition", "launches"),
    [
        ({"ec2:InstanceType": ["g6.*", "g5.*"]}, True),
        ({"ec2:InstanceType": "p5.*"}, False),
        ({"ec2:InstanceMarketType": "spot"}, True),
        ({"ec2:InstanceMarketType": "on-demand"}, False),
        ({"ec2:MetadataHttpTokens": "required"}, True),
        ({"aws:RequestTag/yard": "mine"}, True),
        ({"aws:RequestTag/yard": "other"}, False),
        ({"aws:RequestedRegion": "us-east-1"}, True),
        ({"aws:RequestedRegion": "eu-west-1"}, False),
    ],
)
def test_conditions_on_the_launched_instance_hold(
    yard: Yard, condition: dict[str, Any], launches: bool
) -> None:
    others = tuple(kind for kind in MADE if kind != "instance")
    made = allow(LAUNCH, arns(*(f"{kind}/*" for kind in others)))
    instance = allow(LAUNCH, arns("instance/*"), StringLike=condition)
    client = acting(yard, *launcher(yard, made=made, instance=instance))
    template = yard.template(TagSpecifications=[])
    if launches:
        assert launched(yard, client, template)
    else:
        with pytest.raises(ClientError, match="UnauthorizedOperation"):
            launched(yard, client, template)


def test_only_tagged_hosts_may_be_ended_and_one_stranger_denies_all(yard: Yard) -> None:
    mine = yard.run(TagSpecifications=tags("instance", yard="mine"))
    other = yard.run(TagSpecifications=tags("instance", yard="other"))
    client = acting(
        yard,
        allow(
            ["ec2:TerminateInstances", "ec2:StopInstances"],
            arns("instance/*"),
            StringEquals={"aws:ResourceTag/yard": "mine"},
        ),
    )
    assert other[0] in denied(client.terminate_instances, InstanceIds=mine + other)
    assert yard.state(mine[0]) in ("pending", "running")
    denied(client.stop_instances, InstanceIds=other)
    denied(client.start_instances, InstanceIds=mine)
    client.terminate_instances(InstanceIds=mine)


def test_a_tag_cannot_be_written_onto_a_stranger_to_make_it_ones_own(yard: Yard) -> None:
    other = yard.run(TagSpecifications=tags("instance", yard="other"))
    client = acting(
        yard,
        *launcher(yard),
        allow("ec2:TerminateInstances", "*", StringEquals={"ec2:ResourceTag/yard": "mine"}),
    )
    denied(client.create_tags, Resources=other, Tags=[{"Key": "yard", "Value": "mine"}])
    denied(client.terminate_instances, InstanceIds=other)


def test_an_image_needs_its_host_itself_and_its_tags(yard: Yard) -> None:
    host = yard.run(TagSpecifications=tags("instance", yard="mine"))[0]
    yard.becomes(host, "running")
    made = arns("image/*", "snapshot/*")
    whole = [
        allow("ec2:CreateImage", arns("instance/*"), StringEquals={"aws:ResourceTag/yard": "mine"}),
        allow("ec2:CreateImage", made),
        allow(
            "ec2:CreateTags",
            made,
            StringEquals={"ec2:CreateAction": "CreateImage", "aws:RequestTag/yard": "mine"},
        ),
    ]
    request: dict[str, Any] = {
        "InstanceId": host,
        "TagSpecifications": tags("image", "snapshot", yard="mine"),
    }
    for missing in range(3):
        client = acting(yard, *(statement for number, statement in enumerate(whole) if number != missing))
        denied(client.create_image, Name=unique("image"), **request)
    image = acting(yard, *whole).create_image(Name=unique("image"), **request)["ImageId"]
    yard.ec2.get_waiter("image_available").wait(ImageIds=[image], WaiterConfig={"Delay": 1})
    retire = {"ImageId": image, "DeleteAssociatedSnapshots": True}
    only_image = allow("ec2:DeregisterImage", arns("image/*"), StringEquals={"aws:ResourceTag/yard": "mine"})
    snapshots = allow("ec2:DeleteSnapshot", arns("snapshot/*"), StringEquals={"aws:ResourceTag/yard": "mine"})
    denied(acting(yard, snapshots).deregister_image, **retire)
    answer = acting(yard, only_image, snapshots).deregister_image(**retire)
    assert [one["ReturnCode"] for one in answer["DeleteSnapshotResults"]] == ["success"]


def imaged(yard: Yard, host: str, owner: str) -> tuple[str, str]:
    """Return an available image of this host and its snapshot, both tagged as this yard's."""
    marks = tags("image", "snapshot", yard=owner)
    image = yard.ec2.create_image(
        InstanceId=host, Name=unique("image"), NoReboot=True, TagSpecifications=marks
    )["ImageId"]
    yard.ec2.get_waiter("image_available").wait(ImageIds=[image], WaiterConfig={"Delay": 1})
    (found,) = yard.ec2.describe_images(ImageIds=[image])["Images"]
    return image, found["BlockDeviceMappings"][0]["Ebs"]["SnapshotId"]


def of_mine(*actions: str) -> Statement:
    return allow([f"ec2:{action}" for action in actions], StringEquals={"aws:ResourceTag/yard": "mine"})


@pytest.mark.parametrize(
    ("action", "call", "more"),
    [
        ("StopInstances", "stop_instances", {}),
        ("RebootInstances", "reboot_instances", {}),
        ("StartInstances", "start_instances", {}),
        ("TerminateInstances", "terminate_instances", {}),
        ("ModifyInstanceAttribute", "modify_instance_attribute", {"DisableApiStop": {"Value": False}}),
        (
            "ModifyInstanceAttribute",
            "modify_instance_attribute",
            {"InstanceInitiatedShutdownBehavior": {"Value": "terminate"}},
        ),
    ],
)
def test_a_role_reaches_only_hosts_with_its_tag(
    yard: Yard, action: str, call: str, more: dict[str, Any]
) -> None:
    mine = yard.run(TagSpecifications=tags("instance", yard="mine"))[0]
    other = yard.run(TagSpecifications=tags("instance", yard="other"))[0]
    bare = yard.run()[0]
    for host in (mine, other, bare):
        yard.becomes(host, "running")
    client = acting(yard, of_mine(action))

    def on(host: str) -> dict[str, Any]:
        return {"InstanceId": host, **more} if more else {"InstanceIds": [host]}

    for stranger in (other, bare):
        assert stranger in denied(getattr(client, call), **on(stranger))
        assert yard.state(stranger) == "running"
    getattr(client, call)(**on(mine))


def test_an_image_is_made_only_of_a_host_with_the_tag_and_only_with_the_tag(yard: Yard) -> None:
    mine = yard.run(TagSpecifications=tags("instance", yard="mine"))[0]
    other = yard.run(TagSpecifications=tags("instance", yard="other"))[0]
    for host in (mine, other):
        yard.becomes(host, "running")
    made = arns("image/*", "snapshot/*")
    client = acting(
        yard,
        allow("ec2:CreateImage", arns("instance/*"), StringEquals={"aws:ResourceTag/yard": "mine"}),
        allow("ec2:CreateImage", made, StringEquals={"aws:RequestTag/yard": "mine"}),
        allow("ec2:CreateTags", made, StringEquals={"ec2:CreateAction": "CreateImage"}),
    )
    named: dict[str, Any] = {"Name": unique("image"), "NoReboot": True}
    both = tags("image", "snapshot", yard="mine")
    assert other in denied(client.create_image, InstanceId=other, TagSpecifications=both, **named)
    for marks, missing in (
        (tags("image", yard="mine"), "snapshot/"),
        (tags("snapshot", yard="mine"), "image/"),
        (tags("image", "snapshot", yard="other"), "image/"),
    ):
        assert missing in denied(client.create_image, InstanceId=mine, TagSpecifications=marks, **named)
    client.create_image(InstanceId=mine, TagSpecifications=both, **named)


def test_only_images_and_snapshots_with_the_tag_may_go(yard: Yard) -> None:
    host = yard.run()[0]
    yard.becomes(host, "running")
    image, snapshot = imaged(yard, host, "mine")
    strange_image, strange_snapshot = imaged(yard, host, "other")
    client = acting(yard, of_mine("DeregisterImage", "DeleteSnapshot"))
    assert strange_image in denied(client.deregister_image, ImageId=strange_image)
    assert yard.base in denied(client.deregister_image, ImageId=yard.base)
    yard.ec2.deregister_image(ImageId=strange_image)
    assert strange_snapshot in denied(client.delete_snapshot, SnapshotId=strange_snapshot)
    client.deregister_image(ImageId=image)
    client.delete_snapshot(SnapshotId=snapshot)


def test_the_snapshot_of_ones_image_stays_when_it_is_not_ones_own(yard: Yard) -> None:
    """Test that DeregisterImage returns 200 with a reason for the remaining snapshot."""
    host = yard.run()[0]
    yard.becomes(host, "running")
    image, snapshot = imaged(yard, host, "mine")
    yard.ec2.create_tags(Resources=[snapshot], Tags=[{"Key": "yard", "Value": "other"}])
    client = acting(yard, of_mine("DeregisterImage", "DeleteSnapshot"))
    answer = client.deregister_image(ImageId=image, DeleteAssociatedSnapshots=True)
    assert answer["DeleteSnapshotResults"] == [{"SnapshotId": snapshot, "ReturnCode": "missing-permissions"}]


def test_a_host_of_an_image_needs_the_right_to_that_image(yard: Yard) -> None:
    host = yard.run()[0]
    yard.becomes(host, "running")
    (image, _), (strange, _) = imaged(yard, host, "mine"), imaged(yard, host, "other")
    inputs = [
        allow(LAUNCH, arns(*(kind for kind in INPUTS if not kind.startswith(("image", "snapshot"))))),
        allow(LAUNCH, arns("image/*", "snapshot/*"), StringEquals={"aws:ResourceTag/yard": "mine"}),
    ]
    client = acting(yard, *launcher(yard, inputs=inputs[0], images=inputs[1]))
    request = {
        "MinCount": 1,
        "MaxCount": 1,
        "LaunchTemplate": {"LaunchTemplateId": yard.template(TagSpecifications=[])},
        "TagSpecifications": tags("instance", "volume", "network-interface", yard="mine"),
    }
    assert strange in denied(client.run_instances, ImageId=strange, **request)
    launched_one = client.run_instances(ImageId=image, **request)["Instances"][0]
    yard.started.append(launched_one["InstanceId"])
    assert launched_one["ImageId"] == image


def test_deleting_a_fleet_needs_the_right_to_end_its_hosts(yard: Yard) -> None:
    fleet = yard.fleet(yard.template(), ["g6.xlarge/a"], 1)["FleetId"]
    client = acting(yard, allow("ec2:DeleteFleets"))
    assert "ec2:TerminateInstances" in denied(client.delete_fleets, FleetIds=[fleet], TerminateInstances=True)
    acting(yard, allow(["ec2:DeleteFleets", "ec2:TerminateInstances"])).delete_fleets(
        FleetIds=[fleet], TerminateInstances=True
    )


def test_looking_needs_a_permission_too(yard: Yard) -> None:
    client = acting(yard, allow("ec2:DescribeInstances"))
    client.describe_instances()
    assert "ec2:DescribeImages" in denied(client.describe_images)


def test_the_credentials_of_a_host_are_those_of_its_role(yard: Yard) -> None:
    bucket = unique("bucket")
    yard.cloud.client("s3").create_bucket(Bucket=bucket)
    policy = {"Version": "2012-10-17", "Statement": [allow("s3:PutObject", f"arn:aws:s3:::{bucket}/host/*")]}
    yard.iam.put_role_policy(RoleName=yard.profile, PolicyName="s3", PolicyDocument=json.dumps(policy))
    script = """#!/bin/sh
exec python3 - <<'END'
import json, os, urllib.request
base = "http://169.254.169.254/latest/"
ask = urllib.request.Request(base + "api/token", method="PUT", headers={"X-aws-ec2-metadata-token-ttl-seconds": "60"})
token = {"X-aws-ec2-metadata-token": urllib.request.urlopen(ask).read().decode()}
def get(path):
    return urllib.request.urlopen(urllib.request.Request(base + path, headers=token)).read().decode()
role = get("meta-data/iam/security-credentials/").strip()
given = json.loads(get("meta-data/iam/security-credentials/" + role))
print("GIVEN", json.dumps([given["AccessKeyId"], given["SecretAccessKey"], given["Token"]]), flush=True)
END
"""

    host = yard.run(IamInstanceProfile={"Name": yard.profile}, UserData=script)[0]
    line = eventually(
        lambda: next((x for x in yard.printed(host).splitlines() if x.startswith("GIVEN")), None)
    )
    session = Credentials(*json.loads(line.removeprefix("GIVEN ")))
    who = yard.cloud.client("sts", session).get_caller_identity()["Arn"]
    assert who == f"arn:aws:sts::{ACCOUNT}:assumed-role/{yard.profile}/{host}"
    s3 = yard.cloud.client("s3", session)
    s3.put_object(Bucket=bucket, Key="host/yes", Body=b"")
    with pytest.raises(ClientError, match="AccessDenied"):
        s3.put_object(Bucket=bucket, Key="elsewhere/no", Body=b"")
