"""Step Functions: the yard's state machines in virtual time, task tokens, and listings of executions."""

from __future__ import annotations

import base64
import binascii
import bisect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from localcloud.base import states_language as language
from simulation.aws.endpoint.api import Answer, Caller, Check, Request, ServiceError, Structure
from simulation.aws.endpoint.gateway import Permissions
from simulation.aws.endpoint.parameters import not_simulated, only
from simulation.aws.stepfunctions.attempt import Attempt
from simulation.aws.stepfunctions.definition import Definition, Machine
from simulation.aws.stepfunctions.execution import (
    MOST_CAUSE,
    MOST_ERROR,
    Execution,
    Status,
)
from simulation.world.world import World

__all__ = ["Execution", "Machine", "Status", "StepFunctions"]

Invoke = Callable[[str, Any, Callable[[Any], None]], object]
"""(function, payload, on_done): on_done(answer | LambdaFailure) is called once, now or later."""
Emit = Callable[[str, str, Mapping[str, Any], Sequence[str]], None]
"""(source, detail type, detail, resources)"""

TOKEN = "AQCEAAAAKgAAAAMAAAAA"  # noqa: S105 - the prefix of valid task tokens, similar to AWS's
LAG_SECONDS = (0.0, 1.0)
"""Describe and List are eventually consistent: they may show the old state for this time."""
MOST_INCLUDED = 248 * 1024
"""The maximum bytes of input or output in an event."""
PAGE, MOST_PAGE = 100, 1000
NAME = re.compile(r"[0-9A-Za-z_-]{1,80}")
ON_MACHINE = {"start_execution": "StartExecution", "list_executions": "ListExecutions"}
ON_EXECUTION = {"describe_execution": "DescribeExecution", "stop_execution": "StopExecution"}
ON_TOKEN = {
    "send_task_success": "SendTaskSuccess",
    "send_task_failure": "SendTaskFailure",
    "send_task_heartbeat": "SendTaskHeartbeat",
}


