"""What patrol's role may do to hosts, asked of EC2: its own statements from the template, under its credentials."""

import json
from typing import Any

import pytest

from tests.contract.conftest import ACCOUNT, REGION
from tests.contract.ec2.conftest import Yard, tags
from tests.contract.ec2.test_permissions import acting, denied
from tests.infrastructure.assembly import plain
from tests.infrastructure.conftest import synthesise

VERDICT = [{"Key": "trainyard:verdict", "Value": "keep 2026-11-20T12:00:00.000Z"}]


@pytest.fixture(scope="module")
def statements(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What the template gives patrol on EC2."""
    assembly = synthesise(tmp_path_factory.mktemp("yard"), {})
    found = [plain(each) for each in assembly.statements(assembly.role_of("patrol"))]
    text = json.dumps([each for each in found if "ec2:" in json.dumps(each["Action"])])
    for placeholder, value in (("Partition", "aws"), ("Region", REGION), ("AccountId", ACCOUNT)):
        text = text.replace(f"{{AWS::{placeholder}}}", value)
    return list(json.loads(text))


@pytest.fixture
def patrol(yard: Yard, statements: list[dict[str, Any]]) -> Any:
    return acting(yard, *statements)


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


@pytest.mark.parametrize("tagged", [{}, {"trainyard:yard": "other"}, {"Yard": "trainyard"}])
def test_it_touches_no_host_of_others(yard: Yard, patrol: Any, tagged: dict[str, str]) -> None:
    other = host(yard, **tagged)
    assert "ec2:StopInstances" in denied(patrol.stop_instances, InstanceIds=[other])
    assert "ec2:TerminateInstances" in denied(patrol.terminate_instances, InstanceIds=[other])
    assert "ec2:CreateTags" in denied(patrol.create_tags, Resources=[other], Tags=VERDICT)
    assert yard.state(other) == "running"


def test_it_writes_no_other_tag(yard: Yard, patrol: Any) -> None:
    mine = host(yard, **{"trainyard:yard": "trainyard"})
    hold = {"Key": "trainyard:hold", "Value": "2036-11-20T12:00Z"}
    denied(patrol.create_tags, Resources=[mine], Tags=[hold])
    denied(patrol.create_tags, Resources=[mine], Tags=[*VERDICT, hold])


def test_it_images_nothing_itself(yard: Yard, patrol: Any) -> None:
    mine = host(yard, **{"trainyard:yard": "trainyard"})
    denied(patrol.create_image, InstanceId=mine, Name="mine")
