"""Step Functions: executions started, task tokens answered.

A token that was answered before, or whose task is over, is not an error: somebody else was faster.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from lambdas.aws.calls import listed, unless
from lambdas.aws.clients import client
from lambdas.core.run.recovery import Trouble

OVER = ("TaskTimedOut", "TaskDoesNotExist")
GOES_ON = ("RUNNING", "PENDING_REDRIVE")
LONG_AGO = datetime.min.replace(tzinfo=UTC)


def start(machine: str, name: str, execution_input: Mapping[str, Any]) -> bool:
    """Start an execution of that name; False when there is one already (the same event came twice)."""
    ask, given = client("stepfunctions").start_execution, json.dumps(execution_input)
    started = unless(["ExecutionAlreadyExists"], ask, stateMachineArn=machine, name=name, input=given)
    return started is not None


def stop(arn: str, trouble: Trouble) -> bool:
    """Stop this execution, which then runs no Catch; False when it is over already."""
    given = {"error": trouble.error, "cause": trouble.reason}
    try:
        client("stepfunctions").stop_execution(executionArn=arn, **given)
    except ClientError as error:
        found = error.response["Error"]
        if found["Code"] == "ExecutionDoesNotExist" or "not running" in found.get("Message", ""):
            return False
        raise
    return True


def is_over(arn: str) -> bool:
    """Whether this execution has ended, however."""
    return over_since(arn) is not None


def over_since(arn: str) -> datetime | None:
    """When this execution ended, however; None while it goes on. One that Step Functions does not know any more ended
    long ago."""
    found = unless(["ExecutionDoesNotExist"], client("stepfunctions").describe_execution, executionArn=arn)
    if found is None:
        return LONG_AGO
    return None if found["status"] in GOES_ON else found.get("stopDate", LONG_AGO)


def running(machines: Iterable[str]) -> frozenset[str]:
    """The names of all executions of these state machines that are not over; one that is not deployed has none."""
    return frozenset(name for machine in machines for name in _running(machine))


def _running(machine: str) -> Iterable[str]:
    which = {"stateMachineArn": machine, "statusFilter": "RUNNING"}
    found = listed("stepfunctions", "list_executions", "executions", **which)
    return unless(["StateMachineDoesNotExist"], lambda: [execution["name"] for execution in found]) or []


def succeed(token: str, output: Mapping[str, Any]) -> bool:
    """Answer the token; False when it was answered before."""
    return _answer("send_task_success", taskToken=token, output=json.dumps(output))


def fail(token: str, trouble: Trouble) -> bool:
    """Fail the task of this token; False when it was answered before."""
    return _answer("send_task_failure", taskToken=token, error=trouble.error[:256], cause=trouble.to_cause())


def heartbeat(token: str) -> bool:
    """Say that the task is alive; False when it is over."""
    return _answer("send_task_heartbeat", taskToken=token)


def _answer(operation: str, **request: str) -> bool:
    return unless(OVER, getattr(client("stepfunctions"), operation), **request) is not None
