"""Task tokens: waiting tasks, and the effects of answers."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from ministack.core.responses import error_response_json
from ministack.services import stepfunctions as stock

from localcloud.base import states_language, task_tokens
from localcloud.base.states_language import HEARTBEAT_TIMEOUT, TIMEOUT
from localcloud.patches import MINISTACK

ABANDONED = "States.Abandoned"
"""Internal result of a wait whose execution was stopped."""


@dataclass
class Wait:
    """A waiting task. Its own call, an answer to its task token, or a timeout ends it."""

    execution: str
    over: threading.Event = field(default_factory=threading.Event)
    result: Any = None
    error: tuple[str | None, str | None] | None = None
    began: float = field(default_factory=time.monotonic)
    last_heartbeat: float = field(default_factory=time.monotonic)

    def succeed(self, result: Any) -> None:
        """End the wait with a result. Only the first end counts."""
        if not self.over.is_set():
            self.result = result
            self.over.set()

    def fail(self, error: str | None, cause: str | None) -> None:
        """End the wait with an error. Only the first end counts."""
        if not self.over.is_set():
            self.error = (error, cause)
            self.over.set()

    def until(self, timeout: float | None, heartbeat: float | None) -> None:
        """Return when the wait ended, the timeout passed, or a heartbeat is missing."""
        while not self.over.is_set():
            now = time.monotonic()
            left = self.began + timeout - now if timeout is not None else None
            silent = self.last_heartbeat + heartbeat - now if heartbeat is not None else None
            if left is not None and left <= 0:
                self.fail(TIMEOUT, "")
            elif silent is not None and silent <= 0:
                self.fail(HEARTBEAT_TIMEOUT, "")
            else:
                self.over.wait(min((s for s in (left, silent) if s is not None), default=None))


_waits: dict[str, Wait] = {}
_lock = threading.Lock()


def open_wait(token: str, execution: str) -> Wait:
    """Open a wait for this task token."""
    wait = Wait(execution)
    with _lock:
        _waits[token] = wait
    return wait


def close(token: str) -> None:
    """Close a task token. Later answers are refused."""
    with _lock:
        _waits.pop(token, None)


def abandon(execution: str) -> None:
    """End every wait of a stopped execution."""
    with _lock:
        mine = [token for token, wait in _waits.items() if wait.execution == execution]
        waits = [_waits.pop(token) for token in mine]
    for wait in waits:
        wait.fail(ABANDONED, "the execution was stopped")


def install() -> None:
    """Answer SendTaskSuccess, SendTaskFailure and SendTaskHeartbeat like AWS."""
    stock_success = MINISTACK.stock("services.stepfunctions:_send_task_success")
    stock_failure = MINISTACK.stock("services.stepfunctions:_send_task_failure")
    stock_heartbeat = MINISTACK.stock("services.stepfunctions:_send_task_heartbeat")

    def send_task_success(data: dict[str, Any]) -> Any:
        output = data.get("output") or "null"
        if (fault := states_language.json_fault(output)) is not None:
            return _refuse("InvalidOutput", f"Invalid Output: '{fault}'")
        wait = _take(data)
        if wait is None:
            return _too_late(data, stock_success)
        wait.succeed(json.loads(output))
        return 200, {"Content-Type": "application/x-amz-json-1.0"}, b"{}"

    def send_task_failure(data: dict[str, Any]) -> Any:
        wait = _take(data)
        if wait is None:
            return _too_late(data, stock_failure)
        wait.fail(data.get("error"), data.get("cause"))
        return 200, {"Content-Type": "application/x-amz-json-1.0"}, b"{}"

    def send_task_heartbeat(data: dict[str, Any]) -> Any:
        with _lock:
            wait = _waits.get(str(data.get("taskToken")))
        if wait is None:
            return _too_late(data, stock_heartbeat)
        wait.last_heartbeat = time.monotonic()
        return 200, {"Content-Type": "application/x-amz-json-1.0"}, b"{}"

    MINISTACK.replace("services.stepfunctions:_send_task_success", send_task_success)
    MINISTACK.replace("services.stepfunctions:_send_task_failure", send_task_failure)
    MINISTACK.replace("services.stepfunctions:_send_task_heartbeat", send_task_heartbeat)


def _take(data: dict[str, Any]) -> Wait | None:
    """Remove and return the wait of a task token. Only the first answer gets it."""
    with _lock:
        return _waits.pop(str(data.get("taskToken")), None)


def _too_late(data: dict[str, Any], stock_answer: Any) -> Any:
    """Answer for a task token without a wait: an activity's (handled by ministack), an ended one, or an invalid one."""
    token = str(data.get("taskToken") or "")
    if token in stock._task_tokens:
        return stock_answer(data)
    if task_tokens.machine_of(token) is None:
        return _refuse("InvalidToken", "Invalid Token: 'Invalid token'")
    return _refuse("TaskTimedOut", "Task Timed Out: 'Provided task does not exist anymore'")


def _refuse(code: str, message: str) -> Any:
    return error_response_json(code, message, 400)
