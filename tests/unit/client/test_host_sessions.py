"""The list of sessions on hosts: user, host and kind."""

from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
from botocore.stub import Stubber

from tests.unit.client.facts import yard_of
from trainyard.client import Session
from trainyard.client.inventory import sessions

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOSTS = [
    {"InstanceId": "i-1", "Tags": [{"Key": "trainyard:dev", "Value": "mine"}]},
    {"InstanceId": "i-2", "Tags": []},
]


def told(minutes: float, host: str, document: str, **more: Any) -> dict[str, Any]:
    return {
        "SessionId": f"s-{minutes:g}",
        "Target": host,
        "DocumentName": document,
        "Owner": "arn:aws:iam::123456789012:user/lab/alice",
        "StartDate": NOON + timedelta(minutes=minutes),
        **more,
    }


def listed(active: list[dict[str, Any]], over: list[dict[str, Any]], **asked: Any) -> list[Any]:
    boto = boto3.Session(aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1")
    session = Session(boto)
    with Stubber(session.client("ec2")) as ec2, Stubber(session.client("ssm")) as ssm:
        ec2.add_response("describe_instances", {"Reservations": [{"Instances": HOSTS}]})
        ssm.add_response("describe_sessions", {"Sessions": active})
        ssm.add_response("describe_sessions", {"Sessions": over[:1], "NextToken": "more"})
        ssm.add_response("describe_sessions", {"Sessions": over[1:]})
        return sessions.list_sessions(yard_of(session), **{"limit": 50, **asked})


def test_the_newest_are_first_each_with_who_where_and_what() -> None:
    ended = {"EndDate": NOON + timedelta(hours=1)}
    role = {"Owner": "arn:aws:sts::123456789012:assumed-role/Lab/bob@example.com"}
    found = listed(
        [told(4, "i-1", "AWS-StartSSHSession")],
        [
            told(1, "i-2", "SSM-SessionManagerRunShell", **ended, **role),
            told(3, "i-1", "AWS-StartPortForwardingSession", **ended),
            told(2, "i-1", "trainyard-command", **ended),
            told(5, "i-2", "AWS-StartPortForwardingSessionToRemoteHost", **ended),
        ],
    )
    assert [(each.who, each.host, each.name, each.what, each.ended is None) for each in found] == [
        ("alice", "i-2", "", "AWS-StartPortForwardingSessionToRemoteHost", False),
        ("alice", "i-1", "mine", "ssh", True),
        ("alice", "i-1", "mine", "port", False),
        ("alice", "i-1", "mine", "command", False),
        ("bob@example.com", "i-2", "", "shell", False),
    ]


def test_what_is_on_other_peoples_hosts_is_not_the_yards() -> None:
    """Sessions on a terminated host are listed only if they carry this client's reason."""
    shell = "SSM-SessionManagerRunShell"
    found = listed([], [told(1, "i-other", shell), told(2, "i-gone", shell, Reason="trainyard shell")])
    assert [each.host for each in found] == ["i-gone"]


def test_so_many_at_most() -> None:
    over = [told(minutes, "i-1", "AWS-StartSSHSession") for minutes in range(9)]
    assert [each.session for each in listed([], over, limit=2)] == ["s-8", "s-7"]
