"""What requests about commands may say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simulation.aws.door.api import Request, ServiceError
from simulation.aws.door.parameters import not_simulated
from simulation.aws.ssm.model import Invocation, Step, iso

MOST_INSTANCES = 50


def check_command(request: Request, ids: Sequence[str]) -> None:
    if not 1 <= len(ids) <= MOST_INSTANCES:
        raise ServiceError(
            "ValidationException",
            "1 validation error detected: Value at 'instanceIds' failed to satisfy constraint: Member must have length "
            f"less than or equal to {MOST_INSTANCES}",
        )
    if len(set(ids)) < len(ids):
        raise ServiceError("DuplicateInstanceId", "")
    if not 30 <= int(request.get("TimeoutSeconds") or 3600) <= 2_592_000:
        raise ServiceError("ValidationException", "TimeoutSeconds must be between 30 and 2592000.")
    if len(request.get("Comment") or "") > 100:
        raise ServiceError("ValidationException", "Comment holds at most 100 characters.")
    if allowance(str(request.get("MaxConcurrency") or "50"), len(ids)) < len(ids):
        raise not_simulated("commands that go to some hosts first")


def allowance(text: str, targets: int) -> int:
    """Return how many of the targets `10` or `10%` means."""
    return int(text[:-1]) * targets // 100 if text.endswith("%") else int(text)


def is_wanted(invocation: Invocation, wanted: Mapping[str, str]) -> bool:
    requested = iso(invocation.command.requested)
    return (
        wanted.get("Status", invocation.status) == invocation.status
        and wanted.get("DocumentName", invocation.command.document.name) == invocation.command.document.name
        and requested >= wanted.get("InvokedAfter", "")
        and ("InvokedBefore" not in wanted or requested < wanted["InvokedBefore"])
    )


def named_step(invocation: Invocation, name: str | None) -> Step:
    if name is None and len(invocation.steps) == 1:
        return invocation.steps[0]
    for step in invocation.steps:
        if step.name == name:
            return step
    raise ServiceError("InvalidPluginName", "")
