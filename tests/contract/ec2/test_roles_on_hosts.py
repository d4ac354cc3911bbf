"""Permissions of the yard's roles on hosts: statements from the template, used with EC2."""

import json
import re
from typing import Any

import pytest
from botocore.exceptions import ClientError

from simulation.assembly import find_assembly
from tests.contract.conftest import ACCOUNT, REGION, allow
from tests.contract.ec2.conftest import BASE_PARAMETER, Yard, tags, unique
from tests.contract.ec2.roles import acting, denied
from tests.infrastructure.assembly import Assembly, plain

MINE = [{"Key": "trainyard:yard", "Value": "trainyard"}]
VERDICT = [{"Key": "trainyard:verdict", "Value": "keep 2026-11-20T12:00:00.000Z"}]
IMAGE = tags("image", "snapshot", **{"trainyard:yard": "trainyard"})


@pytest.fixture(scope="module")
def assembly() -> Assembly:
    return Assembly.read(find_assembly())


def role_of(yard: Yard, assembly: Assembly, function: str) -> Any:
    """Return EC2's client with this function's role."""
    found = [plain(each) for each in assembly.statements(assembly.role_of(function))]
    text = json.dumps([each for each in found if "ec2:" in json.dumps(each["Action"])])
    for placeholder, value in (("Partition", "aws"), ("Region", REGION), ("AccountId", ACCOUNT)):
        text = text.replace(f"{{AWS::{placeholder}}}", value)
    return acting(yard, *json.loads(text))


@pytest.fixture
def patrol(yard: Yard, assembly: Assembly) -> Any:
    return role_of(yard, assembly, "patrol")


@pytest.fixture
def capture(yard: Yard, assembly: Assembly) -> Any:
    """Return EC2's client of the snapshot workflow's capture function, with which patrol archives."""
    return role_of(yard, assembly, "snapshot_capture")


@pytest.fixture
def fate(yard: Yard, assembly: Assembly) -> Any:
    """Return EC2's client of the function that terminates the captured host."""
    return role_of(yard, assembly, "snapshot_fate")


@pytest.fixture
def launch(yard: Yard, assembly: Assembly) -> tuple[Any, str]:
    """Return EC2's client of the function that launches builders, and its launch template."""
    template = yard.template(TagSpecifications=[])
    found = [plain(each) for each in assembly.statements(assembly.role_of("bake_launch"))]
    text = json.dumps([each for each in found if "ec2:" in json.dumps(each) or "iam:" in json.dumps(each)])
    for placeholder, value in (("Partition", "aws"), ("Region", REGION), ("AccountId", ACCOUNT)):
        text = text.replace(f"{{AWS::{placeholder}}}", value)
    text = re.sub(r"launch-template/\{[^}]+\}", f"launch-template/{template}", text)
    text = re.sub(r"(subnet|security-group)/\{[^}]+\}", r"\1/*", text)
    text = re.sub(r"\{Builder[^}]+\.Arn\}", yard.role_arn, text)
    base = allow("ssm:GetParameters", f"arn:aws:ssm:{REGION}::parameter{BASE_PARAMETER}")
    return acting(yard, *json.loads(text), base), template


def run(yard: Yard, launch: tuple[Any, str], **changes: Any) -> list[str]:
    """Launch a builder as the yard does, with `changes`."""
    client, template = launch
    asked: dict[str, Any] = {
        "MinCount": 1,
        "MaxCount": 1,
        "SubnetId": yard.subnets["us-east-1a"],
        "LaunchTemplate": {"LaunchTemplateId": template},
        "TagSpecifications": tags(
            "instance", "volume", "network-interface", **{"trainyard:yard": "trainyard"}
        ),
    }
    made = client.run_instances(**asked | changes)
    ids = [each["InstanceId"] for each in made["Instances"]]
    yard.started += ids
    return ids


def host(yard: Yard, **more: str) -> str:
    (made,) = yard.run(TagSpecifications=tags("instance", **more)) if more else yard.run()
    yard.becomes(made, "running")
    return made


def test_it_marks_stops_and_ends_a_host_of_the_yard(yard: Yard, patrol: Any) -> None:
    mine = host(yard, **{"trainyard:yard": "trainyard"})
    patrol.create_tags(Resources=[mine], Tags=VERDICT)
    patrol.stop_instances(InstanceIds=[mine])
    yard.becomes(mine, "stopped")
    patrol.terminate_instances(InstanceIds=[mine])
    yard.becomes(mine, "terminated")


OTHERS: list[dict[str, str]] = [
    {},
    {"trainyard:yard": "other"},
    {"trainyard:yard": "Trainyard"},
    {"Yard": "trainyard"},
    {"trainyard:run": "kept-1", "trainyard:verdict": "stop-idle 2026-11-20T12:00:00.000Z"},
]


@pytest.mark.parametrize("tagged", OTHERS)
def test_it_touches_no_host_of_others(yard: Yard, patrol: Any, tagged: dict[str, str]) -> None:
    other = host(yard, **tagged)
    stay = {"InstanceInitiatedShutdownBehavior": {"Value": "stop"}}
    assert "ec2:StopInstances" in denied(patrol.stop_instances, InstanceIds=[other])
    assert "ec2:TerminateInstances" in denied(patrol.terminate_instances, InstanceIds=[other])
    assert "ec2:CreateTags" in denied(patrol.create_tags, Resources=[other], Tags=VERDICT)
    assert "ec2:CreateTags" in denied(patrol.create_tags, Resources=[other], Tags=MINE)
    assert "ec2:ModifyInstanceAttribute" in denied(patrol.modify_instance_attribute, InstanceId=other, **stay)
    assert yard.state(other) == "running"


