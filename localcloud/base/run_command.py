"""Rules of Run Command that the local cloud and the simulator share: valid requests and the status of a command."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

MOST_INSTANCES = 50
LONGEST_STEP, DEFAULT_STEP, SHORTEST_STEP = 172_800, 3600, 5
OVER = frozenset({"Success", "Failed", "Cancelled", "TimedOut"})
ERRORS = frozenset({"Failed", "ExecutionTimedOut"})
"""StatusDetails that count against MaxErrors. A delivery timeout does not count."""
COUNT = re.compile(r"^([1-9][0-9]*|0|[1-9][0-9]?%|0%|100%)$")


class Invocation(Protocol):
    """A command on one host."""

    status: str
    details: str


def describe_command(
    command: Any, document: str, *, version: str = "$DEFAULT", timeout: int
) -> dict[str, Any]:
    """Return a Command of either service in the format of ListCommands, without the fields about stored output."""
    return {
        "CommandId": command.id,
        "DocumentName": document,
        "DocumentVersion": version,
        "Comment": command.comment,
        "ExpiresAfter": command.expires,
        "Parameters": dict(command.parameters),
        "InstanceIds": list(command.invocations),
        "RequestedDateTime": command.requested,
        "Status": command.status,
        "StatusDetails": command.details,
        "TargetCount": len(command.invocations),
        "CompletedCount": sum(each.status in OVER for each in command.invocations.values()),
        "ErrorCount": command.count(*ERRORS),
        "DeliveryTimedOutCount": command.count("DeliveryTimedOut"),
        "TimeoutSeconds": timeout,
    }


def describe_invocation(
    command: Any, instance: str, document: str, *, name: str = "", version: str = "$DEFAULT"
) -> dict[str, Any]:
    """Return the command on one host in the format of ListCommandInvocations, without its steps."""
    invocation = command.invocations[instance]
    return {
        "CommandId": command.id,
        "InstanceId": instance,
        "InstanceName": name,
        "Comment": command.comment,
        "DocumentName": document,
        "DocumentVersion": version,
        "RequestedDateTime": command.requested,
        "Status": invocation.status,
        "StatusDetails": invocation.details,
    }


def describe_step(step: Any, output: str) -> dict[str, Any]:
    """Return a step in the format of CommandPlugins, without the times that are missing."""
    shown = {
        "Name": step.name,
        "Status": step.status if step.status != "Cancelling" else "InProgress",
        "StatusDetails": step.details,
        "ResponseCode": step.code,
        "ResponseStartDateTime": step.started,
        "ResponseFinishDateTime": step.ended,
        "Output": output,
    }
    return {key: value for key, value in shown.items() if value is not None}


def status_event(
    command: Any, document: str, instance: str | None, iso: Callable[[Any], str]
) -> tuple[str, dict[str, Any], list[str]]:
    """Return detail type, detail and hosts of the event for a new status of the command, or of one invocation."""
    detail = {
        "command-id": command.id,
        "document-name": document,
        "requested-date-time": iso(command.requested),
    }
    if instance is not None:
        status = command.invocations[instance].status
        kind = "EC2 Command Invocation Status-change Notification"
        return kind, {**detail, "instance-id": instance, "status": status}, [instance]
    times = {"expire-after": iso(command.expires), "parameters": dict(command.parameters)}
    kind = "EC2 Command Status-change Notification"
    return kind, {**detail, **times, "status": command.status}, list(command.invocations)


def refusal_of_send(request: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return code and message of SendCommand's error, or None if the request is well formed."""
    instance_ids, targets = request.get("InstanceIds") or [], request.get("Targets") or []
    if bool(instance_ids) == bool(targets):
        return "ValidationException", "Give either InstanceIds or Targets."
    if len(instance_ids) > MOST_INSTANCES:
        text = "1 validation error detected: Value at 'instanceIds' failed to satisfy constraint: "
        return "ValidationException", f"{text}Member must have length less than or equal to {MOST_INSTANCES}"
    if len(set(instance_ids)) < len(instance_ids):
        return "DuplicateInstanceId", "An instance id is named twice."
    if len(targets) > 5 or any(len(target.get("Values", [])) > 50 for target in targets):
        return "ValidationException", "At most 5 targets with at most 50 values each."
    if not 30 <= int(request.get("TimeoutSeconds") or DEFAULT_STEP) <= 2_592_000:
        return "ValidationException", "TimeoutSeconds must be between 30 and 2592000."
    if len(request.get("Comment") or "") > 100:
        return "ValidationException", "Comment holds at most 100 characters."
    for key in ("MaxConcurrency", "MaxErrors"):
        given = str(request.get(key) or "1")
        if not COUNT.match(given) or (key == "MaxConcurrency" and given in ("0", "0%")):
            return "ValidationException", f"{key} is {given!r}; it must be a number or a percentage."
    return None


def allowance(text: str, targets: int, *, at_least: int) -> int:
    """Return the number of targets that `10` or `10%` means in MaxConcurrency or MaxErrors."""
    if text.endswith("%"):
        share = int(text[:-1]) * targets / 100
        return max(at_least, math.ceil(share) if at_least else math.floor(share))
    return int(text)


def has_more_errors(invocations: Collection[Invocation], limit: int) -> bool:
    return sum(each.details in ERRORS for each in invocations) > limit


def status_of(invocations: Collection[Invocation], most_errors: int) -> tuple[str, str]:
    """Return status and details of a command with these invocations."""
    if not invocations:
        return "Success", "NoInstancesInTag"
    statuses = {each.status for each in invocations}
    if not statuses <= OVER:
        status = "Cancelling" if "Cancelling" in statuses else "InProgress"
        return ("Pending", "Pending") if statuses == {"Pending"} else (status, status)
    if statuses == {"Success"}:
        return "Success", "Success"
    details = {each.details for each in invocations}
    if "Cancelled" in details:
        return "Cancelled", "Cancelled"
    if has_more_errors(invocations, most_errors):
        return ("TimedOut", "ExecutionTimedOut") if "ExecutionTimedOut" in details else ("Failed", "Failed")
    return ("TimedOut", "DeliveryTimedOut") if details == {"DeliveryTimedOut"} else ("Failed", "Incomplete")


def is_wanted(filters: Mapping[str, str], document: str, status: str, requested: str) -> bool:
    """Return True for a command or invocation that passes the filters of a listing."""
    return (
        requested >= filters.get("InvokedAfter", "")
        and ("InvokedBefore" not in filters or requested < filters["InvokedBefore"])
        and filters.get("Status", status) == status
        and filters.get("DocumentName", document) == document
    )


def step_timeout(text: str) -> float:
    seconds = float(text) if re.fullmatch(r"\d+", text) else DEFAULT_STEP
    return min(max(seconds, SHORTEST_STEP), LONGEST_STEP)


def matches(pattern: str, value: str) -> bool:
    """Match like the agent's Go: anywhere in the value, and `$` only at the very end."""
    return re.search(re.sub(r"(?<!\\)\$$", r"\\Z", pattern), value) is not None
