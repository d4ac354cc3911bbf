"""DynamoDB: tables with a string `pk` and a string `sk`, conditions, transactions, pages, reads that may be old.

Items are never changed in place: whoever holds one may keep it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from simulation.aws.door.api import ACCOUNT, PARTITION, REGION, Caller, Check, ServiceError
from simulation.aws.door.parameters import not_simulated, only
from simulation.aws.dynamodb import expressions as expressions
from simulation.aws.dynamodb.values import Item, Value, invalid, normal, normal_item, plain, size_of
from simulation.world.world import World

Key = tuple[str, str]
"""pk and sk."""
MOST_ITEM_BYTES = 400 * 1024
MOST_PAGE_BYTES = 1024 * 1024
MOST_TRANSACTION_BYTES = 4 * 1024 * 1024
MOST_BATCH_BYTES = 16 * 1024 * 1024
MOST_ACTIONS = MOST_KEYS = 100
MOST_PK_BYTES, MOST_SK_BYTES = 2048, 1024
OLD_BY_AT_MOST = timedelta(seconds=1)
"""How old an answer can be that nobody asked to be consistent."""
TOKENS_LIVE = timedelta(minutes=10)
LAST = chr(0x10FFFF)

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
SINGLE = {
    "get_item": "dynamodb:GetItem",
    "put_item": "dynamodb:PutItem",
    "update_item": "dynamodb:UpdateItem",
    "delete_item": "dynamodb:DeleteItem",
    "query": "dynamodb:Query",
}


@dataclass
class Partition:
    """All rows of one pk, in the order of their sk."""

    sks: list[str] = field(default_factory=list)
    items: dict[str, Item] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def put(self, sk: str, item: Item, size: int) -> None:
        if sk not in self.items:
            insort(self.sks, sk)
        self.items[sk], self.sizes[sk] = item, size

    def delete(self, sk: str) -> None:
        if self.items.pop(sk, None) is not None:
            del self.sizes[sk]
            del self.sks[bisect_left(self.sks, sk)]


@dataclass
class Table:
    name: str
    partitions: dict[str, Partition] = field(default_factory=dict)
    history: deque[tuple[datetime, Key, Item | None]] = field(default_factory=deque)
    """What the rows were that changed a moment ago."""

    def item(self, key: Key) -> Item | None:
        partition = self.partitions.get(key[0])
        return partition.items.get(key[1]) if partition else None

    def size(self, key: Key, item: Item | None) -> int:
        """Of that item, which is there now or was there a moment ago."""
        partition = self.partitions.get(key[0])
        if partition and item is partition.items.get(key[1]):
            return partition.sizes.get(key[1], 0)
        return size_of(item or {})

    def set(self, key: Key, item: Item | None, size: int, now: datetime) -> None:
        while self.history and self.history[0][0] < now - OLD_BY_AT_MOST:
            self.history.popleft()
        self.history.append((now, key, self.item(key)))
        partition = self.partitions.setdefault(key[0], Partition())
        if item is not None:
            partition.put(key[1], item, size)
        else:
            partition.delete(key[1])

    def was(self, pk: str, when: datetime) -> dict[str, Item | None]:
        """What the rows of that pk were then which have changed since."""
        found: dict[str, Item | None] = {}
        for at, (changed, sk), item in self.history:
            if at > when and changed == pk:
                found.setdefault(sk, item)
        return found


@dataclass(frozen=True)
class Action:
    """One write, of a call of its own or of a transaction."""

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
        """The row after it."""
        if self.kind == "Put":
            return self.put
        if self.update is not None:
            before = item or {"pk": {"S": self.key[0]}, "sk": {"S": self.key[1]}}
            after = self.update.apply(before, self.names, self.values)
            return after | normal_item(_changed(before, after))
        return None if self.kind == "Delete" else item


@dataclass
class Capacity:
    """Units as DynamoDB counts them: 4 KB read, 1 KB written; a transaction costs twice."""

    read: float = 0.0
    written: float = 0.0


class DynamoDb:
    """See the module. `on_change` hears of every row that changes: table, key, before, after."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.capacity = Capacity()
        self.page_size: int | None = None
        """Rows of a page of a query, where pages of 1 MB are too large for a test."""
        self.conflicts: Callable[[Caller, Sequence[Key]], Collection[int]] = lambda caller, keys: ()
        """Which of the rows to be written are just written by somebody else's transaction, by index."""
        self.unprocessed: Callable[[Caller, Sequence[Key]], int] = lambda caller, keys: 0
        """How many of the keys of a batch stay unread."""
        self.on_change: list[Callable[[str, Key, Item | None, Item | None], None]] = []
        self._tables: dict[str, Table] = {}
        self._tokens: dict[str, Any] = {}
        self._token_times: deque[tuple[datetime, str]] = deque()
        self._chance = world.chance("dynamodb")

    # what the world and the oracle use

    def create_table(self, name: str) -> None:
        self._tables[name] = Table(name)

    def rows(self, table: str, pk: str | None = None) -> Iterator[dict[str, Any]]:
        """As plain Python, by pk and sk."""
        partitions = self._tables[table].partitions
        for word in sorted(partitions) if pk is None else [pk] if pk in partitions else []:
            partition = partitions[word]
            for sk in partition.sks:
                yield {name: plain(value) for name, value in partition.items[sk].items()}

    def row(self, table: str, pk: str, sk: str) -> dict[str, Any] | None:
        item = self._tables[table].item((pk, sk))
        return {name: plain(value) for name, value in item.items()} if item else None

    def lose(self, table: str, pk: str, sk: str) -> None:
        """Somebody deletes the row by hand."""
        self._set(self._tables[table], (pk, sk), None, 0)

    # permissions

    def checks(self, caller: Caller, operation: str, request: Mapping[str, Any]) -> list[Check]:
        if operation in SINGLE:
            return [Check(SINGLE[operation], table_arn(request["TableName"]))]
        if operation == "batch_get_item":
            return [
                Check("dynamodb:BatchGetItem", table_arn(name)) for name in sorted(request["RequestItems"])
            ]
        if operation == "transact_write_items":
            pairs = dict.fromkeys(
                (ACTIONS[kind], each["TableName"])
                for action in request["TransactItems"]
                for kind, each in action.items()
            )
            return [Check(action, table_arn(table)) for action, table in pairs]
        raise not_simulated(f"dynamodb.{operation}")

    # reads

    def get_item(self, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
        only(request, ("TableName", "Key", "ConsistentRead"), "GetItem")
        table = self._table(request["TableName"])
        key = key_of(request["Key"])
        item = self._read(table, key, consistent=bool(request.get("ConsistentRead")))
        self._count_read([table.size(key, item)], consistent=bool(request.get("ConsistentRead")))
        return {"Item": item} if item is not None else {}

    def batch_get_item(self, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
        """In no order, and perhaps not all of it."""
        only(request, ("RequestItems",), "BatchGetItem")
        asked = request["RequestItems"]
        if sum(len(each["Keys"]) for each in asked.values()) > MOST_KEYS:
            raise invalid("Too many items requested for the BatchGetItem call")
        responses: dict[str, list[Item]] = {}
        left: dict[str, Any] = {}
        for name, each in asked.items():
            only(each, ("Keys", "ConsistentRead"), "BatchGetItem")
            responses[name], unread = self._batch(caller, self._table(name), each)
            if unread:
                left[name] = {**each, "Keys": unread}
        return {"Responses": responses, "UnprocessedKeys": left}

    def _batch(
        self, caller: Caller, table: Table, asked: Mapping[str, Any]
    ) -> tuple[list[Item], list[dict[str, Any]]]:
        keys = [key_of(key) for key in asked["Keys"]]
        if not keys:
            raise invalid("1 validation error detected: Value at 'requestItems' must have length at least 1")
        if len(set(keys)) != len(keys):
            raise invalid("Provided list of item keys contains duplicates")
        consistent = bool(asked.get("ConsistentRead"))
        first_unread = len(keys) - min(self.unprocessed(caller, keys), len(keys))
        items: list[Item] = []
        sizes: list[int] = []
        for place, key in enumerate(keys[:first_unread]):
            item = self._read(table, key, consistent=consistent)
            if item is None:
                continue
            size = table.size(key, item)
            if sum(sizes) + size > MOST_BATCH_BYTES:
                first_unread = place
                break
            items.append(item)
            sizes.append(size)
        self._count_read(sizes, consistent=consistent)
        self._chance.shuffle(items)
        return items, asked["Keys"][first_unread:]

    def query(self, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
        known = (
            "TableName", "KeyConditionExpression", "ExpressionAttributeNames", "ExpressionAttributeValues",
            "ConsistentRead", "ScanIndexForward", "Limit", "ExclusiveStartKey",
        )  # fmt: skip
        only(request, known, "Query")
        table = self._table(request["TableName"])
        names, values = _definitions(request)
        asked = expressions.on_keys(request["KeyConditionExpression"], names, values)
        _all_used([asked], names, values)
        pk, edges = _string(values[asked.pk]), [_string(values[edge]) for edge in asked.edges]
        consistent = bool(request.get("ConsistentRead"))
        found = self._partition(table, pk, consistent=consistent)
        first, last = _range(found.sks, asked.operator, edges)
        forward = request.get("ScanIndexForward", True)
        if "ExclusiveStartKey" in request:
            first, last = _after(found.sks, first, last, pk, key_of(request["ExclusiveStartKey"]), forward)
        page, more = self._page(found, first, last, request.get("Limit"), forward=forward)
        items = [found.items[sk] for sk in page]
        self._count_read([sum(found.sizes[sk] for sk in page)], consistent=consistent)
        answer: dict[str, Any] = {"Items": items, "Count": len(items), "ScannedCount": len(items)}
        if more:
            answer["LastEvaluatedKey"] = {"pk": {"S": pk}, "sk": {"S": page[-1]}}
        return answer

    def _page(
        self, found: Partition, first: int, last: int, limit: int | None, *, forward: bool
    ) -> tuple[list[str], bool]:
        """The sks of a page, and whether DynamoDB says that there is more: at a limit it does not look."""
        most = min((size for size in (limit, self.page_size) if size), default=None)
        page: list[str] = []
        size = 0
        for place in range(first, last) if forward else range(last - 1, first - 1, -1):
            sk = found.sks[place]
            size += found.sizes[sk]
            if size > MOST_PAGE_BYTES and page:
                return page, True
            page.append(sk)
            if len(page) == most:
                return page, True
        return page, False

    def _read(self, table: Table, key: Key, *, consistent: bool) -> Item | None:
        item = table.item(key)
        if consistent or not table.history:
            return item
        return table.was(key[0], self._some_moment_ago()).get(key[1], item)

    def _partition(self, table: Table, pk: str, *, consistent: bool) -> Partition:
        """As it is, or was a moment ago."""
        partition = table.partitions.get(pk) or Partition()
        was = {} if consistent or not table.history else table.was(pk, self._some_moment_ago())
        if not was:
            return partition
        old = Partition(list(partition.sks), dict(partition.items), dict(partition.sizes))
        for sk, item in was.items():
            if item is None:
                old.delete(sk)
            else:
                old.put(sk, item, size_of(item))
        return old

    def _some_moment_ago(self) -> datetime:
        return self.world.now - OLD_BY_AT_MOST * self._chance.random()

    def _count_read(self, sizes: Iterable[int], *, consistent: bool) -> None:
        for size in sizes:
            units = max(1, -(-size // 4096))
            self.capacity.read += units if consistent else units / 2

    # writes

    def put_item(self, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
        return self._write_one(caller, "Put", request)

    def update_item(self, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
        return self._write_one(caller, "Update", request)

    def delete_item(self, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
        return self._write_one(caller, "Delete", request)

    def _write_one(self, caller: Caller, kind: str, request: dict[str, Any]) -> dict[str, Any]:
        wanted = request.pop("ReturnValues", "NONE")
        if wanted not in ("NONE", "ALL_OLD", "ALL_NEW"):
            raise not_simulated(f"ReturnValues {wanted}")
        action = self._action(kind, request)
        before = action.table.item(action.key)
        if self.conflicts(caller, [action.key]):
            raise ServiceError("TransactionConflictException", "Transaction is ongoing for the item")
        if not action.is_allowed(before):
            raise ServiceError("ConditionalCheckFailedException", "The conditional request failed")
        after = action.result(before)
        size = _checked_size(action, before, after)
        self.capacity.written += _written(action.table.size(action.key, before), size)
        self._set(action.table, action.key, after, size)
        shown = {"ALL_OLD": before, "ALL_NEW": after}.get(wanted)
        return {"Attributes": shown} if shown else {}

    def transact_write_items(self, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
        """All of it or nothing. The same token asks for it once, for ten minutes."""
        only(request, ("TransactItems", "ClientRequestToken"), "TransactWriteItems")
        actions = self._actions(request["TransactItems"])
        if self._is_done(request):
            return {}
        before = [action.table.item(action.key) for action in actions]
        conflicts = self.conflicts(caller, [action.key for action in actions])
        outcomes = [
            _outcome(action, item, conflict=place in conflicts)
            for place, (action, item) in enumerate(zip(actions, before, strict=True))
        ]
        reasons = [reason for reason, _, _ in outcomes]
        if any(reason["Code"] != "None" for reason in reasons):
            raise cancelled(reasons)
        if sum(size for _, _, size in outcomes) > MOST_TRANSACTION_BYTES:
            raise invalid("Transaction request exceeds the maximum allowed size of 4 MB")
        for action, item, (_, after, size) in zip(actions, before, outcomes, strict=True):
            self.capacity.written += 2 * _written(action.table.size(action.key, item), size)
            if action.kind != "ConditionCheck":
                self._set(action.table, action.key, after, size)
        self._remember(request)
        return {}

    def _actions(self, asked: Sequence[Mapping[str, Any]]) -> list[Action]:
        if not 1 <= len(asked) <= MOST_ACTIONS:
            raise invalid(
                "1 validation error detected: Value at 'transactItems' failed to satisfy constraint: "
                "Member must have length less than or equal to 100"
            )
        actions = []
        for each in asked:
            if len(each) != 1:
                raise invalid("TransactItems can only contain one of Check, Put, Update or Delete")
            [(kind, action)] = each.items()
            actions.append(self._action(kind, action))
        if len({(action.table.name, action.key) for action in actions}) != len(actions):
            raise invalid("Transaction request cannot include multiple operations on one item")
        return actions

    def _action(self, kind: str, request: Mapping[str, Any]) -> Action:
        """Read and found correct in itself."""
        only(request, FIELDS[kind], kind)
        table = self._table(request["TableName"])
        names, values = _definitions(request)
        text = request.get("ConditionExpression")
        condition = None if text is None else expressions.condition(text)
        if condition is None and kind == "ConditionCheck":
            raise invalid("The expression can not be empty;")
        update = None
        if kind == "Update":
            update = expressions.update(request.get("UpdateExpression") or "")
        used: list[expressions.Expression] = [each for each in (condition, update) if each is not None]
        for expression in used:
            expression.require(names, values)
        _all_used(used, names, values)
        if update is not None:
            _check_targets(update.targets(names))
        if kind == "Put":
            item = normal_item(request["Item"])
            return Action(kind, table, _key_in(item), condition, names, values, put=item)
        return Action(kind, table, key_of(request["Key"]), condition, names, values, update=update)

    def _is_done(self, request: Mapping[str, Any]) -> bool:
        """Whether a transaction of that token was done; raises when it was another."""
        while self._token_times and self._token_times[0][0] < self.world.now - TOKENS_LIVE:
            self._tokens.pop(self._token_times.popleft()[1], None)
        token = request.get("ClientRequestToken")
        if token is None or token not in self._tokens:
            return False
        if self._tokens[token] != request["TransactItems"]:
            raise ServiceError(
                "IdempotentParameterMismatchException",
                "The provided client token has already been used with different parameters",
            )
        return True

    def _remember(self, request: Mapping[str, Any]) -> None:
        token = request.get("ClientRequestToken")
        if token is not None:
            self._tokens[token] = request["TransactItems"]
            self._token_times.append((self.world.now, token))

    def _set(self, table: Table, key: Key, item: Item | None, size: int) -> None:
        before = table.item(key)
        table.set(key, item, size, self.world.now)
        for heard in self.on_change:
            heard(table.name, key, before, item)

    def _table(self, name: str) -> Table:
        found = self._tables.get(name.rpartition("/")[2])
        if found is None:
            raise ServiceError("ResourceNotFoundException", "Requested resource not found")
        return found


def table_arn(name: str) -> str:
    if name.startswith("arn:"):
        return name
    return f"arn:{PARTITION}:dynamodb:{REGION}:{ACCOUNT}:table/{name}"


def cancelled(reasons: Sequence[Mapping[str, Any]]) -> ServiceError:
    """A transaction that was not done, with a reason for each of its actions."""
    codes = ", ".join(reason["Code"] for reason in reasons)
    message = f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]"
    return ServiceError("TransactionCanceledException", message, more={"CancellationReasons": list(reasons)})


def _outcome(action: Action, item: Item | None, *, conflict: bool) -> tuple[dict[str, str], Item | None, int]:
    """The reason against it (Code None for none), and what the row would be."""
    if conflict:
        return {"Code": "TransactionConflict", "Message": "Transaction is ongoing for the item"}, None, 0
    if not action.is_allowed(item):
        return {"Code": "ConditionalCheckFailed", "Message": "The conditional request failed"}, None, 0
    try:
        after = action.result(item)
        size = _checked_size(action, item, after)
    except ServiceError as error:
        return {"Code": "ValidationError", "Message": error.message}, None, 0
    return {"Code": "None"}, after, size


def _checked_size(action: Action, before: Item | None, after: Item | None) -> int:
    """Of the row after it, by what differs from the one before."""
    if after is None:
        return 0
    was, size = before or {}, action.table.size(action.key, before)
    size += size_of(_changed(was, after)) - size_of(_changed(after, was))
    if size > MOST_ITEM_BYTES:
        to_update = " to update" if action.kind == "Update" else ""
        raise invalid(f"Item size{to_update} has exceeded the maximum allowed size")
    return size


def _changed(before: Item, after: Item) -> Item:
    """The attributes of `after` that are not those of `before`."""
    return {name: value for name, value in after.items() if before.get(name) is not value}


def _written(before: int, after: int) -> int:
    """Units: the larger of the item before and after."""
    return max(1, -(-max(before, after) // 1024))


# ------------------------------------------------------------------------------------------------ keys and ranges


def key_of(key: Item) -> Key:
    if set(key) != {"pk", "sk"}:
        raise invalid("The provided key element does not match the schema")
    return _key_in(key)


def _key_in(item: Item) -> Key:
    for name, most in (("pk", MOST_PK_BYTES), ("sk", MOST_SK_BYTES)):
        if name not in item:
            raise invalid(f"One or more parameter values were invalid: Missing the key {name} in the item")
        if not isinstance(item[name].get("S"), str):
            raise invalid(
                f"One or more parameter values were invalid: Type mismatch for key {name} expected: S"
            )
        if not item[name]["S"]:
            raise invalid(
                "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain "
                f"an empty string value. Key: {name}"
            )
        if len(item[name]["S"].encode()) > most:
            raise invalid(
                f"One or more parameter values were invalid: Size of {name} has exceeded the maximum size limit of "
                f"{most} bytes"
            )
    return item["pk"]["S"], item["sk"]["S"]


def _definitions(request: Mapping[str, Any]) -> tuple[Mapping[str, str], Mapping[str, Value]]:
    names = request.get("ExpressionAttributeNames")
    values = request.get("ExpressionAttributeValues")
    for defined, word in ((names, "ExpressionAttributeNames"), (values, "ExpressionAttributeValues")):
        if defined is not None and not defined:
            raise invalid(f"{word} must not be empty")
    return names or {}, {word: normal(value) for word, value in (values or {}).items()}


def _all_used(
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


def _check_targets(targets: Sequence[expressions.Path]) -> None:
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


def _string(value: Value) -> str:
    found = value.get("S")
    if not isinstance(found, str):
        raise invalid(
            "One or more parameter values were invalid: Condition parameter type does not match schema type"
        )
    return found


def _range(sks: list[str], operator: str, edges: Sequence[str]) -> tuple[int, int]:
    """Between which places the sks lie that are asked for."""
    if not operator:
        return 0, len(sks)
    edge = edges[0]
    if operator == "BETWEEN":
        return bisect_left(sks, edge), bisect_right(sks, edges[1])
    if operator == "begins_with":
        return bisect_left(sks, edge), bisect_right(sks, edge + LAST)
    left, right = bisect_left(sks, edge), bisect_right(sks, edge)
    return {"<": (0, left), "<=": (0, right), "=": (left, right), ">=": (left, len(sks))}.get(
        operator, (right, len(sks))
    )


def _after(sks: list[str], first: int, last: int, pk: str, start: Key, forward: bool) -> tuple[int, int]:
    """What of the range comes after that key."""
    if start[0] != pk:
        raise invalid(
            "The provided starting key is invalid: The provided starting key is outside query boundaries"
        )
    if forward:
        return max(first, bisect_right(sks, start[1])), last
    return first, min(last, bisect_left(sks, start[1]))