class StepFunctions:
    """The Step Functions service.

    `create` adds state machines. `iam`, if given, checks that the role of a state machine may call a function.
    """

    def __init__(self, world: World, invoke: Invoke, emit: Emit, *, iam: Permissions | None = None) -> None:
        self.world, self.iam = world, iam
        self.machines: dict[str, Machine] = {}
        self.executions: dict[str, Execution] = {}
        """By ARN, in the order of their start."""
        self.transitions = 0
        """The transitions of all executions."""
        self.on_state: Callable[[Execution, str, str], None] = _ignore_state
        """Hook of the fault plan, called when an execution has `entered` or `exited` a state."""
        self._invoke, self._emit = invoke, emit
        self._of_machine: dict[str, list[Execution]] = {}
        self._running: dict[str, dict[str, Execution]] = {}
        """By state machine: executions shown as running. Ended ones are removed when a list is requested."""
        self._shown_from: dict[str, datetime] = {}
        """By execution: when its last change is visible to all readers."""
        self._waits: dict[str, Attempt] = {}
        self._tokens = 0

    def create(self, machine: Machine) -> None:
        """Add a state machine. Raises ServiceError for an unsupported definition."""
        Definition.of(machine.definition)
        self.machines[machine.arn] = machine
        self._of_machine.setdefault(machine.arn, [])
        self._running.setdefault(machine.arn, {})

    def stuck(self) -> list[Execution]:
        """Return executions that wait although nothing is planned, so only their timeout can end them."""
        return [
            execution
            for machine in self.machines.values()
            for execution in self._shown_as_running(machine)
            if execution.waits_for_nothing()
        ]

    # --------------------------------------------------------------------------------------------------- operations

    def checks(self, caller: Caller, operation: str, request: Mapping[str, Any]) -> list[Check]:
        if operation in ON_MACHINE:
            return [Check(f"states:{ON_MACHINE[operation]}", str(request["stateMachineArn"]))]
        if operation in ON_EXECUTION:
            return [Check(f"states:{ON_EXECUTION[operation]}", str(request["executionArn"]))]
        if operation in ON_TOKEN:
            return [Check(f"states:{ON_TOKEN[operation]}", "*")]  # task tokens have no resource
        raise not_simulated(f"{operation} of stepfunctions")

    def start_execution(self, caller: Caller, request: Request) -> Answer:
        only(request, ("stateMachineArn", "name", "input"), "StartExecution")
        machine = self._machine(request["stateMachineArn"])
        given = request.get("input", "{}")
        _check_json("input", given, "InvalidExecutionInput", "Invalid State Machine Execution Input")
        name = request.get("name") or self.world.new_id("execution/", 32).removeprefix("execution/")
        if not NAME.fullmatch(name):
            raise ServiceError("InvalidName", f"Invalid Name: '{name}'")
        known = self.executions.get(f"{machine.arn.replace(':stateMachine:', ':execution:')}:{name}")
        if known is not None:
            if known.status is Status.RUNNING and known.input == given:
                return {"executionArn": known.arn, "startDate": known.started}
            raise ServiceError("ExecutionAlreadyExists", f"Execution Already Exists: '{known.arn}'")
        execution = self._start(machine, name, given)
        return {"executionArn": execution.arn, "startDate": execution.started}

    def stop_execution(self, caller: Caller, request: Request) -> Answer:
        only(request, ("executionArn", "error", "cause"), "StopExecution")
        execution = self._execution(request["executionArn"])
        error, cause = request.get("error"), request.get("cause")
        _check_length("error", error, MOST_ERROR)
        _check_length("cause", cause, MOST_CAUSE)
        if execution.status is Status.ABORTED:
            return {"stopDate": execution.stopped}
        if execution.status is not Status.RUNNING:
            raise ServiceError("ValidationException", "Execution is not running")
        self.world.note(caller.name, "stops the execution", execution=execution.label)
        execution.end(Status.ABORTED, error=error, cause=cause)
        return {"stopDate": execution.stopped}

    def describe_execution(self, caller: Caller, request: Request) -> Answer:
        only(request, ("executionArn",), "DescribeExecution")
        execution = self._execution(request["executionArn"])
        shown = {
            **self._row(execution),
            "input": execution.input,
            "inputDetails": {"included": True},
            "redriveCount": 0,
        }
        if shown["status"] != Status.RUNNING:
            if execution.output is not None:
                shown |= {"output": execution.output, "outputDetails": {"included": True}}
            failure = {"error": execution.error, "cause": execution.cause}
            shown |= {name: value for name, value in failure.items() if value is not None}
        return shown

    def list_executions(self, caller: Caller, request: Request) -> Answer:
        """Return the executions, the newest first."""
        only(request, ("stateMachineArn", "statusFilter", "maxResults", "nextToken"), "ListExecutions")
        machine, wanted = self._machine(request["stateMachineArn"]), request.get("statusFilter")
        most = request.get("maxResults") or PAGE
        if wanted is not None and wanted not in set(Status):
            raise ServiceError("NotSimulated", f"no execution is ever {wanted} in the simulator")
        if not 0 < most <= MOST_PAGE:
            raise ServiceError(
                "ValidationException", f"Member must have value less than or equal to {MOST_PAGE}"
            )
        candidates = (
            self._shown_as_running(machine) if wanted == Status.RUNNING else self._of_machine[machine.arn]
        )
        end = len(candidates)
        if "nextToken" in request:
            end = bisect.bisect_left(candidates, _number(request["nextToken"]), key=lambda each: each.number)
        page: list[Execution] = []
        for index in range(end - 1, -1, -1):
            execution = candidates[index]
            if self._is_listed(execution) and wanted in (None, self._shown_status(execution)):
                if len(page) == most:
                    rows = [self._row(each) for each in page]
                    return {"executions": rows, "nextToken": _page_token(page[-1].number)}
                page.append(execution)
        return {"executions": [self._row(each) for each in page]}

    def send_task_success(self, caller: Caller, request: Request) -> Answer:
        only(request, ("taskToken", "output"), "SendTaskSuccess")
        output = request["output"]
        _check_length("output", output, language.MOST_BYTES)
        _check_json("output", output, "InvalidOutput", "Invalid Output")
        self._wait_of(request["taskToken"]).succeed(json.loads(output))
        return {}

    def send_task_failure(self, caller: Caller, request: Request) -> Answer:
        only(request, ("taskToken", "error", "cause"), "SendTaskFailure")
        error, cause = request.get("error"), request.get("cause")
        _check_length("error", error, MOST_ERROR)
        _check_length("cause", cause, MOST_CAUSE)
        self._wait_of(request["taskToken"]).fail(error, cause)
        return {}

    def send_task_heartbeat(self, caller: Caller, request: Request) -> Answer:
        only(request, ("taskToken",), "SendTaskHeartbeat")
        self._wait_of(request["taskToken"]).beat()
        return {}

    # -------------------------------------------------------------------------------------------- for the executions

    def call(self, function: str, payload: Any, on_done: Callable[[Any], None]) -> object:
        return self._invoke(function, payload, on_done)

    def open_wait(self, attempt: Attempt) -> str:
        """Return a new task token for this attempt."""
        self._tokens += 1
        content = f"{attempt.execution.machine.arn}#{self._tokens}"
        token = TOKEN + base64.b64encode(content.encode()).decode()
        self._waits[token] = attempt
        return token

    def close_wait(self, token: str) -> None:
        self._waits.pop(token, None)

    def handle_change(self, execution: Execution) -> None:
        """Emit the event of a start or an end. Lists show the change later."""
        lag = self.world.chance("stepfunctions").uniform(*LAG_SECONDS)
        self._shown_from[execution.arn] = self.world.now + timedelta(seconds=lag)
        self._emit(
            "aws.states", "Step Functions Execution Status Change", _detail(execution), [execution.arn]
        )

    # ------------------------------------------------------------------------------------------------------- inside

    def _start(self, machine: Machine, name: str, given: str) -> Execution:
        definition = Definition.of(machine.definition)
        execution = Execution(self, machine, name, len(self.executions), given, definition)
        self.executions[execution.arn] = execution
        self._of_machine[machine.arn].append(execution)
        self._running[machine.arn][execution.arn] = execution
        self.world.note(execution.label, "starts")
        execution.begin()
        self.handle_change(execution)
        return execution

    def _machine(self, arn: str) -> Machine:
        if arn not in self.machines:
            raise ServiceError("StateMachineDoesNotExist", f"State Machine Does Not Exist: '{arn}'")
        return self.machines[arn]

    def _execution(self, arn: str) -> Execution:
        if arn not in self.executions:
            raise ServiceError("ExecutionDoesNotExist", f"Execution Does Not Exist: '{arn}'")
        return self.executions[arn]

    def _wait_of(self, token: str) -> Attempt:
        """Return the attempt of a task token. Raises AWS's errors for an old or invalid token."""
        attempt = self._waits.get(token)
        if attempt is not None:
            return attempt
        number = _number_of(token)
        if number is None:
            raise ServiceError("InvalidToken", "Invalid Token: 'Invalid token'")
        if number > self._tokens:
            raise ServiceError("TaskDoesNotExist", "Task Does Not Exist: 'Provided task does not exist'")
        raise ServiceError("TaskTimedOut", "Task Timed Out: 'Provided task does not exist anymore'")

    def _shown_as_running(self, machine: Machine) -> list[Execution]:
        running = self._running[machine.arn]
        over = [arn for arn, each in running.items() if self._shown_status(each) is not Status.RUNNING]
        for arn in over:
            del running[arn]
        return list(running.values())

    def _is_listed(self, execution: Execution) -> bool:
        """Return False while lists do not show a new execution yet."""
        return execution.status is not Status.RUNNING or self.world.now >= self._shown_from[execution.arn]

    def _shown_status(self, execution: Execution) -> Status:
        return execution.status if self.world.now >= self._shown_from[execution.arn] else Status.RUNNING

    def _row(self, execution: Execution) -> Structure:
        status = self._shown_status(execution)
        row = {
            "executionArn": execution.arn,
            "stateMachineArn": execution.machine.arn,
            "name": execution.name,
            "status": status,
            "startDate": execution.started,
        }
        return row if status is Status.RUNNING else {**row, "stopDate": execution.stopped}


