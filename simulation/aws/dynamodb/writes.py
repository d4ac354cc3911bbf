"""Single and transactional writes: their conditions, and the errors of DynamoDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from simulation.aws.dynamodb import expressions
from simulation.aws.dynamodb.paths import Path
from simulation.aws.dynamodb.tables import Key, Table
from simulation.aws.dynamodb.values import Item, Value, invalid, normal, normal_item, size_of
from simulation.aws.endpoint.api import ServiceError

MOST_ITEM_BYTES = 400 * 1024
CONDITIONAL = ("TableName", "ConditionExpression", "ExpressionAttributeNames", "ExpressionAttributeValues")
FIELDS = {
    "Put": {*CONDITIONAL, "Item"},
    "Update": {*CONDITIONAL, "Key", "UpdateExpression"},
    "Delete": {*CONDITIONAL, "Key"},
    "ConditionCheck": {*CONDITIONAL, "Key"},
}
ACTIONS = {
    "Put": "dynamodb:PutItem",
    "Update": "dynamodb:UpdateItem",
    "Delete": "dynamodb:DeleteItem",
    "ConditionCheck": "dynamodb:ConditionCheckItem",
}
CONFLICT = {"Code": "TransactionConflict", "Message": "Transaction is ongoing for the item"}


@dataclass(frozen=True)
class Action:
    """One write, on its own or in a transaction."""

    kind: str
    table: Table
    key: Key
    condition: expressions.CompiledCondition | None
    names: Mapping[str, str]
    values: Mapping[str, Value]
    put: Item | None = None
    update: expressions.CompiledUpdate | None = None

    def is_allowed(self, item: Item | None) -> bool:
        return self.condition is None or self.condition.holds(item or {}, self.names, self.values)

    def result(self, item: Item | None) -> Item | None:
        """Return the row after the write."""
        if self.kind == "Put":
            return self.put
        if self.update is not None:
            before = item or {"pk": {"S": self.key[0]}, "sk": {"S": self.key[1]}}
            after = self.update.apply(before, self.names, self.values)
            return after | normal_item(_find_changes(before, after))
        return None if self.kind == "Delete" else item


def cancelled_error(reasons: Sequence[Mapping[str, Any]]) -> ServiceError:
    """Return the error of a cancelled transaction, with a reason for each action."""
    codes = ", ".join(reason["Code"] for reason in reasons)
    message = f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]"
    return ServiceError("TransactionCanceledException", message, more={"CancellationReasons": list(reasons)})


def try_action(
    action: Action, item: Item | None, *, conflict: bool
) -> tuple[dict[str, str], Item | None, int]:
    """Return the reason against the write (Code None for none), and the row after it."""
    if conflict:
        return CONFLICT, None, 0
    if not action.is_allowed(item):
        return {"Code": "ConditionalCheckFailed", "Message": "The conditional request failed"}, None, 0
    try:
        after = action.result(item)
        size = check_size(action, item, after)
    except ServiceError as error:
        return {"Code": "ValidationError", "Message": error.message}, None, 0
    return {"Code": "None"}, after, size


def check_size(action: Action, before: Item | None, after: Item | None) -> int:
    """Return the size of the row after the write, computed from the difference."""
    if after is None:
        return 0
    was, size = before or {}, action.table.size(action.key, before)
    size += size_of(_find_changes(was, after)) - size_of(_find_changes(after, was))
    if size > MOST_ITEM_BYTES:
        to_update = " to update" if action.kind == "Update" else ""
        raise invalid(f"Item size{to_update} has exceeded the maximum allowed size")
    return size


def _find_changes(before: Item, after: Item) -> Item:
    """Return the attributes of `after` that differ from `before`."""
    return {name: value for name, value in after.items() if before.get(name) is not value}


def units_written(before: int, after: int) -> int:
    """Return the written units, which depend on the larger of the two sizes."""
    return max(1, -(-max(before, after) // 1024))


def read_definitions(request: Mapping[str, Any]) -> tuple[Mapping[str, str], Mapping[str, Value]]:
    names = request.get("ExpressionAttributeNames")
    values = request.get("ExpressionAttributeValues")
    for defined, word in ((names, "ExpressionAttributeNames"), (values, "ExpressionAttributeValues")):
        if defined is not None and not defined:
            raise invalid(f"{word} must not be empty")
    return names or {}, {word: normal(value) for word, value in (values or {}).items()}


def check_all_used(
    used: Sequence[expressions.Expression], names: Mapping[str, str], values: Mapping[str, Value]
) -> None:
    if not used and (names or values):
        word = "ExpressionAttributeNames" if names else "ExpressionAttributeValues"
        raise invalid(f"{word} can only be specified when using expressions")
    for defined, wanted, word in (
        (names, [each.names for each in used], "ExpressionAttributeNames"),
        (values, [each.values for each in used], "ExpressionAttributeValues"),
    ):
        unused = sorted(defined.keys() - set[str]().union(*wanted)) if defined else []
        if unused:
            raise invalid(f"Value provided in {word} unused in expressions: keys: {{{', '.join(unused)}}}")


def check_targets(targets: Sequence[Path]) -> None:
    for name in ("pk", "sk"):
        if any(path[0] == name for path in targets):
            raise invalid(
                f"One or more parameter values were invalid: Cannot update attribute {name}. "
                "This attribute is part of the key"
            )
    ordered = sorted(targets, key=repr)
    for one, other in pairwise(ordered):
        if other[: len(one)] == one:
            raise invalid(
                "Invalid UpdateExpression: Two document paths overlap with each other; must remove or rewrite one "
                f"of these paths; path one: {list(one)}, path two: {list(other)}"
            )
