"""Prepare runs in the deployment after everything that a bake needs, and again only after a change."""

import aws_cdk as cdk
import pytest

from stacks.settings import YardSettings
from stacks.workflows.prepare import WAITS_MINUTES
from stacks.yard import Yard
from tests.infrastructure.assembly import Assembly
from tests.infrastructure.conftest import ROOT


def test_one_custom_resource_has_the_recipe_and_what_a_bake_installs(yard: Assembly) -> None:
    (prepared,) = yard.resources("Custom::Prepared")
    properties = prepared.properties
    assert properties["Recipe"] == (ROOT / "examples/images/gpu.yaml").read_text()
    software = yard.functions["bake_admit"].properties["Environment"]["Variables"]["SOFTWARE_HASH"]
    assert properties["Software"] == software
    assert properties["ServiceTimeout"] == str(60 * WAITS_MINUTES)
    assert set(properties) == {"ServiceToken", "ServiceTimeout", "Recipe", "Software"}


def test_it_comes_after_every_rule_by_which_events_reach_a_bake(yard: Assembly) -> None:
    (prepared,) = yard.resources("Custom::Prepared")
    here = {each.name for each in yard.resources("AWS::Events::Rule") if each.stack == prepared.stack}
    assert here <= set(prepared.whole["DependsOn"])
    stacks = [name.rpartition("-")[2] for name in yard.templates]
    assert prepared.stack.endswith("-Training")
    assert {"Network", "Storage", "Images"} <= set(stacks)


def test_it_makes_ec2s_roles_and_no_others(yard: Assembly) -> None:
    made = [
        (each.resource.rpartition("/")[2], each.when["StringEquals"]["iam:AWSServiceName"])
        for role in yard.roles
        for each in yard.permissions(role)
        if each.action == "iam:CreateServiceLinkedRole"
    ]
    assert made == [
        ("AWSServiceRoleForEC2Spot", "spot.amazonaws.com"),
        ("AWSServiceRoleForEC2Fleet", "ec2fleet.amazonaws.com"),
    ]
    assert yard.may("iam:CreateServiceLinkedRole") == {"PrepareRole"}


def test_a_yard_may_do_without_the_bake(private_yard: Assembly) -> None:
    (prepared,) = private_yard.resources("Custom::Prepared")
    assert set(prepared.properties) == {"ServiceToken", "ServiceTimeout"}


def test_a_recipe_that_is_not_there_is_said_before_anything_is_deployed() -> None:
    with pytest.raises(ValueError, match=r"bake_recipe='mine': there is no examples/images/mine\.yaml"):
        Yard(cdk.App(), YardSettings(bake_recipe="mine"))
