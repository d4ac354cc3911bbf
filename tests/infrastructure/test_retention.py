"""Only one function may delete images, by the yard's tag, every day."""

import json
import re

import pytest

from tests.infrastructure.assembly import Assembly, plain

YARD = "trainyard"


def test_retire_may_do_this_and_nothing_else(yard: Assembly) -> None:
    found = sorted(
        (each.action, re.sub(r"Workflow.{8}\}", "Workflow}", each.resource.rsplit(":", 1)[-1]))
        for each in yard.permissions(yard.role_of("retire"))
        if not each.action.startswith("logs:")
    )
    objects = [resource for action, resource in found if action == "s3:PutObject"]
    assert [resource.split("}", 1)[-1] for resource in objects] == ["/images/report.*"]
    assert [(action, resource) for action, resource in found if action != "s3:PutObject"] == [
        ("dynamodb:GetItem", found[0][1]),
        ("ec2:DeleteSnapshot", "snapshot/*"),
        ("ec2:DeregisterImage", "image/*"),
        ("ec2:DescribeImages", "*"),
        ("ec2:DescribeInstances", "*"),
        ("ec2:DescribeSnapshots", "*"),
        ("ssm:GetParameter", f"parameter/{YARD}/image"),
        ("ssm:GetParameter", f"parameter/{YARD}/image/previous"),
        *(
            ("states:ListExecutions", f"{{{word}Workflow}}")
            for word in ("Bake", "DevHost", "Snapshot", "Study", "Train")
        ),
    ]


@pytest.mark.parametrize("action", ["ec2:DeregisterImage", "ec2:DeleteSnapshot"])
def test_only_what_carries_the_yards_tag_is_deleted(yard: Assembly, action: str) -> None:
    for role in yard.roles:
        for permission in yard.permissions(role):
            if permission.action == action:
                assert permission.when == {"StringEquals": {"aws:ResourceTag/trainyard:yard": YARD}}, role


def test_another_yard_retires_its_own_images(private_yard: Assembly) -> None:
    for permission in private_yard.permissions(private_yard.role_of("retire")):
        if permission.action in ("ec2:DeregisterImage", "ec2:DeleteSnapshot"):
            assert permission.when == {"StringEquals": {"aws:ResourceTag/trainyard:yard": "other"}}


def test_images_are_retired_every_day_and_by_hand(yard: Assembly) -> None:
    (rule,) = [each for each in yard.resources("AWS::Events::Rule") if each.name.startswith("RetireDaily")]
    (target,) = rule.properties["Targets"]
    (machine,) = [
        each
        for each in yard.resources("AWS::StepFunctions::StateMachine")
        if each.properties["StateMachineName"] == f"{YARD}-retire"
    ]
    assert rule.properties["ScheduleExpression"] == "rate(1 day)"
    assert plain(target["Arn"]) == f"{{{machine.name}}}"
    assert json.loads(target["Input"]) == {}
    outputs = yard.templates["Trainyard-Images"]["Outputs"]
    assert plain(outputs["RetireStateMachineArn"]["Value"]) == f"{{{machine.name}}}"


def test_retire_knows_what_stays(yard: Assembly) -> None:
    given = yard.functions["retire"].properties["Environment"]["Variables"]
    assert (given["KEEP_IMAGES"], given["KEEP_DAYS"]) == ("3", "14")
