"""EventBridge Scheduler: the schedules of jobs, in a group of the yard."""

import json
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from lambdas.aws.calls import call_or_none
from lambdas.aws.clients import client
from trainyard.protocol.schedules import MISSED_AFTER
from trainyard.values.lazy import dataclass

MOST_RETRIES = 20


@dataclass(frozen=True, kw_only=True)
class Target:
    """The function that a schedule calls, the role for the call, and the queue for times without an answer."""

    function: str
    role: str
    queue: str


def put(
    group: str,
    name: str,
    expression: str,
    zone: str,
    target: Target,
    given: Mapping[str, Any],
    *,
    enabled: bool,
) -> str | None:
    """Make or replace a schedule. Return the reason if EventBridge Scheduler refuses it, such as an unknown zone."""
    request = {
        "GroupName": group,
        "Name": name,
        "ScheduleExpression": expression,
        "ScheduleExpressionTimezone": zone,
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "State": "ENABLED" if enabled else "DISABLED",
        "Target": {
            "Arn": target.function,
            "RoleArn": target.role,
            "Input": json.dumps(given),
            "DeadLetterConfig": {"Arn": target.queue},
            "RetryPolicy": {
                "MaximumEventAgeInSeconds": int(MISSED_AFTER.total_seconds()),
                "MaximumRetryAttempts": MOST_RETRIES,
            },
        },
    }
    try:
        if call_or_none(["ConflictException"], client("scheduler").create_schedule, **request) is None:
            client("scheduler").update_schedule(**request)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ValidationException":
            raise
        return str(error.response["Error"].get("Message", "it gave no reason"))
    return None


def delete(group: str, name: str) -> None:
    call_or_none(
        ["ResourceNotFoundException"], client("scheduler").delete_schedule, GroupName=group, Name=name
    )