def _ignore_state(execution: Execution, state: str, what: str) -> None:
    pass


def _detail(execution: Execution) -> Structure:
    output = execution.output
    return {
        "executionArn": execution.arn,
        "stateMachineArn": execution.machine.arn,
        "name": execution.name,
        "status": str(execution.status),
        "startDate": _epoch_ms(execution.started),
        "stopDate": None if execution.stopped is None else _epoch_ms(execution.stopped),
        **_carried("input", execution.input),
        **({"output": None, "outputDetails": None} if output is None else _carried("output", output)),
        "error": execution.error,
        "cause": execution.cause,
        "stateMachineVersionArn": None,
        "stateMachineAliasArn": None,
        "redriveCount": 0,
        "redriveDate": None,
    }


def _carried(name: str, text: str) -> Structure:
    included = language.size_of(text) <= MOST_INCLUDED
    return {name: text if included else None, f"{name}Details": {"included": included}}


def _epoch_ms(when: datetime) -> int:
    return round(when.timestamp() * 1000)


def _number_of(token: str) -> int | None:
    """Return the number of a task token; None if it is not a token."""
    if not token.startswith(TOKEN):
        return None
    try:
        number = base64.b64decode(token.removeprefix(TOKEN), validate=True).decode().rpartition("#")[2]
    except (binascii.Error, UnicodeDecodeError):
        return None
    return int(number) if number.isdigit() else None


def _page_token(number: int) -> str:
    return base64.b64encode(f"before {number}".encode()).decode()


def _number(token: str) -> int:
    try:
        return int(base64.b64decode(token, validate=True).decode().removeprefix("before "))
    except (binascii.Error, ValueError) as error:
        raise ServiceError("InvalidToken", "Invalid Token: 'Invalid token'") from error


def _check_json(name: str, text: str, code: str, prefix: str) -> None:
    _check_length(name, text, language.MOST_BYTES)
    if (fault := language.json_fault(text)) is not None:
        raise ServiceError(code, f"{prefix}: '{fault}'")


def _check_length(name: str, text: str | None, most: int) -> None:
    if text is not None and language.size_of(text) > most:
        raise ServiceError(
            "ValidationException",
            f"1 validation error detected: Value at '{name}' failed to satisfy constraint: "
            f"Member must have length less than or equal to {most}",
        )
