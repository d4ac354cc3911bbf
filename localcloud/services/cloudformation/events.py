"""Events of stacks and resources in AWS's order. Unchanged resources keep their status and time, without events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ministack.services import cloudformation

from localcloud.patches import MINISTACK

ADD = "services.cloudformation.stacks:_add_event"
ELSEWHERE = ("services.cloudformation.changesets:_add_event", "services.cloudformation.handlers:_add_event")
STACK = "AWS::CloudFormation::Stack"
STARTS = ("REVIEW_IN_PROGRESS", "CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS")
STARTED, INITIATED = "User Initiated", "Resource creation Initiated"
REPLACED = "Requested update requires the creation of a new physical resource; hence creating one."
Add = Callable[..., None]
UPDATE = "services.cloudformation.stacks:_update_resource"


def install() -> None:
    """Remove ministack's events of unchanged resources."""
    stock_add, stock_update = complete_events(MINISTACK.stock(ADD)), MINISTACK.stock(UPDATE)
    untouched: dict[tuple[str, str], dict[str, Any]] = {}

    def update(
        kind: str, physical_id: str, old: Any, new: Any, stack: str, logical_id: str, *more: Any
    ) -> Any:
        if old == new:
            found = cloudformation._stacks[stack]
            untouched[found["StackId"], logical_id] = found["_resources"][logical_id]
            events = cloudformation._stack_events[found["StackId"]]
            if events[-1]["LogicalResourceId"] == logical_id:
                events.pop()
        return stock_update(kind, physical_id, old, new, stack, logical_id, *more)

    def add(
        stack_id: str, stack: str, logical_id: str, kind: str, status: str, *more: Any, **named: Any
    ) -> None:
        before = untouched.pop((stack_id, logical_id), None)
        if before is None or status != "UPDATE_COMPLETE":
            stock_add(stack_id, stack, logical_id, kind, status, *more, **named)
            return
        record = cloudformation._stacks[stack]["_resources"][logical_id]
        record.update({key: before[key] for key in ("ResourceStatus", "Timestamp") if key in before})

    MINISTACK.replace(UPDATE, update)
    for name in (ADD, *ELSEWHERE):
        MINISTACK.replace(name, add)


def complete_events(add: Add) -> Add:
    """Return a function that also adds the events and reasons that ministack lacks."""

    def completed(
        stack_id: str,
        stack: str,
        logical_id: str,
        kind: str,
        status: str,
        reason: str = "",
        *more: Any,
        **named: Any,
    ) -> None:
        events = cloudformation._stack_events.get(stack_id) or []
        last: Mapping[str, Any] = next(
            (each for each in reversed(events) if each["LogicalResourceId"] == logical_id), {}
        )
        if kind == STACK and logical_id == stack:
            reason = reason or (STARTED if status in STARTS else "")
            if status == "UPDATE_COMPLETE":
                add(
                    stack_id,
                    stack,
                    logical_id,
                    kind,
                    "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS",
                    "",
                    *more,
                    **named,
                )
        elif reason == REPLACED and last.get("ResourceStatus") == status and not last["ResourceStatusReason"]:
            events.remove(last)
        elif status == "CREATE_COMPLETE" and last.get("ResourceStatus") == "CREATE_IN_PROGRESS":
            add(stack_id, stack, logical_id, kind, "CREATE_IN_PROGRESS", INITIATED, *more, **named)
        elif status == "UPDATE_COMPLETE" and last.get("ResourceStatusReason") == REPLACED:
            add(stack_id, stack, logical_id, kind, "UPDATE_IN_PROGRESS", INITIATED, *more, **named)
        add(stack_id, stack, logical_id, kind, status, reason, *more, **named)

    return completed
