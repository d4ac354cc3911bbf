"""Logging of executions to a log group, as the LoggingConfiguration of the state machine specifies."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ministack.services import cloudwatch_logs as logs
from ministack.services import stepfunctions as stock

from localcloud.patches import MINISTACK

FATAL = ("ExecutionAborted", "ExecutionFailed", "ExecutionTimedOut")
ENDINGS = ("Aborted", "Failed", "TimedOut")
DATA = ("input", "output", "parameters", "inputDetails", "outputDetails")
"""Fields with execution data, which are logged only with IncludeExecutionData."""


def install() -> None:
    """Install after `history`, which adds the events. ministack creates the first event without adding it."""
    add_event = MINISTACK.stock("services.stepfunctions:_add_event")

    def add_and_log(
        execution: dict[str, Any], event_type: str, details: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        event: dict[str, Any] = add_event(execution, event_type, details)
        log(execution, event)
        return event

    MINISTACK.replace("services.stepfunctions:_add_event", add_and_log)


def log(execution: Mapping[str, Any], event: Mapping[str, Any]) -> None:
    """Write the event if the state machine's configuration includes it."""
    machine = stock._state_machines.get(execution["stateMachineArn"]) or {}
    wanted = machine.get("loggingConfiguration") or {}
    if not _is_wanted(str(wanted.get("level", "OFF")), str(event["type"])):
        return
    line = json.dumps(_line(execution, event, data=bool(wanted.get("includeExecutionData"))))
    now = int(time.time() * 1000)
    for destination in wanted.get("destinations") or []:
        arn = str((destination.get("cloudWatchLogsLogGroup") or {}).get("logGroupArn", ""))
        name = arn.partition(":log-group:")[2].removesuffix(":*")
        group = logs._log_groups.get(name)
        if group is not None:
            stream = _stream(machine, execution)
            kept = group["streams"].setdefault(stream, _empty(now))
            entry = {"timestamp": now, "message": line, "ingestionTime": now}
            logs._append_log_events(kept, [entry])
            logs._fanout_to_subscription_filters(name, stream, [entry])


def _is_wanted(level: str, event_type: str) -> bool:
    match level:
        case "ALL":
            return True
        case "ERROR":
            return event_type.endswith(ENDINGS)
        case "FATAL":
            return event_type in FATAL
    return False


def _line(execution: Mapping[str, Any], event: Mapping[str, Any], *, data: bool) -> dict[str, Any]:
    details: Mapping[str, Any] = next(
        (value for key, value in event.items() if key.endswith("EventDetails")), {}
    )
    shown = {key: value for key, value in details.items() if data or key not in DATA}
    at = datetime.fromisoformat(str(event["timestamp"]).replace("Z", "+00:00"))
    return {
        "id": str(event["id"]),
        "type": event["type"],
        "details": shown,
        "previous_event_id": str(event.get("previousEventId", 0)),
        "event_timestamp": str(int(at.timestamp() * 1000)),
        "execution_arn": execution["executionArn"],
        "redrive_count": "0",
    }


def _stream(machine: Mapping[str, Any], execution: Mapping[str, Any]) -> str:
    began = datetime.fromisoformat(str(execution["startDate"]).replace("Z", "+00:00")).astimezone(UTC)
    return f"states/{machine['name']}/{began:%Y-%m-%d-%H-%M}/{zlib.crc32(execution['executionArn'].encode()):08x}"


def _empty(now: int) -> dict[str, Any]:
    return {
        "events": [],
        "uploadSequenceToken": "1",
        "creationTime": now,
        "firstEventTimestamp": None,
        "lastEventTimestamp": None,
        "lastIngestionTime": None,
    }
