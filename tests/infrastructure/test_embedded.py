"""A yard in another app (examples/embedded): it uses the app's network and boundary, and changes nothing of the app."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from stacks.settings import YardSettings
from stacks.yard import Yard
from tests.infrastructure.assembly import Assembly
from tests.infrastructure.conftest import ROOT


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    return synthesized("examples.embedded.app", tmp_path_factory.mktemp("embedded"))


def synthesized(module: str, folder: Path) -> Assembly:
    """Synthesize an app as `cdk` does."""
    done = subprocess.run(
        [sys.executable, "-m", module],
        cwd=ROOT,
        env={**os.environ, "CDK_OUTDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return Assembly.read(folder)


def test_the_yards_stacks_are_there_by_their_names(app: Assembly) -> None:
    parts = ("Network", "Storage", "Images", "Training", "Patrol", "Watch", "People")
    assert set(app.templates) == {"Platform", *(f"Research-{part}" for part in parts)}


def test_the_small_example_is_a_yard_with_the_apps_tag(tmp_path: Path) -> None:
    small = synthesized("examples.embedded.small", tmp_path)
    [output] = [
        name for name in small.templates["Research-Storage"]["Outputs"] if name.startswith("TrainingBucket")
    ]
    assert output == "TrainingBucket"
    [bucket] = [each for each in small.resources("AWS::S3::Bucket") if each.stack == "Research-Storage"]
    assert {"Key": "cost-center", "Value": "research"} in bucket.properties["Tags"]


def test_nothing_of_the_apps_own_is_tagged(app: Assembly) -> None:
    assert "trainyard" not in json.dumps(app.templates["Platform"]).lower()


def test_hosts_live_in_the_apps_network_and_the_yard_adds_a_security_group_only(
    app: Assembly, yard: Assembly
) -> None:
    kinds = {each["Type"] for each in app.templates["Research-Network"]["Resources"].values()}
    assert {kind for kind in kinds if kind.startswith("AWS::EC2::")} == {
        "AWS::EC2::SecurityGroup",
        "AWS::EC2::SecurityGroupEgress",
        "AWS::EC2::SecurityGroupIngress",
    }
    subnets = [each.name for each in app.resources("AWS::EC2::Subnet") if each.stack == "Platform"]
    told = subnet_ids(app)
    assert len(told) == len(subnet_ids(yard)) > 1
    assert all(subnet in each for subnet in subnets for each in told)


def subnet_ids(assembly: Assembly) -> list[str]:
    """Return the subnets in the settings of functions that launch or plan."""
    told = [
        each.properties.get("Environment", {}).get("Variables", {})
        for each in assembly.resources("AWS::Lambda::Function")
    ]
    return [json.dumps(variables["SUBNET_IDS"]) for variables in told if "SUBNET_IDS" in variables]


def test_every_role_is_within_the_bound(app: Assembly) -> None:
    roles = [each for each in app.resources("AWS::IAM::Role") if each.stack != "Platform"]
    assert len(roles) > 30
    assert [each.name for each in roles if "PermissionsBoundary" not in each.properties] == []


def test_logs_are_kept_for_as_long_as_the_app_says(app: Assembly, yard: Assembly) -> None:
    def days(assembly: Assembly) -> set[Any]:
        return {each.properties["RetentionInDays"] for each in assembly.resources("AWS::Logs::LogGroup")}

    assert days(app) == {90}
    assert days(yard) == {30}


def test_the_apps_own_flags_change_nothing_in_the_yard(app: Assembly, yard: Assembly) -> None:
    """Policies stay separate statements, as the tests of permissions read them; partitions are parameters."""
    for kind in ("AWS::IAM::Role", "AWS::IAM::Policy", "AWS::Lambda::Function", "AWS::Events::Rule"):
        ours = [each for each in app.resources(kind) if each.stack != "Platform"]
        assert len(ours) == len(yard.resources(kind))
    statements = [
        len(each.properties["PolicyDocument"]["Statement"])
        for each in app.resources("AWS::IAM::Policy")
        if each.stack != "Platform"
    ]
    assert sorted(statements) == sorted(
        len(each.properties["PolicyDocument"]["Statement"]) for each in yard.resources("AWS::IAM::Policy")
    )


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"vpc": "vpc-0123456789abcdef0"}, "vpc and subnets: give both"),
        ({"subnets": ("subnet-0123456789abcdef0",)}, "vpc and subnets: give both"),
        ({"s3_endpoint": True}, "s3_endpoint is for an existing VPC"),
        ({"vpc": "vpc-1", "subnets": ("subnet-1",), "private": True}, "choose subnets instead"),
        ({"vpc": "vpc-1", "subnets": ("subnet-1",), "zones": ("us-east-1a",)}, "choose subnets instead"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Yard(cdk.App(), YardSettings(**settings))
