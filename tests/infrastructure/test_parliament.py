"""Parliament finds nothing in the yard's policies that no other statement settles."""

import importlib
import json
import warnings
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Any

import pytest

from tests.infrastructure.assembly import Assembly, as_list, plain

REGION, ACCOUNT = "us-east-1", "123456789012"
EXAMPLES = {
    "AWS::S3::Bucket": "arn:aws:s3:::yard",
    "AWS::DynamoDB::Table": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/ledger",
    "AWS::Logs::LogGroup": f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:log:*",
    "AWS::IAM::Role": f"arn:aws:iam::{ACCOUNT}:role/role",
    "AWS::StepFunctions::StateMachine": f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:train",
    "AWS::Lambda::Function": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:function",
    "AWS::Events::EventBus": f"arn:aws:events:{REGION}:{ACCOUNT}:event-bus/bus",
    "AWS::SQS::Queue": f"arn:aws:sqs:{REGION}:{ACCOUNT}:queue",
    "AWS::SNS::Topic": f"arn:aws:sns:{REGION}:{ACCOUNT}:topic",
    "AWS::SSM::Parameter": "/trainyard/image",
    "AWS::EC2::LaunchTemplate": "lt-0123456789abcdef0",
    "AWS::EC2::Subnet": "subnet-0123456789abcdef0",
    "AWS::EC2::SecurityGroup": "sg-0123456789abcdef0",
}
PSEUDO = {"AWS::Partition": "aws", "AWS::Region": REGION, "AWS::AccountId": ACCOUNT}
SPLIT = "RESOURCE_MISMATCH"
"""The finding for an action with several kinds of resources in a statement with some of them. Other statements have
the other kinds."""

NOT_MEANT = {
    "mapRun": "no workflow of the yard has a distributed map",
    "express": "every workflow of the yard is a standard one",
}
"""Kinds of resources that an action may take and the yard never uses; each with the reason."""


def policies(yard: Assembly) -> Iterator[tuple[str, str]]:
    """Yield name and text of each policy, with examples for unknown values."""
    for kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
        for policy in yard.resources(kind):
            yield policy.name, _completed(json.dumps(plain(policy.properties["PolicyDocument"])), yard)


def _completed(text: str, yard: Assembly) -> str:
    known = PSEUDO | {each.name: EXAMPLES[each.type] for each in yard.all() if each.type in EXAMPLES}
    for name, example in known.items():
        for placeholder in (name, f"{name}.Arn", f"{name}.GroupId"):
            text = text.replace(f"{{{placeholder}}}", example)
    return text


@pytest.fixture
def parliament() -> Any:
    """Return parliament as a module, because its command writes a log under one name for all users of the machine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # parliament's own deprecations
        return importlib.import_module("parliament")


@pytest.mark.parametrize("which", ["yard", "keyed"])
def test_parliament_finds_nothing_in_any_policy(
    which: str, request: pytest.FixtureRequest, parliament: Any
) -> None:
    checked = 0
    for name, text in policies(request.getfixturevalue(which)):
        statements = json.loads(text)["Statement"]
        checked += 1
        assert [
            (name, finding.issue, finding.detail)
            for finding in findings(parliament, text)
            if finding.issue != SPLIT or not all(allowed(need, statements) for need in finding.detail)
        ] == []
    assert checked > 1


def findings(parliament: Any, text: str) -> list[Any]:
    """Return the findings of severity "low" and above, as the command shows them."""
    found = map(parliament.enhance_finding, parliament.analyze_policy_string(text).findings)
    return [each for each in found if each.severity not in ("MUTE", "INFO")]


def allowed(needed: dict[str, str], statements: list[dict[str, Any]]) -> bool:
    if any(f":{kind}:" in needed["required_format"] for kind in NOT_MEANT):
        return True
    return any(
        needed["action"] in as_list(statement["Action"])
        and any(fnmatch(resource, needed["required_format"]) for resource in as_list(statement["Resource"]))
        for statement in statements
    )


def test_it_finds_an_action_that_there_is_not_and_a_star_too_many(parliament: Any) -> None:
    statements = [
        {"Effect": "Allow", "Action": "ec2:DescribeGangs", "Resource": "*"},
        {"Effect": "Allow", "Action": "s3:PutObject", "Resource": "*"},
    ]
    policy = json.dumps({"Version": "2012-10-17", "Statement": statements})
    assert {each.issue for each in findings(parliament, policy)} == {"UNKNOWN_ACTION", "RESOURCE_STAR"}
