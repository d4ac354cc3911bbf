"""One attempt of a Task state. It ends with the call, with an answer to its task token, or with a timeout."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol

from localcloud.base.states_language import HEARTBEAT_TIMEOUT, TIMEOUT
from simulation.aws.functions import LambdaFailure
from simulation.aws.stepfunctions.definition import Machine
from simulation.aws.stepfunctions.errors import StateError
from simulation.world.world import Planned, World


class Waits(Protocol):
    """The store of task tokens that wait for an answer."""

    world: World

    def close_wait(self, token: str) -> None: ...


class Owner(Protocol):
    """The execution of an attempt."""

    label: str
    at: str
    machine: Machine

    @property
    def service(self) -> Waits: ...

    def then(self, do: Callable[[], None], what: str) -> None: ...

    def task_done(self, result: Any) -> None: ...

    def task_failed(self, error: StateError) -> None: ...


class Attempt:
    def __init__(self, execution: Owner, timeout: float | None, heartbeat: float | None) -> None:
        self.execution, self.world = execution, execution.service.world
        self.token: str | None = None
        self.is_called = True
        """True until the function has returned."""
        self.is_over = False
        self.timeout = self._after(timeout, self._time_out)
        self.heartbeat, self._last_beat = heartbeat, self.world.now
        self.silence = self._after(heartbeat, self._listen)

    def handle_answer(self, answer: Any, *, ends: bool) -> None:
        """Handle the result of the function. It ends the attempt, unless it succeeded and a task token is pending."""
        self.is_called = False
        if isinstance(answer, LambdaFailure):
            self.fail(answer.error, answer.cause)
        elif ends:
            self.succeed(answer)

    def succeed(self, result: Any) -> None:
        if self._end():
            self.execution.then(lambda: self.execution.task_done(result), "succeeded")

    def fail(self, error: str | None, cause: str | None) -> None:
        if self._end():
            self.execution.then(
                lambda: self.execution.task_failed(StateError(error, cause)), f"failed: {error}"
            )

    def beat(self) -> None:
        self._last_beat = self.world.now

    def abandon(self) -> None:
        """End the attempt because the execution has ended."""
        self._end()

    def _time_out(self) -> None:
        self.fail(TIMEOUT, "")

    def _listen(self) -> None:
        assert self.heartbeat is not None
        due = self._last_beat + timedelta(seconds=self.heartbeat)
        if due <= self.world.now:
            self.fail(HEARTBEAT_TIMEOUT, "")
        else:
            self.silence = self.world.at(
                due, self._listen, what=f"{self.execution.label} expects a heartbeat"
            )

    def _after(self, seconds: float | None, do: Callable[[], None]) -> Planned | None:
        if seconds is None:
            return None
        return self.world.after(
            seconds, do, what=f"{self.execution.label}: time is up for {self.execution.at}"
        )

    def _end(self) -> bool:
        """End the attempt. Return True if this was the first end."""
        if self.is_over:
            return False
        self.is_over = True
        for planned in (self.timeout, self.silence):
            if planned:
                planned.cancel()
        if self.token:
            self.execution.service.close_wait(self.token)
        return True
