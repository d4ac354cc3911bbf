"""Every policy of the yard compared with AWS's service reference: actions, resources, keys of conditions, operators."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from lambdas.core.images import dev
from lambdas.core.run import bucket_access
from tests.infrastructure import reference
from tests.infrastructure.assembly import Assembly, as_list, plain
from tests.unit.core.builders import job

DOCUMENTS = ("PolicyDocument", "AssumeRolePolicyDocument", "KeyPolicy")
"""Properties with policies of roles, users, buckets, queues, topics, keys and endpoints."""
SESSIONS = {
    "dev host": dev.policy_of_owner("bucket", "AROAEXAMPLE:ada@example.com"),
    "run": bucket_access.session_policy(
        "bucket",
        "digits-1",
        job(
            data={"train": "s3://corpus/images/"},
            checkpoints={"resume": "digits-0"},
            program={
                "module": "train",
                "source": "s3://BUCKET/programs/x.tar.gz",
                "secrets": {"TOKEN": "hub"},
            },
        ),
        yard="trainyard",
    ),
}


def documents(value: Any, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every policy in a resource of a template, wherever it is."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            if key in DOCUMENTS and isinstance(each, Mapping) and "Statement" in each:
                yield name, each
            else:
                yield from documents(each, name)
    elif isinstance(value, list):
        for each in value:
            yield from documents(each, name)


@pytest.mark.parametrize("which", ["yard", "keyed", "private_yard"])
def test_every_condition_of_every_policy_fits_its_keys_type(
    which: str, request: pytest.FixtureRequest
) -> None:
    assembly: Assembly = request.getfixturevalue(which)
    found = [
        (f"{each.stack} {name}", fault)
        for each in assembly.all()
        for name, document in documents(each.properties, each.name)
        for statement in as_list(plain(document)["Statement"])
        for fault in reference.faults(statement)
    ]
    assert found == []
    kinds = {each.type for each in assembly.all() if any(documents(each.properties, each.name))}
    assert {"AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::S3::BucketPolicy", "AWS::IAM::Role"} <= kinds


@pytest.mark.parametrize("whose", SESSIONS)
def test_every_condition_of_the_policies_of_sessions_does(whose: str) -> None:
    found = [fault for each in json.loads(SESSIONS[whose])["Statement"] for fault in reference.faults(each)]
    assert found == []


BUS, HOST = "arn:aws:events:us-east-1:123456789012:event-bus/yard", "arn:aws:ec2:*:*:instance/*"
OBJECTS = "arn:aws:s3:::b/*"
OWN: dict[str, Any] = {"events:source": ["trainyard.host"]}
TAG = {"aws:ResourceTag/a": "b"}
FAULTY: list[tuple[str, str, str, dict[str, Any], str]] = [
    ("an action that there is not", "events:PutEvent", BUS, {}, "AWS has no such action"),
    ("a resource that it does not take", "events:PutEvents", HOST, {}, "takes none of"),
    ("one where it takes none", "ec2:DescribeInstances", HOST, {}, "takes none of"),
    ("a key of another action", "events:PutTargets", BUS, {"StringEquals": {"events:Source": "x"}}, "does not support"),
    ("a key of another service", "ec2:StopInstances", HOST, {"StringEquals": {"events:source": "x"}}, "does not"),
    ("an array as one value", "events:PutEvents", BUS, {"StringEquals": OWN}, "without a set operator"),
    (
        "a set without its presence",
        "events:PutEvents",
        BUS,
        {"ForAllValues:StringEquals": OWN},
        "Null must require the key",
    ),
    (
        "another set beside the plain operator",
        "events:PutEvents",
        BUS,
        {"StringEquals": OWN, "ForAllValues:StringEquals": {"events:source": ["x"]}},
        "without a set operator",
    ),
    ("one value as a set", "ec2:StopInstances", HOST, {"ForAllValues:StringEquals": TAG}, "one value"),
    ("text as a number", "ec2:StopInstances", HOST, {"NumericEquals": TAG}, "does not compare"),
    ("a truth as text", "s3:GetObject", OBJECTS, {"StringEquals": {"aws:SecureTransport": "true"}}, "does not compare"),
    ("no truth", "s3:GetObject", OBJECTS, {"Bool": {"aws:SecureTransport": "yes"}}, "is true or false"),
    ("no presence", "events:PutEvents", BUS, {"Null": {"events:source": "no"}}, "takes true or false"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "action", "on", "when", "says"), FAULTY, ids=[case[0] for case in FAULTY])
def test_it_finds(case: str, action: str, on: str, when: dict[str, Any], says: str) -> None:
    statement = {"Effect": "Allow", "Action": action, "Resource": on, "Condition": when}
    assert any(says in fault for fault in reference.faults(statement)), case
