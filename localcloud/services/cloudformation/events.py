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
CLEANUP = "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS"
ENDS = ("CREATE_COMPLETE", "CREATE_FAILED", "UPDATE_COMPLETE", "UPDATE_FAILED")
Add = Callable[..., None]
Delete = Callable[..., Any]
DELETE = "services.cloudformation.stacks:_delete_resource"
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
    MINISTACK.replace(DELETE, _delete_with_events(MINISTACK.stock(ADD), MINISTACK.stock(DELETE)))
    for name in (ADD, *ELSEWHERE):
        MINISTACK.replace(name, add)


def complete_events(add: Add) -> Add:
    """Return a function that also adds the events, reasons and physical IDs that ministack lacks."""

    def completed(
        stack_id: str,
        stack: str,
        logical_id: str,
        kind: str,
        status: str,
        reason: str = "",
        physical_id: str = "",
        **named: Any,
    ) -> None:
        def also(other: str, why: str = "", owner: str = physical_id) -> None:
            add(stack_id, stack, logical_id, kind, other, why, owner, **named)

        last = last_event(stack_id, logical_id)
        if kind == STACK and logical_id == stack:
            reason = reason or (STARTED if status in STARTS else "")
            if status == "UPDATE_COMPLETE" and last.get("ResourceStatus") != CLEANUP:
                also(CLEANUP)
            if status == "UPDATE_COMPLETE":
                _show_added(stack_id, stack)
        elif status == "UPDATE_IN_PROGRESS" and not physical_id:
            physical_id = _physical_id(stack, logical_id)
            status = status if physical_id else "CREATE_IN_PROGRESS"
        elif reason == REPLACED and last.get("ResourceStatus") == status and not last["ResourceStatusReason"]:
            cloudformation._stack_events[stack_id].remove(last)
        elif last.get("ResourceStatus") == "CREATE_IN_PROGRESS" and status in ENDS:
            status = status.replace("UPDATE", "CREATE")  # of a resource that an update adds
            if status == "CREATE_COMPLETE":
                also("CREATE_IN_PROGRESS", INITIATED)
        elif status == "UPDATE_COMPLETE" and last.get("ResourceStatusReason") == REPLACED:
            also("UPDATE_IN_PROGRESS", INITIATED)
        also(status, reason, physical_id)

    return completed


def last_event(stack_id: str, logical_id: str) -> Mapping[str, Any]:
    events = cloudformation._stack_events.get(stack_id) or []
    return next((each for each in reversed(events) if each["LogicalResourceId"] == logical_id), {})


def _physical_id(stack: str, logical_id: str) -> str:
    """Return the physical ID of a resource that the stack had before the update."""
    found = (cloudformation._stacks.get(stack) or {}).get("_resources", {}).get(logical_id, {})
    return str(found.get("PhysicalResourceId", ""))


def _show_added(stack_id: str, stack: str) -> None:
    """Show the resources that the update added as created."""
    for logical_id, record in cloudformation._stacks[stack].get("_resources", {}).items():
        if last_event(stack_id, logical_id).get("ResourceStatus") == "CREATE_COMPLETE":
            record["ResourceStatus"] = "CREATE_COMPLETE"


def _delete_with_events(add: Add, delete: Delete) -> Delete:
    """Return a function that adds the events of resources that an update removes or replaces."""

    def deleted(kind: str, physical_id: str, properties: Any, stack: str = "", logical_id: str = "") -> Any:
        found = cloudformation._stacks.get(stack) or {}
        if found.get("StackStatus") != "UPDATE_IN_PROGRESS":
            return delete(kind, physical_id, properties, stack, logical_id)
        stack_id = found["StackId"]
        if last_event(stack_id, stack).get("ResourceStatus") != CLEANUP:
            add(stack_id, stack, stack, STACK, CLEANUP, "", stack_id)
        add(stack_id, stack, logical_id, kind, "DELETE_IN_PROGRESS", "", physical_id)
        answer = delete(kind, physical_id, properties, stack, logical_id)
        add(stack_id, stack, logical_id, kind, "DELETE_COMPLETE", "", physical_id)
        return answer

    return deleted
