"""Lambda: the yard's real handlers, called in this process and thread, where they take turns at every request.

Each function has its own environment and settings, as in its own process. A killed function runs no further.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lambdas import environment
from simulation.aws.endpoint.api import Answer, Caller, Check, Request, ServiceError
from simulation.aws.layers import LAYERS
from simulation.world.world import Future, Planned, Process, World

ASYNC_RETRY_SECONDS = (60.0, 120.0)
"""The delays of AWS before the first and the second retry of an asynchronous invocation."""
COLD_SECONDS, WARM_SECONDS = 0.9, 0.03
TOO_MANY = "Lambda.TooManyRequestsException"
PREDICT = "lambdas.workflows.predict"
"""The function that keeps what it has loaded."""
THROTTLED_SECONDS = (1.0, 300.0)
"""The shortest and longest delay of an event that was throttled. It doubles each time and does not count as a
retry."""


@dataclass(frozen=True)
class FunctionConfig:
    name: str
    module: str
    environment: Mapping[str, str]
    timeout: float
    role: str
    retries: int = 2
    max_age: float = 21600.0
    """Seconds after which an event is dropped."""


@dataclass(frozen=True)
class LambdaContext:
    """The part of Lambda's context that the yard's handlers use."""

    function_name: str
    aws_request_id: str
    invoked_function_arn: str
    memory_limit_in_mb: str = "512"


@dataclass(frozen=True)
class LambdaFailure:
    """A failed invocation, as Step Functions reports it."""

    error: str
    cause: str


@dataclass
class Invocation:
    function: FunctionConfig
    number: int
    payload: Mapping[str, Any]
    on_done: Callable[[Any], None]
    process: Process | None = None
    timeout: Planned | None = None
    requests: int = 0
    operations: list[str] = field(default_factory=list)
    """The AWS operations that it requested."""
    during: str = ""
    """The states of the yard's executions when it began."""
    trigger: str = ""
    """The signal of the event that started it, and the role of its host."""
    over: bool = False

    @functools.cached_property
    def name(self) -> str:
        return f"{self.function.name.partition('-')[2]}#{self.number}"

    @property
    def context(self) -> LambdaContext:
        return LambdaContext(self.function.name, self.name, arn_of(self.function.name))

    @property
    def event(self) -> str | None:
        """Return the type of the event that started the invocation, if any."""
        return self.payload.get("detail-type")

    @functools.cached_property
    def about(self) -> str:
        """Return a text that is equal for similar invocations: all passes of a schedule, all progress signals, all
        retries of a state, all predictions by the same user agent."""
        event = self.event
        if event == "Scheduled Event" or self.payload.get("detail", {}).get("signal") == "progress":
            return f"{self.function.name} {event}"
        return f"{self.function.name} {dict(self.payload, token=None, body=None)}"