@pytest.mark.parametrize("role", ["patrol", "release", "snapshot_fate"])
@pytest.mark.parametrize(
    "change",
    [
        {"UserData": {"Value": b"#!/bin/sh\nid"}},
        {"InstanceType": {"Value": "p5.48xlarge"}},
        {"DisableApiTermination": {"Value": True}},
        {"Groups": ["sg-0123456789abcdef0"]},
        {"InstanceInitiatedShutdownBehavior": {"Value": "terminate"}},
        {"Attribute": "userData", "Value": "IyEvYmluL3No"},
        {"Attribute": "instanceInitiatedShutdownBehavior", "Value": "stop"},
    ],
    ids=str,
)
def test_nothing_else_of_a_host_is_changed(
    yard: Yard, assembly: Assembly, role: str, change: dict[str, Any]
) -> None:
    mine = host(yard, **{"trainyard:yard": "trainyard"})
    client = role_of(yard, assembly, role)
    said = denied(client.modify_instance_attribute, InstanceId=mine, **change)
    assert "ec2:ModifyInstanceAttribute" in said
    client.modify_instance_attribute(InstanceId=mine, InstanceInitiatedShutdownBehavior={"Value": "stop"})


def test_no_other_attribute_is_changed_beside_the_one_that_may_be(yard: Yard, patrol: Any) -> None:
    mine = host(yard, **{"trainyard:yard": "trainyard"})
    with pytest.raises(ClientError, match="InvalidParameterCombination"):
        patrol.modify_instance_attribute(
            InstanceId=mine,
            InstanceInitiatedShutdownBehavior={"Value": "stop"},
            UserData={"Value": b"#!/bin/sh\nid"},
        )
    assert not yard.ec2.describe_instance_attribute(InstanceId=mine, Attribute="userData")["UserData"]


def test_who_launches_builders_launches_one(yard: Yard, launch: tuple[Any, str]) -> None:
    (made,) = run(yard, launch)
    assert yard.instance(made)["MetadataOptions"]["HttpTokens"] == "required"


@pytest.mark.parametrize(
    "change",
    [
        {"MetadataOptions": {"HttpTokens": "optional"}},
        {"InstanceType": "t3.micro"},
        {"InstanceType": "m5.large"},
        {"TagSpecifications": tags("instance", "volume", "network-interface", **{"trainyard:yard": "other"})},
    ],
    ids=str,
)
def test_who_launches_builders_launches_nothing_else(
    yard: Yard, launch: tuple[Any, str], change: dict[str, Any]
) -> None:
    with pytest.raises(ClientError, match="UnauthorizedOperation"):
        run(yard, launch, **change)


def test_nor_from_another_template(yard: Yard, launch: tuple[Any, str]) -> None:
    other = {"LaunchTemplateId": yard.template(TagSpecifications=[])}
    with pytest.raises(ClientError, match="UnauthorizedOperation"):
        run(yard, launch, LaunchTemplate=other)


def test_a_host_of_others_among_its_own_keeps_the_whole_call_from_happening(yard: Yard, patrol: Any) -> None:
    mine, other = host(yard, **{"trainyard:yard": "trainyard"}), host(yard)
    denied(patrol.terminate_instances, InstanceIds=[mine, other])
    denied(patrol.create_tags, Resources=[mine, other], Tags=VERDICT)
    assert yard.state(mine) == yard.state(other) == "running"


@pytest.mark.parametrize("tagged", OTHERS)
def test_the_snapshot_workflow_images_and_ends_no_host_of_others(
    yard: Yard, capture: Any, fate: Any, tagged: dict[str, str]
) -> None:
    other = host(yard, **tagged)
    images = len(yard.ec2.describe_images(Owners=["self"])["Images"])
    said = denied(
        capture.create_image, InstanceId=other, Name=unique(), NoReboot=True, TagSpecifications=IMAGE
    )
    assert "ec2:CreateImage" in said
    assert "ec2:TerminateInstances" in denied(fate.terminate_instances, InstanceIds=[other])
    assert "ec2:StopInstances" in denied(fate.stop_instances, InstanceIds=[other])
    assert yard.state(other) == "running"
    assert len(yard.ec2.describe_images(Owners=["self"])["Images"]) == images


def test_the_snapshot_workflow_images_a_host_of_the_yard_and_marks_the_image_as_no_other_yards(
    yard: Yard, capture: Any
) -> None:
    mine = host(yard, **{"trainyard:yard": "trainyard"})
    other = tags("image", "snapshot", **{"trainyard:yard": "other"})
    denied(capture.create_image, InstanceId=mine, Name=unique(), NoReboot=True, TagSpecifications=other)
    made = capture.create_image(InstanceId=mine, Name=unique(), NoReboot=True, TagSpecifications=IMAGE)
    yard.ec2.deregister_image(ImageId=made["ImageId"])


def test_it_writes_no_other_tag(yard: Yard, patrol: Any) -> None:
    mine = host(yard, **{"trainyard:yard": "trainyard"})
    hold = {"Key": "trainyard:hold", "Value": "2036-11-20T12:00Z"}
    denied(patrol.create_tags, Resources=[mine], Tags=[hold])
    denied(patrol.create_tags, Resources=[mine], Tags=[*VERDICT, hold])


def test_it_images_nothing_itself(yard: Yard, patrol: Any) -> None:
    mine = host(yard, **{"trainyard:yard": "trainyard"})
    denied(patrol.create_image, InstanceId=mine, Name="mine")
