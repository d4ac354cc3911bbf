"""Execution of Task states: attempts, each with its task token, timeout and heartbeat."""

from __future__ import annotations

import contextvars
import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ministack.services import stepfunctions as stock

from localcloud.base import states_language as language
from localcloud.base import task_tokens
from localcloud.services.stepfunctions import authority, callbacks, evaluation, history
from localcloud.services.stepfunctions.callbacks import ABANDONED, Wait
from localcloud.services.stepfunctions.errors import execution_error

CALLBACK = ".waitForTaskToken"
MOST_RETRY_PAUSE = 31622400

State = Mapping[str, Any]
Execution = dict[str, Any]
Ctx = dict[str, Any]


@dataclass(frozen=True)
class Limits:
    """Timeout and heartbeat of an attempt."""

    timeout: float | None
    heartbeat: float | None


def execute_task(state: State, raw_input: Any, execution: Execution, ctx: Ctx) -> tuple[Any, str | None]:
    """Run a Task state with its Retry and Catch. Return its output and its next state."""
    # Branches of a Parallel state share ctx, so a task's own values need a copy.
    mine = {**ctx, "State": dict(ctx["State"]), "is_task": True}
    retries: dict[int, int] = {}
    while True:
        mine["State"]["RetryCount"] = sum(retries.values())
        try:
            result = _attempt(state, raw_input, execution, mine)
            return _output(state, raw_input, result, mine), stock._next_or_end(state)
        except stock._ExecutionError as error:
            cause = error.cause and evaluation.locate_cause(
                execution, mine["State"]["Name"], error.error, error.cause
            )
            retrier, index = stock._find_matching_retrier(state.get("Retry", []), error.error, retries)
            if retrier is not None and execution["status"] == "RUNNING":
                stock._scaled_sleep(_pause(retrier, retries.get(index, 0)))
                retries[index] = retries.get(index, 0) + 1
                continue
            catcher = stock._find_matching_catcher(state.get("Catch", []), error.error)
            if catcher is None or error.error == ABANDONED:
                raise execution_error(error.error and language.reported_error(error.error), cause) from error
            caught = {"Error": error.error and language.reported_error(error.error), "Cause": cause}
            spoken = stock._state_query_language(state, mine)
            return stock._apply_catcher(catcher, raw_input, mine, spoken, caught), catcher["Next"]


def _attempt(state: State, raw_input: Any, execution: Execution, ctx: Ctx) -> Any:
    resource = str(state.get("Resource", ""))
    wants_token = resource.endswith(CALLBACK)
    token = task_tokens.issue(execution["stateMachineArn"])
    if wants_token:
        ctx["Task"] = {"Token": token}
    arguments = _arguments(state, raw_input, ctx)
    limits = _limits(state, raw_input, ctx)
    record = history.TaskRecord(execution, resource.removesuffix(CALLBACK), resource)
    record.record_schedule(arguments, limits.timeout, limits.heartbeat)
    wait = callbacks.open_wait(token, execution["executionArn"])
    try:
        _start(resource, arguments, wait, record, execution, wants_token=wants_token)
        is_activity = ":activity:" in resource  # the clock starts when a worker takes the task
        wait.until(None if is_activity else limits.timeout, limits.heartbeat if wants_token else None)
    finally:
        callbacks.close(token)
    if wait.error:
        record.record_failure(*wait.error)
        raise execution_error(*wait.error)
    called = resource.split(":")[5] if ":::" in resource else resource
    if too_large := language.excess(wait.result, called):
        record.record_failure(language.TOO_LARGE, too_large)
        raise execution_error(language.TOO_LARGE, too_large)
    record.record_success(wait.result)
    return wait.result


def _start(
    resource: str,
    arguments: Any,
    wait: Wait,
    record: history.TaskRecord,
    execution: Execution,
    *,
    wants_token: bool,
) -> None:
    """Start the call in a separate thread, because the wait may end first.

    A failed call ends the wait, even one for a task token, because no answer would come.
    """

    def call() -> None:
        record.record_start()
        try:
            result = stock._invoke_resource(resource.removesuffix(CALLBACK), arguments)
        except stock._ExecutionError as error:
            wait.fail(error.error, error.cause)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must end the task
            wait.fail("States.Runtime", f"{type(error).__name__}: {error}")
        else:
            if wants_token:
                record.record_submission(result)
            else:
                wait.succeed(result)

    session = authority.session_of(execution)
    request = contextvars.copy_context()
    request.run(authority.act_as, session)
    threading.Thread(target=request.run, args=(call,), name="task", daemon=True).start()


def _arguments(state: State, raw_input: Any, ctx: Ctx) -> Any:
    if stock._state_query_language(state, ctx) == "JSONata":
        return stock._apply_jsonata_arguments(state, raw_input, ctx)
    return stock._apply_parameters(state, stock._apply_input_path(state, raw_input, ctx), ctx)


def _output(state: State, raw_input: Any, result: Any, ctx: Ctx) -> Any:
    if stock._state_query_language(state, ctx) == "JSONata":
        output = stock._apply_jsonata_output(state, raw_input, ctx, result=result, default=result)
        stock._apply_state_assign(state, raw_input, ctx, result=result)
        return output
    selected = stock._apply_result_selector(state, result)
    return stock._apply_output_path(state, stock._apply_result_path(state, raw_input, selected), ctx)


def _limits(state: State, raw_input: Any, ctx: Ctx) -> Limits:
    timeout = _seconds(state, "TimeoutSeconds", raw_input, ctx)
    heartbeat = _seconds(state, "HeartbeatSeconds", raw_input, ctx)
    if timeout is not None and heartbeat is not None and heartbeat >= timeout:
        raise execution_error("States.Runtime", "HeartbeatSeconds must be smaller than TimeoutSeconds")
    return Limits(timeout, heartbeat)


def _seconds(state: State, name: str, raw_input: Any, ctx: Ctx) -> float | None:
    """Return a limit: a number, a JSONata expression, or (JSONPath) a path in `<name>Path`."""
    if f"{name}Path" in state:
        value = stock._resolve_path_or_ctx(state[f"{name}Path"], raw_input, ctx)
    elif name not in state:
        return None
    elif stock._state_query_language(state, ctx) == "JSONata":
        return evaluation.whole(state, name, raw_input, ctx, least=1)
    else:
        value = state[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise execution_error("States.Runtime", f"{name} must be a positive number of seconds, not {value!r}")
    return float(value)


def _pause(retrier: Mapping[str, Any], already: int) -> float:
    interval, backoff = float(retrier.get("IntervalSeconds", 1)), float(retrier.get("BackoffRate", 2.0))
    pause = language.pause(
        interval, backoff, float(retrier.get("MaxDelaySeconds", MOST_RETRY_PAUSE)), already
    )
    return random.uniform(0, pause) if retrier.get("JitterStrategy") == "FULL" else pause
