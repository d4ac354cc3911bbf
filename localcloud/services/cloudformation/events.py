"""Events only for resources that an update changes. Unchanged resources keep their status and time."""

from __future__ import annotations

from typing import Any

from ministack.services import cloudformation

from localcloud.patches import MINISTACK

ADD = "services.cloudformation.stacks:_add_event"
UPDATE = "services.cloudformation.stacks:_update_resource"


def install() -> None:
    """Remove ministack's events of unchanged resources."""
    stock_add, stock_update = MINISTACK.stock(ADD), MINISTACK.stock(UPDATE)
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
    MINISTACK.replace(ADD, add)
