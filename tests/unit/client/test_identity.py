"""Where the client puts the job files of whoever calls."""

import boto3
import pytest
from botocore.stub import Stubber

from trainyard.client import Session
from trainyard.client.identity import jobs_folder
from trainyard.core.model import submitter

CALLERS = [
    ("a user", "arn:aws:iam::123456789012:user/alice", "AIDAEXAMPLE", "alice"),
    ("a user with a path", "arn:aws:iam::123456789012:user/lab/vision/alice", "AIDAEXAMPLE", "alice"),
    (
        "a session",
        "arn:aws:sts::123456789012:assumed-role/Lab/alice@example.com",
        "AROAEXAMPLE:alice@example.com",
        "AROAEXAMPLE:alice@example.com",
    ),
    ("the account itself", "arn:aws:iam::123456789012:root", "123456789012", submitter.UNKNOWN),
]


@pytest.mark.parametrize(
    ("arn", "user_id", "who"), [row[1:] for row in CALLERS], ids=[row[0] for row in CALLERS]
)
def test_a_job_file_goes_where_it_is_known_whose_it_is(arn: str, user_id: str, who: str) -> None:
    boto = boto3.Session(aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1")
    session = Session(boto)
    with Stubber(session.client("sts")) as stub:
        answer = {"Arn": arn, "UserId": user_id, "Account": "123456789012"}
        stub.add_response("get_caller_identity", answer)
        assert submitter.of_key(f"{jobs_folder(session)}digits.yaml") == who
