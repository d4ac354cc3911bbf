"""The caller's name, and the folder of the caller's job files."""

import boto3
import pytest
from botocore.stub import Stubber

from trainyard.client import Session
from trainyard.client.identity import caller_name, event_source
from trainyard.core.model import submitter
from trainyard.protocol import keys

CALLERS = [
    ("a user", "arn:aws:iam::123456789012:user/alice", "AIDAEXAMPLE", "alice"),
    ("a user with a path", "arn:aws:iam::123456789012:user/lab/vision/alice", "AIDAEXAMPLE", "alice"),
    (
        "a session",
        "arn:aws:sts::123456789012:assumed-role/Lab/alice@example.com",
        "AROAEXAMPLE:alice@example.com",
        "AROAEXAMPLE:alice@example.com",
    ),
    ("the account itself", "arn:aws:iam::123456789012:root", "123456789012", "root"),
]


@pytest.mark.parametrize(
    ("arn", "user_id", "who"), [row[1:] for row in CALLERS], ids=[row[0] for row in CALLERS]
)
def test_a_job_file_goes_where_it_is_known_whose_it_is(arn: str, user_id: str, who: str) -> None:
    boto = boto3.Session(aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1")
    session = Session(boto)
    with Stubber(session.client("sts")) as stub:
        answer = {"Arn": arn, "UserId": user_id, "Account": "123456789012"}
        for _ in range(3):
            stub.add_response("get_caller_identity", answer)
        assert caller_name(session) == who
        assert event_source(session) == f"trainyard.people/{who}"
        assert submitter.submitter_of(f"{keys.owned(keys.JOBS, caller_name(session))}digits.yaml") == who


@pytest.mark.parametrize(
    ("tags", "who"),
    [
        ({"trainyard:dev": "mine", "trainyard:submitter": "alice"}, "alice"),
        ({"trainyard:submitter": "alice"}, "AROAEXAMPLE:i-0123456789abcdef0"),
        ({}, "AROAEXAMPLE:i-0123456789abcdef0"),
        (None, "AROAEXAMPLE:i-0123456789abcdef0"),
    ],
    ids=["a dev host", "a host of somebody's run", "an instance of other people", "one that is gone"],
)
def test_on_a_dev_host_it_goes_where_its_owners_lie(tags: dict[str, str] | None, who: str) -> None:
    host = "i-0123456789abcdef0"
    session = Session(
        boto3.Session(aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1")
    )
    arn = f"arn:aws:sts::123456789012:assumed-role/DevHostRole/{host}"
    described = {
        "Instances": [{"InstanceId": host, "Tags": [{"Key": k, "Value": v} for k, v in (tags or {}).items()]}]
    }
    with Stubber(session.client("sts")) as sts, Stubber(session.client("ec2")) as ec2:
        sts.add_response(
            "get_caller_identity", {"Arn": arn, "UserId": f"AROAEXAMPLE:{host}", "Account": "123456789012"}
        )
        ec2.add_response("describe_instances", {"Reservations": [] if tags is None else [described]})
        assert submitter.submitter_of(f"{keys.owned(keys.JOBS, caller_name(session))}digits.yaml") == who
