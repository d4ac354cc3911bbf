"""Events of tasks in GetExecutionHistory, with AWS's event types."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ministack.core.responses import get_region, now_iso
from ministack.services import stepfunctions as stock

from localcloud.base.states_language import HEARTBEAT_TIMEOUT, TIMEOUT, reported_error
from localcloud.patches import MINISTACK
from localcloud.services.cloudwatch import metrics

METRICS = {
    "ExecutionSucceeded": "ExecutionsSucceeded",
    "ExecutionFailed": "ExecutionsFailed",
    "ExecutionAborted": "ExecutionsAborted",
}
"""Metric in `AWS/States` for each end of an execution."""
_lock = threading.Lock()


def install() -> None:
    """Number events without gaps, also for parallel tasks, and add none after the end."""

    def add_event(
        execution: dict[str, Any], event_type: str, details: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        with _lock:
            number = len(execution["events"]) + 1
            event = {
                "id": number,
                "previousEventId": number - 1,
                "type": event_type,
                "timestamp": now_iso(),
                **(details or {}),
            }
            if execution["status"] == "RUNNING" or event_type.startswith("Execution"):
                execution["events"].append(event)
        if event_type in METRICS:
            count(METRICS[event_type], execution)
        return event

    MINISTACK.replace("services.stepfunctions:_add_event", add_event)


def count(metric: str, execution: Mapping[str, Any]) -> None:
    """Count a metric of the execution's state machine."""
    metrics.count("AWS/States", metric, 1.0, "Count", {"StateMachineArn": execution["stateMachineArn"]})


@dataclass(frozen=True)
class TaskRecord:
    """The events of one attempt: LambdaFunction... for a plain function, Task... for an integration."""

    execution: dict[str, Any]
    target: str
    resource: str

    def record_schedule(self, arguments: Any, timeout: float | None, heartbeat: float | None) -> None:
        """Record a scheduled attempt."""
        limits = {"timeoutInSeconds": timeout, "heartbeatInSeconds": heartbeat}
        given: dict[str, Any] = {name: int(value) for name, value in limits.items() if value is not None}
        if self._is_function:
            given.pop("heartbeatInSeconds", None)
            self._add("Scheduled", {"resource": self.target, "input": _json(arguments), **given})
        else:
            call = {"region": get_region(), "parameters": _json(arguments)}
            self._add("Scheduled", {**self._kind, **call, **given})

    def record_start(self) -> None:
        """Record the start of the call."""
        self._add("Started", None if self._is_function else dict(self._kind))

    def record_submission(self, output: Any) -> None:
        """Record the end of the call of a task that still waits for its task token."""
        self._add("Submitted", {**self._kind, "output": _json(output)})

    def record_success(self, output: Any) -> None:
        """Record the result."""
        self._add("Succeeded", {**self._kind, "output": _json(output)})

    def record_failure(self, error: str | None, cause: str | None) -> None:
        """Record a failure. Like AWS, leave out missing fields and the cause of a timeout."""
        fields = {"error": error and reported_error(error), "cause": cause}
        if timed_out := error in {TIMEOUT, HEARTBEAT_TIMEOUT}:
            fields.pop("cause")
        known = {name: value for name, value in fields.items() if value is not None}
        self._add("TimedOut" if timed_out else "Failed", {**self._kind, **known})

    @property
    def _is_function(self) -> bool:
        return ":function:" in self.target

    @property
    def _kind(self) -> dict[str, str]:
        """Return `resourceType` and `resource` of an integration's ARN, or nothing for a plain function."""
        if self._is_function:
            return {}
        service, _, action = self.resource.removeprefix("arn:aws:states:::").rpartition(":")
        return {"resourceType": service, "resource": action}

    def _add(self, what: str, details: dict[str, Any] | None) -> None:
        kind = "LambdaFunction" if self._is_function else "Task"
        named = f"{kind[0].lower()}{kind[1:]}{what}EventDetails"
        stock._add_event(self.execution, f"{kind}{what}", {named: details} if details else None)


def _json(value: Any) -> str:
    return json.dumps(value, default=str)