@dataclass
class Functions:
    """All functions of a yard. `on_begin` is a hook of the fault plan, called when an invocation begins."""

    world: World
    configs: Mapping[str, FunctionConfig]
    on_begin: Callable[[Invocation], None] = lambda invocation: None
    running: dict[str, Invocation] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    dead_letters: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    most_at_once: int = 0
    concurrency: int | None = None
    """The limit of concurrent invocations, if there is one."""
    throttled: int = 0
    waiting: int = 0
    """The number of events that will be retried."""
    _warm: Counter[str] = field(default_factory=Counter)

    def call(self, function: str, payload: Mapping[str, Any], on_done: Callable[[Any], None]) -> Invocation:
        """Invoke a function synchronously, as Step Functions does. `on_done(answer | LambdaFailure)` is called
        once."""
        config = self.configs[name_of_function(function)]
        self.counts[config.name] += 1
        invocation = Invocation(config, self.counts[config.name], json.loads(json.dumps(payload)), on_done)
        invocation.process = self.world.spawn(invocation.name, lambda: self._work(invocation))
        self.running[invocation.name] = invocation
        if self.concurrency is not None and len(self.running) > self.concurrency:
            self.throttled += 1
            self._end(invocation, LambdaFailure(TOO_MANY, "Rate Exceeded."))
            return invocation
        self.most_at_once = max(self.most_at_once, len(self.running))
        invocation.timeout = self.world.after(config.timeout, lambda: self.time_out(invocation))
        self.on_begin(invocation)
        return invocation

    def event(self, function: str, payload: Mapping[str, Any]) -> None:
        """Invoke a function asynchronously. Lambda retries the event, and finally adds it to the dead letters."""
        self._try_event(self.configs[name_of_function(function)], payload, self.world.now, tries=0)

    def _try_event(
        self,
        config: FunctionConfig,
        payload: Mapping[str, Any],
        since: datetime,
        *,
        tries: int,
        throttles: int = 0,
    ) -> None:
        def done(answer: Any) -> None:
            if not isinstance(answer, LambdaFailure):
                return
            is_throttled = answer.error == TOO_MANY
            if is_throttled:
                pause = min(THROTTLED_SECONDS[0] * 2**throttles, THROTTLED_SECONDS[1])
            else:
                pause = ASYNC_RETRY_SECONDS[min(tries, 1)]
            age = (self.world.now - since).total_seconds() + pause
            if (tries >= config.retries and not is_throttled) or age > config.max_age:
                self.dead_letters.append((config.name, payload))
                self.world.note(
                    config.name, "gives up an event", error=answer.error, cause=answer.cause[:300]
                )
                return

            def again() -> None:
                self.waiting -= 1
                if is_throttled:
                    self._try_event(config, payload, since, tries=tries, throttles=throttles + 1)
                else:
                    self._try_event(config, payload, since, tries=tries + 1)

            self.waiting += 1
            self.world.after(pause, again, what=f"{config.name} is tried again")

        self.call(config.name, payload, done)

    def kill(self, invocation: Invocation, error: str = "Runtime.ExitError") -> None:
        cause = {"errorType": error, "errorMessage": f"RequestId: {invocation.name} Error: Runtime exited"}
        self._warm[invocation.function.name] = 0
        if invocation.function.module == PREDICT:
            LAYERS.forget_models()
        self._end(invocation, LambdaFailure(error, json.dumps(cause)))

    def hang(self, invocation: Invocation) -> None:
        """Let the invocation hang until its timeout."""
        if invocation.process:
            invocation.process.kill()

    def refuse(self, invocation: Invocation, why: LambdaFailure) -> None:
        """Fail the invocation before it starts."""
        self._end(invocation, why)

    def time_out(self, invocation: Invocation) -> None:
        seconds = invocation.function.timeout
        cause = {
            "errorType": "Sandbox.Timedout",
            "errorMessage": f"RequestId: {invocation.name} Error: Task timed out after {seconds:.2f} seconds",
        }
        self._end(invocation, LambdaFailure("Sandbox.Timedout", json.dumps(cause)))

    def current(self) -> Invocation | None:
        """Return the invocation whose code is running."""
        process = self.world.current()
        return self.running.get(process.name) if process else None

    def checks(self, caller: Caller, operation: str, request: Mapping[str, Any]) -> list[Check]:
        name = name_of_function(str(request["FunctionName"]))
        return [Check("lambda:InvokeFunction", arn_of(name))]

    def invoke(self, caller: Caller, request: Request) -> Answer:
        """Answer an Invoke request. A caller that waits for the answer is a function itself."""
        function, kind = str(request["FunctionName"]), request.get("InvocationType", "RequestResponse")
        if name_of_function(function) not in self.configs:
            raise ServiceError("ResourceNotFoundException", f"Function not found: {function}", status=404)
        payload = json.loads(request.get("Payload") or b"{}")
        if kind == "Event":
            self.event(function, payload)
            return {"StatusCode": 202, "Payload": b""}
        if kind != "RequestResponse":
            raise ServiceError("NotSimulated", f"the simulator does not model Invoke with {kind}")
        answered: Future[Any] = Future()
        self.call(function, payload, answered.settle)
        return _as_answer(self.world.wait(answered))

    def _work(self, invocation: Invocation) -> None:
        name = invocation.function.name
        cold = self._warm[name] <= 0
        self._warm[name] += 0 if cold else -1
        self.world.sleep(COLD_SECONDS if cold else WARM_SECONDS)
        try:
            answer = load_handler(invocation.function.module)(invocation.payload, invocation.context)
            answered = json.loads(json.dumps(answer))
        except Exception as error:  # noqa: BLE001 - the Lambda runtime reports any exception of a handler
            self._end(invocation, failure(error))
        else:
            self._end(invocation, answered)

    def _end(self, invocation: Invocation, answer: Any) -> None:
        if invocation.over:
            return
        invocation.over = True
        self.running.pop(invocation.name, None)
        if not isinstance(answer, LambdaFailure) or answer.error not in (
            "Runtime.ExitError",
            "Sandbox.Timedout",
            TOO_MANY,
        ):
            self._warm[invocation.function.name] += 1
        if invocation.timeout:
            invocation.timeout.cancel()
        if isinstance(answer, LambdaFailure):
            self.world.note(invocation.name, "fails", error=answer.error, cause=answer.cause[:300])
        self.world.after(0, lambda: invocation.on_done(answer))
        if invocation.process and self.world.current() is not invocation.process:
            invocation.process.kill()


