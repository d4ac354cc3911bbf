"""The policies for users allow exactly what docs/permissions.md lists."""

import json
import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from tests.infrastructure.assembly import Assembly, Permission, permissions_in, plain
from trainyard import __version__
from trainyard.cli.commands.yard.grant import Level
from trainyard.client.deployment import UNCHANGED_FIELDS
from trainyard.protocol import sources

PAGE = Path(__file__).parents[2] / "docs" / "permissions.md"
PEOPLE = ("viewer", "user", "operator")
YARD = "trainyard"
SPEAKS_FOR_ITSELF = sources.only_from("trainyard.people/${aws:username}", "trainyard.people/${aws:userid}")
OPERATES = sources.only_from("trainyard.operator/${aws:username}", "trainyard.operator/${aws:userid}")
MOST_CHARACTERS = 6144
"""The limit of a managed policy, without white space."""


def permissions(yard: Assembly, who: str) -> list[Permission]:
    """Return the permissions that `trainyard yard grant` attaches: users also work on dev hosts, and operators are
    users, too."""
    attached = Level(who).policies
    return [each for policy in attached for each in permissions_in(document(yard, policy)["Statement"])]


def document(yard: Assembly, who: str) -> dict[str, Any]:
    (found,) = [
        each for each in yard.resources("AWS::IAM::ManagedPolicy") if each.name.startswith(who.capitalize())
    ]
    return dict(found.properties["PolicyDocument"])


