"""Step Functions: start and stop executions, answer task tokens.

A task token may be answered already, or its task may be over. Both are no errors, because another call may have been
faster."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from lambdas.aws.calls import call_or_none, list_items
from lambdas.aws.clients import client
from lambdas.core.run.recovery import Trouble
from trainyard.core.model.errors import ServiceUnavailable
from trainyard.protocol.trial import part_of

OVER = ("TaskTimedOut", "TaskDoesNotExist")
GOES_ON = ("RUNNING", "PENDING_REDRIVE")
RETRIES = "Lambda tries twice more, after one minute and after two more; if it does not start then"
LONG_AGO = datetime.min.replace(tzinfo=UTC)


def start(machine: str, name: str, execution_input: Mapping[str, Any], *, by_hand: str = "") -> bool:
    """Start an execution of that name; return False if it exists, because the same event arrived twice.

    Raises ServiceUnavailable if Step Functions does not answer now. Lambda tries the event again, and keeps it as a
    dead letter after the third try. Its reason then names `by_hand`, the command that starts the execution."""
    ask, given = client("stepfunctions").start_execution, json.dumps(execution_input)
    try:
        started = call_or_none(
            ["ExecutionAlreadyExists"], ask, stateMachineArn=machine, name=name, input=given
        )
    except ServiceUnavailable as late:
        if not by_hand:
            raise
        raise ServiceUnavailable(
            f"{late.reason}, so {name} has not started. {RETRIES}: {by_hand}", late.code
        ) from late
    return started is not None


def stop(arn: str, trouble: Trouble) -> bool:
    """Stop this execution without running its Catch; return False if it had ended."""
    given = {"error": trouble.error, "cause": trouble.reason}
    try:
        client("stepfunctions").stop_execution(executionArn=arn, **given)
    except ClientError as error:
        found = error.response["Error"]
        if found["Code"] == "ExecutionDoesNotExist" or "not running" in found.get("Message", ""):
            return False
        raise
    return True


def execution_of(machine: str, name: str) -> str:
    """Return the ARN of the execution of this name."""
    return f"{machine.replace(':stateMachine:', ':execution:')}:{name}"


def is_over(arn: str) -> bool:
    """Return True if this execution has ended with any status."""
    return read_end(arn) is not None


def read_end(arn: str) -> datetime | None:
    """Return the end of this execution; None while it runs. An execution that Step Functions no longer lists ended long
    ago."""
    found = call_or_none(
        ["ExecutionDoesNotExist"], client("stepfunctions").describe_execution, executionArn=arn
    )
    if found is None:
        return LONG_AGO
    return None if found["status"] in GOES_ON else found.get("stopDate", LONG_AGO)


def list_running(machines: Iterable[str]) -> frozenset[str]:
    """Return the runs of all running executions of these state machines. A state machine that is not deployed has
    none."""
    return frozenset(part_of(name)[0] for machine in machines for name in _running(machine))


def _running(machine: str) -> Iterable[str]:
    which = {"stateMachineArn": machine, "statusFilter": "RUNNING"}
    found = list_items("stepfunctions", "list_executions", "executions", **which)
    return (
        call_or_none(["StateMachineDoesNotExist"], lambda: [execution["name"] for execution in found]) or []
    )


def succeed(task_token: str, output: Mapping[str, Any]) -> bool:
    """Answer the task token; return False if it was answered before."""
    return _answer("send_task_success", taskToken=task_token, output=json.dumps(output))


def fail(task_token: str, trouble: Trouble) -> bool:
    """Fail the task of this token; return False if it was answered before."""
    return _answer(
        "send_task_failure", taskToken=task_token, error=trouble.error[:256], cause=trouble.to_cause()
    )


def heartbeat(task_token: str) -> bool:
    """Send a heartbeat for the task; return False if the task is over."""
    return _answer("send_task_heartbeat", taskToken=task_token)


def _answer(operation: str, **request: str) -> bool:
    return call_or_none(OVER, getattr(client("stepfunctions"), operation), **request) is not None
