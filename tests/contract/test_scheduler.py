"""EventBridge Scheduler: times of a zone reach a function with the scheduled time, under the schedule's role."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.services.scheduler import next_time
from tests.contract.conftest import ACCOUNT, REGION, Cloud, allow, eventually

REMEMBERS = """
import boto3, json, os

def handler(event, context):
    boto3.client("sqs").send_message(QueueUrl=os.environ["QUEUE"], MessageBody=json.dumps(event))
"""
INPUT = {"schedule": "nightly", "at": "<aws.scheduler.scheduled-time>"}


def schedule(role: str, function: str, **changes: Any) -> dict[str, Any]:
    target = {"Arn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{function}", "RoleArn": role}
    return {
        "Name": f"schedule-{uuid.uuid4().hex[:8]}",
        "ScheduleExpression": "cron(* * * * ? *)",
        "ScheduleExpressionTimezone": "Europe/Berlin",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "Target": {**target, "Input": json.dumps(INPUT)},
        **changes,
    }


def test_each_time_reaches_the_function_with_the_time_of_the_schedule(cloud: Cloud) -> None:
    sqs, scheduler = cloud.client("sqs"), cloud.client("scheduler")
    queue = sqs.create_queue(QueueName=f"times-{uuid.uuid4().hex[:8]}")["QueueUrl"]
    function = cloud.function(
        REMEMBERS, allow("sqs:SendMessage"), Environment={"Variables": {"QUEUE": queue}}
    )
    arn = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{function}"
    role = cloud.role("scheduler.amazonaws.com", allow("lambda:InvokeFunction", arn))
    group = f"group-{uuid.uuid4().hex[:8]}"
    scheduler.create_schedule_group(Name=group)
    made = schedule(role, function, GroupName=group)
    begun = datetime.now(UTC)
    scheduler.create_schedule(**made)
    (message,) = eventually(
        lambda: sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=1).get("Messages"), seconds=150
    )
    given = json.loads(message["Body"])
    at = datetime.strptime(given["at"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert given["schedule"] == "nightly"
    assert at > begun.replace(second=0, microsecond=0)
    assert at.second == 0
    scheduler.update_schedule(**{**made, "State": "DISABLED"})
    assert scheduler.get_schedule(GroupName=group, Name=made["Name"])["State"] == "DISABLED"
    scheduler.delete_schedule_group(Name=group)
    with pytest.raises(ClientError, match="does not exist"):
        scheduler.get_schedule(GroupName=group, Name=made["Name"])


@pytest.mark.parametrize(
    "changes",
    [
        {"ScheduleExpressionTimezone": "Europe/Berln"},
        {"ScheduleExpression": "cron(0 3 * * 2-6 *)"},
        {"ScheduleExpression": "cron(0 3 ? * ? *)"},
        {"ScheduleExpression": "0 3 * * 1-5"},
        {"ScheduleExpression": "rate(0 minutes)"},
        {"Input": "{"},
    ],
)
def test_a_schedule_with_a_fault_is_refused(cloud: Cloud, changes: dict[str, Any]) -> None:
    role = cloud.role("scheduler.amazonaws.com")
    made = schedule(role, "none", **{name: value for name, value in changes.items() if name != "Input"})
    made["Target"] |= {name: value for name, value in changes.items() if name == "Input"}
    with pytest.raises(ClientError) as refused:
        cloud.client("scheduler").create_schedule(**made)
    assert refused.value.response["Error"]["Code"] == "ValidationException"


def test_the_clock_skips_a_time_and_repeats_none() -> None:
    """Two changes of the clock, as the User Guide describes them."""
    daily, hourly = "cron(30 2 * * ? *)", "cron(0 * * * ? *)"
    assert next_time(daily, "Europe/Berlin", datetime(2027, 3, 27, 12, tzinfo=UTC)) == datetime(
        2027, 3, 29, 0, 30, tzinfo=UTC
    )
    first = next_time(daily, "Europe/Berlin", datetime(2026, 10, 24, 12, tzinfo=UTC))
    assert first == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert next_time(daily, "Europe/Berlin", first) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)
    once = next_time(hourly, "Europe/Berlin", datetime(2026, 10, 25, 0, tzinfo=UTC))
    assert once == datetime(2026, 10, 25, 2, tzinfo=UTC)