def rows() -> list[tuple[set[str], set[str]]]:
    """Return the rows of the page's table: allowed levels and required permissions."""
    lines = [line.split("|")[1:-1] for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return [
        (
            {who for who, cell in zip(PEOPLE, cells[1:4], strict=True) if cell.strip() == "yes"},
            set(re.findall(r"`([^`]+)`", cells[4])),
        )
        for cells in lines[1:]
    ]


@pytest.mark.parametrize("who", PEOPLE)
def test_who_may_what_is_on_the_page(yard: Assembly, who: str) -> None:
    told = {action for may, by in rows() if who in may for action in by}
    assert {each.action for each in permissions(yard, who)} == told


def test_each_may_what_those_before_may(yard: Assembly) -> None:
    viewer, user, operator = (
        {(each.action, each.resource, json.dumps(each.when)) for each in permissions(yard, who)}
        for who in PEOPLE
    )
    assert viewer < user < operator


@pytest.mark.parametrize("who", PEOPLE)
def test_nobody_touches_what_the_yard_says_of_runs_or_what_it_is_made_of(yard: Assembly, who: str) -> None:
    for each in permissions(yard, who):
        service, _, name = each.action.partition(":")
        assert service not in ("iam", "kms", "sns"), each
        answers = each.resource.startswith(("{PredictFunction", "{NotifyTryWebhookFunction"))
        assert service != "lambda" or (name == "InvokeFunction" and answers), each
        own = (SPEAKS_FOR_ITSELF, OPERATES) if who == "operator" else (SPEAKS_FOR_ITSELF,)
        assert service != "events" or (name == "PutEvents" and each.when in own), each
        assert not (service == "dynamodb" and name not in ("GetItem", "Query")), each
        changes = service == "ssm" and name.startswith(("Put", "Delete", "Send"))
        kept = tuple(f":parameter/{YARD}/{folder}/*" for folder in ("secrets", "webhooks"))
        assert not changes or each.resource.endswith(kept), each
        assert not (service == "ssm" and "GetParameter" in name and "secrets" in each.resource), each
        if each.action in ("s3:PutObject", "s3:DeleteObject"):
            assert not fnmatch("runs/", each.resource.split("/", 1)[1]), each
            assert not each.resource.split("/", 1)[1].startswith("runs"), each


@pytest.mark.parametrize("who", ["viewer", "user"])
def test_only_an_operator_is_root_on_hosts_that_are_not_his_own(yard: Assembly, who: str) -> None:
    for each in permissions(yard, who):
        assert not (each.action == "s3:PutObject" and "images" in each.resource), each
        assert not (each.action == "states:StartExecution" and "BakeWorkflow" in each.resource), each
        if each.resource.endswith((":instance/*", "::image/*", "::snapshot/*")):
            assert who == "user", each
            check_is_about_own_dev_hosts(each)


def check_is_about_own_dev_hosts(each: Permission) -> None:
    """Check the tags of the yard, of the owner, and of a dev host, because hosts of a run also have its submitter in
    the owner's tag."""
    by = "ssm:resourceTag" if each.action.startswith("ssm:") else "aws:ResourceTag"
    assert each.when["StringEquals"] == {
        f"{by}/trainyard:yard": YARD,
        f"{by}/trainyard:submitter": ["${aws:username}", "${aws:userid}"],
    }
    assert each.when["StringLike"] == {f"{by}/trainyard:dev": "?*"}
    if each.action == "ec2:CreateTags":
        assert each.when["ForAllValues:StringEquals"] == {"aws:TagKeys": ["trainyard:hold"]}


def test_a_user_may_all_that_a_dev_host_needs_and_a_viewer_nothing(yard: Assembly) -> None:
    about = (":instance/*", "::image/*", "::snapshot/*")
    may = {
        who: {each.action for each in permissions(yard, who) if each.resource.endswith(about)}
        for who in ("viewer", "user")
    }
    assert may == {
        "viewer": set(),
        "user": {
            "ec2:StartInstances",
            "ec2:StopInstances",
            "ec2:TerminateInstances",
            "ec2:CreateTags",
            "ssm:StartSession",
            "ec2:DeregisterImage",
            "ec2:DeleteSnapshot",
        },
    }


@pytest.mark.parametrize("who", ["user", "operator"])
def test_users_write_only_below_their_own_names(yard: Assembly, who: str) -> None:
    """Another user's job file, program and data stay as they are. Operators also write shared data and recipes."""
    calls = {"s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"}
    written = {each.resource.partition("/")[2] for each in permissions(yard, who) if each.action in calls}
    names = ("${aws:username}", "${aws:userid}")
    own = {f"{folder}/by/{name}/*" for folder in ("jobs", "programs", "data") for name in names}
    assert written == own | ({"images/*", "data/*"} if who == "operator" else set())
    starts = {each.resource for each in permissions(yard, who) if each.action == "states:StartExecution"}
    for workflow in ("TrainWorkflow", "DevHostWorkflow"):
        assert any(workflow in each for each in starts) is (who == "operator"), workflow


def test_only_an_operator_raises_the_cap_of_a_hold(yard: Assembly) -> None:
    def written(who: str) -> set[str]:
        return {
            key
            for each in permissions(yard, who)
            if each.action == "ec2:CreateTags"
            for key in each.when["ForAllValues:StringEquals"]["aws:TagKeys"]
        }

    assert written("user") == {"trainyard:hold"}
    assert written("operator") == {"trainyard:hold", "trainyard:cap"}


def test_a_viewer_changes_nothing(yard: Assembly) -> None:
    reads = ("Get", "List", "Describe", "Query", "FilterLogEvents", "StartQuery")
    assert [
        each for each in permissions(yard, "viewer") if not each.action.partition(":")[2].startswith(reads)
    ] == []


def test_hosts_are_the_yards_for_operators_too(yard: Assembly) -> None:
    for each in permissions(yard, "operator"):
        if each.resource.endswith(":instance/*"):
            assert "trainyard" in json.dumps(each.when), each


def test_a_session_is_on_a_host_of_the_yard_and_by_a_document_that_is_named(yard: Assembly) -> None:
    starts = [each for each in permissions(yard, "operator") if each.action == "ssm:StartSession"]
    assert {each.resource.rpartition("/")[2] for each in starts} == {
        "*",
        "SSM-SessionManagerRunShell",
        "AWS-StartPortForwardingSession",
        "AWS-StartSSHSession",
        "trainyard-command",
        "trainyard-shell",
    }
    for each in starts:
        assert bool(each.when) is each.resource.endswith(":instance/*")
        account = ":{AWS::AccountId}:" in each.resource
        assert account is not ("document/AWS-" in each.resource), each


def test_sessions_are_resumed_and_ended_by_their_owner_alone(yard: Assembly) -> None:
    for each in permissions(yard, "operator"):
        if each.action in ("ssm:ResumeSession", "ssm:TerminateSession"):
            owner = {"ssm:resourceTag/aws:ssmmessages:session-id": "${aws:userid}"}
            assert each.when == {"StringEquals": owner}, each


@pytest.mark.parametrize("who", [*PEOPLE, "dev"])
def test_a_policy_is_no_longer_than_iam_takes(keyed: Assembly, who: str) -> None:
    """Policies with a customer's key, which are longer, in the region with the longest names."""
    text = json.dumps(plain(document(keyed, who)), separators=(",", ":"))
    for placeholder, value in (
        ("Partition", "aws-us-gov"),
        ("Region", "ap-southeast-2"),
        ("AccountId", "123456789012"),
    ):
        text = text.replace(f"{{AWS::{placeholder}}}", value)
    arn = f"arn:aws-us-gov:states:ap-southeast-2:123456789012:stateMachine:{YARD}-snapshot"
    assert len(re.sub(r"\{[A-Z]\w+(\.Arn)?\}", arn, text)) <= MOST_CHARACTERS


def test_the_yard_is_found_by_one_parameter_that_is_written_last(yard: Assembly) -> None:
    (found,) = [
        each for each in yard.resources("AWS::SSM::Parameter") if each.properties["Name"] == f"/{YARD}/yard"
    ]
    assert found.stack == "Trainyard-People"
    told = json.loads(plain(found.properties["Value"]))
    assert (told["version"], told["yard"], told["bus"]) == (__version__, "Trainyard", YARD)
    assert set(told["workflows"]) == {"train", "study", "bake", "snapshot", "dev-host", "retire", "version"}
    assert set(told["policies"]) == {*PEOPLE, "dev"}
    assert set(UNCHANGED_FIELDS) | {"yard", "bucket"} <= set(told)


@pytest.mark.parametrize("who", PEOPLE)
def test_everybody_may_list_runs(yard: Assembly, who: str) -> None:
    queried = {
        each.resource.rpartition("/")[2] for each in permissions(yard, who) if each.action == "dynamodb:Query"
    }
    assert "month" in queried


def test_a_url_for_predictions_needs_a_signature_and_a_permission_of_users(
    yard: Assembly, keyed: Assembly
) -> None:
    assert yard.resources("AWS::Lambda::Url") == []
    (url,) = keyed.resources("AWS::Lambda::Url")
    assert url.properties["AuthType"] == "AWS_IAM"
    for each, has_url in ((yard, False), (keyed, True)):
        actions = {permission.action for permission in permissions(each, "user")}
        assert ("lambda:InvokeFunctionUrl" in actions) == has_url
        assert "lambda:InvokeFunctionUrl" not in {found.action for found in permissions(each, "viewer")}


def test_only_the_function_for_predictions_reserves_concurrency(yard: Assembly, keyed: Assembly) -> None:
    reserved = {
        name: each.properties["ReservedConcurrentExecutions"]
        for name, each in yard.functions.items()
        if "ReservedConcurrentExecutions" in each.properties
    }
    assert reserved == {"predict": 50}
    assert "ReservedConcurrentExecutions" not in keyed.functions["predict"].properties
