"""One execution. Each step from state to state is an event of the world, so other events may happen in between."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from localcloud.base import states_language as language
from localcloud.base.states_language import QUERY_ERROR, RUNTIME, TOO_LARGE, QueryError, matches
from simulation.aws.endpoint.api import Caller, Check
from simulation.aws.endpoint.gateway import Permissions
from simulation.aws.stepfunctions.attempt import Attempt
from simulation.aws.stepfunctions.definition import Definition, Machine, Retrier, State, Transition, Type
from simulation.aws.stepfunctions.errors import StateError
from simulation.aws.stepfunctions.expressions import Bindings, bound
from simulation.world.world import Planned, World
from trainyard.values.serialization import timestamp

INVOKED = {"ExecutedVersion": "$LATEST", "StatusCode": 200}
"""The answer of Invoke beside its payload. The metadata of its client are left out."""
MOST_EVENTS = 25_000
MOST_ERROR, MOST_CAUSE = 256, 32_768
LONGEST_EXECUTION = 365 * 86_400.0
STEP_SECONDS = (0.01, 0.05)
"""The seconds that Step Functions needs from one state to the next."""
JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class Status(StrEnum):
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    ABORTED = "ABORTED"


class Service(Protocol):
    """The service, as an execution uses it."""

    world: World
    iam: Permissions | None
    transitions: int
    on_state: Callable[[Execution, str, str], None]

    def call(self, function: str, payload: Any, on_done: Callable[[Any], None]) -> object: ...

    def open_wait(self, attempt: Attempt) -> str: ...

    def close_wait(self, token: str) -> None: ...

    def handle_change(self, execution: Execution) -> None: ...


class Execution:
    def __init__(
        self, service: Service, machine: Machine, name: str, number: int, given: str, definition: Definition
    ) -> None:
        self.service, self.machine, self.name = service, machine, name
        self.number, self.definition = number, definition
        self.arn = f"{machine.arn.replace(':stateMachine:', ':execution:')}:{name}"
        self.label = f"{machine.name} {name}"
        self.input, self._given = given, json.loads(given)
        self.started = _to_ms(service.world.now)
        self.stopped: datetime | None = None
        self.status = Status.RUNNING
        self.output: str | None = None
        self.error: str | None = None
        self.cause: str | None = None
        self.transitions = 0
        """States entered and retried, as AWS bills them."""
        self.events = 1
        """The length of AWS's history."""
        self.history: list[tuple[datetime, str, str]] = []
        """Time, state, event."""
        self.variables: dict[str, Any] = {}
        self.at = ""
        """The current state."""
        self.attempt: Attempt | None = None
        self._state: State | None = None
        self._state_input: Any = None
        self._entered, self._entered_event = self.started, 0
        self._retries: dict[Retrier, int] = {}
        self._next: Planned | None = None
        limit = definition.timeout or LONGEST_EXECUTION
        what = f"{self.label}: its time is up"
        self._limit = service.world.after(limit, lambda: self.end(Status.TIMED_OUT), what=what)

    # ------------------------------------------------------------------------------------------- from state to state

    def begin(self) -> None:
        self.then(lambda: self._enter(self.definition.start, self._given), "started")

    def then(self, do: Callable[[], None], what: str) -> None:
        """Plan the next step shortly, unless the execution has ended by then."""
        world = self.service.world
        self.history.append((world.now, self.at, what))
        self._plan(do, world.chance("stepfunctions").uniform(*STEP_SECONDS))

    def _plan(self, do: Callable[[], None], seconds: float) -> None:
        self._next = self.service.world.after(seconds, lambda: self._step(do), what=f"{self.label} continues")

    def _step(self, do: Callable[[], None]) -> None:
        self._next = None
        try:
            do()
        except QueryError as error:
            failure = self._not_evaluated(error)
            self._fail(failure.error, failure.cause)
        except StateError as failure:
            self._fail(failure.error, failure.cause)

    def _enter(self, name: str, given: Any) -> None:
        world, state = self.service.world, self.definition.states[name]
        self.at, self._state, self._state_input, self._entered = name, state, given, _to_ms(world.now)
        self._retries = {}
        self._count_transition()
        self._count_events(1)
        self._entered_event = self.events
        self.history.append((world.now, name, "entered"))
        if state.type in (Type.TASK, Type.WAIT):
            world.note(self.label, f"enters {name}")
        self.service.on_state(self, name, "entered")
        if self.status is not Status.RUNNING:
            return
        match state.type:
            case Type.TASK:
                self._try()
            case Type.CHOICE:
                self._choose(state)
            case Type.WAIT:
                seconds = self._seconds_of(state)
                self._plan(lambda: self._leave(state.transition, self._bindings(), given), seconds)
            case Type.PASS | Type.SUCCEED:
                self._leave(state.transition, self._bindings(), given)
            case Type.FAIL:
                bindings = self._bindings()
                error = state.error(bindings) if state.error else None
                self._fail(error, state.cause(bindings) if state.cause else None)

    def _seconds_of(self, state: State) -> float:
        """Return the duration of a Wait."""
        bindings = self._bindings()
        if state.until:
            return max(0.0, float((state.until(bindings) - self.service.world.now).total_seconds()))
        assert state.seconds is not None
        return float(state.seconds(bindings))

    def _leave(self, transition: Transition, bindings: Bindings, result: Any) -> None:
        """Leave the state. `result` is its output unless the definition sets another."""
        assert self._state is not None
        output = transition.output(bindings) if transition.output else result
        assigned = transition.assign(bindings) if transition.assign else {}
        _check_size(assigned, self.at or "")
        text = _check_size(output, self.at or "")
        self.variables = {**self.variables, **assigned}
        self._count_events(1)
        self.history.append((self.service.world.now, self.at, "exited"))
        self.service.on_state(self, self.at, "exited")
        if self.status is not Status.RUNNING:
            return
        following = transition.next
        if following is None:
            self.end(Status.SUCCEEDED, output=text)
        else:
            self._plan(
                lambda: self._enter(following, output),
                self.service.world.chance("stepfunctions").uniform(*STEP_SECONDS),
            )

    def _choose(self, state: State) -> None:
        bindings = self._bindings()
        for rule in state.rules:
            if rule.condition(bindings):
                self._leave(rule.transition, bindings, self._state_input)
                return
        if not state.has_default:
            raise StateError(
                "States.NoChoiceMatched",
                f"No choice of the state '{self.at}' matched, and it has no Default.",
            )
        self._leave(state.transition, bindings, self._state_input)

    # ------------------------------------------------------------------------------------------------------- a Task

    def _try(self) -> None:
        """Start an attempt. An error before the call is a failure of the task."""
        assert self._state is not None
        self._count_events(2)
        try:
            self._call(self._state)
        except QueryError as error:
            self.task_failed(self._not_evaluated(error))
        except StateError as failure:
            self.task_failed(failure)

    def _call(self, state: State) -> None:
        assert state.function is not None
        assert state.payload is not None
        token = self.service.open_wait if state.waits_for_token else None
        before = self._bindings()
        attempt = Attempt(self, *self._limits(state, before))
        self.attempt = attempt
        try:
            attempt.token = token(attempt) if token else None
            bindings = self._bindings(token=attempt.token) if attempt.token else before
            function = state.function(bindings)
            payload = json.loads(_check_size(state.payload(bindings), self.at or ""))
            self._require_permission(function)
        except (QueryError, StateError):
            attempt.abandon()
            raise
        ends = not state.waits_for_token
        self.service.call(function, payload, lambda answer: attempt.handle_answer(answer, ends=ends))

    def _limits(self, state: State, bindings: Bindings) -> tuple[float | None, float | None]:
        timeout = state.timeout(bindings) if state.timeout else None
        heartbeat = state.heartbeat(bindings) if state.heartbeat else None
        if heartbeat is not None and timeout is not None and heartbeat >= timeout:
            raise StateError(RUNTIME, "The HeartbeatSeconds must be smaller than the TimeoutSeconds.")
        return timeout, heartbeat if state.waits_for_token else None

    def _require_permission(self, function: str) -> None:
        if self.service.iam is None:
            return
        caller = Caller(self.label, self.machine.role)
        denied = self.service.iam.first_denied(caller, [Check("lambda:InvokeFunction", function)])
        if denied:
            raise StateError(
                "Lambda.AWSLambdaException", self.service.iam.denial(denied, caller, "lambda").message
            )

    def task_done(self, result: Any) -> None:
        """Handle the result of the attempt."""
        assert self._state is not None
        self._count_events(1)
        try:
            is_optimized = self._state.waits_for_token or self._state.wraps
            result = {**INVOKED, "Payload": result} if self._state.wraps else result
            plain = json.loads(_check_size(result, "lambda" if is_optimized else (self.at or "")))
            self._leave(self._state.transition, self._bindings(result=plain), plain)
        except QueryError as error:
            self.task_failed(self._not_evaluated(error))
        except StateError as failure:
            self.task_failed(failure)

    def task_failed(self, error: StateError) -> None:
        """Retry, or continue at a catcher, or fail the execution."""
        assert self._state is not None
        self._count_events(1)
        retrier = next((each for each in self._state.retriers if matches(each.errors, error.error)), None)
        if retrier and self._retries.get(retrier, 0) < retrier.most:
            self._retry(retrier, error)
            return
        catcher = next((each for each in self._state.catchers if matches(each.errors, error.error)), None)
        if catcher is None:
            raise error
        name, cause = error.error and language.reported_error(error.error), self._located(error)
        self.service.world.note(self.label, f"catches {name}", state=self.at, cause=(cause or "")[:300])
        caught = {"Error": name, "Cause": cause}
        self._leave(catcher.transition, self._bindings(errorOutput=caught), caught)

    def _retry(self, retrier: Retrier, error: StateError) -> None:
        already = self._retries.get(retrier, 0)
        self._retries[retrier] = already + 1
        self._count_transition()
        world, pause = self.service.world, retrier.pause(already)
        if retrier.jitter:
            pause = world.chance("stepfunctions").uniform(0, pause)
        self.history.append((world.now, self.at, f"tried again after {error.error}"))
        self._plan(self._try, pause)

    # ------------------------------------------------------------------------------------------------------ the end

    def end(
        self, status: Status, *, output: str | None = None, error: str | None = None, cause: str | None = None
    ) -> None:
        """End the execution; only the first end counts. Functions that it called keep running."""
        if self.status is not Status.RUNNING:
            return
        world = self.service.world
        self.status, self.stopped = status, _to_ms(world.now)
        self.output, self.error, self.cause = output, error, cause
        self._limit.cancel()
        if self._next:
            self._next.cancel()
        if self.attempt:
            self.attempt.abandon()
        self.history.append((world.now, self.at, status if error is None else f"{status}: {error}"))
        failure = {"error": error, "cause": cause and cause[:300]} if error else {}
        world.note(self.label, f"ends: {status}", **failure)
        self.service.handle_change(self)

    def waits_for_nothing(self) -> bool:
        """Return True if nothing is planned that could continue the execution, except for its timeout."""
        if self.status is not Status.RUNNING or (self._next and self._next.do):
            return False
        attempt = self.attempt
        if attempt is None or attempt.is_over:
            return True
        limits = [each for each in (attempt.timeout, attempt.silence) if each and each.do]
        return not limits and not attempt.is_called

    def _fail(self, error: str | None, cause: str | None) -> None:
        """Fail the execution. AWS omits a missing name or cause; a timeout has no cause."""
        cause = self._located(StateError(error, cause))
        name = language.reported_error(error)[:MOST_ERROR] if error else None
        self.end(Status.FAILED, error=name, cause=cause[:MOST_CAUSE] if cause else None)

    def _not_evaluated(self, error: QueryError) -> StateError:
        """Return the failure of an expression, which is a separate event in the history."""
        self._count_events(1)
        return StateError(QUERY_ERROR, str(error))

    def _located(self, failure: StateError) -> str | None:
        if not failure.error or not failure.cause:
            return failure.cause
        return language.locate_cause(failure.error, failure.cause, self.at, self._entered_event)

    # ------------------------------------------------------------------------------------------------- bookkeeping

    def _bindings(self, *, token: str | None = None, **states: Any) -> Bindings:
        return bound(self.variables, {"input": self._state_input, "context": self._context(token), **states})

    def _context(self, token: str | None) -> dict[str, Any]:
        execution = {
            "Id": self.arn,
            "Input": self._given,
            "Name": self.name,
            "RoleArn": self.machine.role,
            "StartTime": timestamp(self.started),
            "RedriveCount": 0,
        }
        state: dict[str, Any] = {"EnteredTime": timestamp(self._entered), "Name": self.at}
        if self._state and self._state.type is Type.TASK:
            state["RetryCount"] = sum(self._retries.values())
        machine = {"Id": self.machine.arn, "Name": self.machine.name}
        context = {"Execution": execution, "State": state, "StateMachine": machine}
        return context if token is None else {**context, "Task": {"Token": token}}

    def _count_transition(self) -> None:
        self.transitions += 1
        self.service.transitions += 1

    def _count_events(self, number: int) -> None:
        self.events += number
        if self.events >= MOST_EVENTS:
            raise StateError(
                RUNTIME, f"The execution reached the maximum number of history events ({MOST_EVENTS})."
            )


def _check_size(value: Any, whose: str) -> str:
    """Check the size of the JSON, and return it."""
    if too_large := language.excess(value, whose):
        raise StateError(TOO_LARGE, too_large)
    return JSON.encode(value)


def _to_ms(when: datetime) -> datetime:
    """Round down to milliseconds, as AWS stores times."""
    return when.replace(microsecond=when.microsecond // 1000 * 1000)