def _as_answer(answer: Any) -> Answer:
    """Return the answer of a function as Invoke returns it. Raises the errors of Lambda itself."""
    if not isinstance(answer, LambdaFailure):
        return {"StatusCode": 200, "Payload": json.dumps(answer).encode()}
    if answer.error == TOO_MANY:
        raise ServiceError("TooManyRequestsException", "Rate Exceeded.", status=429)
    if answer.error.startswith("Lambda."):
        raise ServiceError(answer.error.removeprefix("Lambda."), answer.cause, status=500)
    return {"StatusCode": 200, "FunctionError": "Unhandled", "Payload": answer.cause.encode()}


def failure(error: Exception) -> LambdaFailure:
    """Return an exception as Lambda reports it."""
    kind = type(error).__name__
    return LambdaFailure(kind, json.dumps({"errorMessage": str(error), "errorType": kind}))


def arn_of(function: str) -> str:
    return f"arn:aws:lambda:us-east-1:123456789012:function:{function}"


def name_of_function(function: str) -> str:
    """Return the name of a function, given a name or an ARN."""
    return function.rpartition(":function:")[2].partition(":")[0]


_HANDLERS: dict[str, Callable[[Mapping[str, Any], object], Any]] = {}


def load_handler(module: str) -> Callable[[Mapping[str, Any], object], Any]:
    if module not in _HANDLERS:
        _HANDLERS[module] = importlib.import_module(module).handler
    return _HANDLERS[module]


class Environments:
    """Provides each function with its own settings: `lambdas.environment.read` reads the environment of the current
    function."""

    def __init__(self) -> None:
        self.current: Callable[[], Mapping[str, str]] = dict
        self._found: dict[tuple[str, type[Any]], tuple[Mapping[str, str], Any]] = {}
        self._stock_read = environment.read
        self._stock = environment._read  # noqa: SLF001 - `read` would cache the settings of the first function

    def install(self) -> None:
        vars(environment)["os"] = self
        environment.read = self.read

    def remove(self) -> None:
        """Restore the settings of the process."""
        vars(environment)["os"] = os
        environment.read = self._stock_read
        self.current = dict
        self._found.clear()

    @property
    def environ(self) -> Mapping[str, str]:
        return self.current()

    def read(self, kind: type[Any]) -> Any:
        environment = self.current()
        key = (environment.get("AWS_LAMBDA_FUNCTION_NAME", ""), kind)
        of, found = self._found.get(key, (None, None))
        if of is not environment:
            found = self._stock(kind)
            self._found[key] = environment, found
        return found


ENVIRONMENTS = Environments()
