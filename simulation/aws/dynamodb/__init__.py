"""DynamoDB: tables with strings `pk` and `sk`, conditions, transactions, pages, and eventually consistent reads.

Items are never modified in place, so callers may keep them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from simulation.aws.dynamodb import expressions
from simulation.aws.dynamodb.keys import key_in, key_of, range_after, range_of, read_string
from simulation.aws.dynamodb.tables import OLD_BY_AT_MOST, Key, Partition, Table
from simulation.aws.dynamodb.values import Item, Row, invalid, normal_item, plain, size_of
from simulation.aws.dynamodb.writes import (
    ACTIONS,
    FIELDS,
    Action,
    cancelled_error,
    check_all_used,
    check_size,
    check_targets,
    read_definitions,
    try_action,
    units_written,
)
from simulation.aws.endpoint.api import (
    ACCOUNT,
    PARTITION,
    REGION,
    Answer,
    Caller,
    Check,
    Request,
    ServiceError,
)
from simulation.aws.endpoint.parameters import not_simulated, only
from simulation.world.world import World

MOST_PAGE_BYTES = 1024 * 1024
MOST_TRANSACTION_BYTES = 4 * 1024 * 1024
MOST_BATCH_BYTES = 16 * 1024 * 1024
MOST_ACTIONS = MOST_KEYS = 100
TOKENS_LIVE = timedelta(minutes=10)
SINGLE = {
    "get_item": "dynamodb:GetItem",
    "put_item": "dynamodb:PutItem",
    "update_item": "dynamodb:UpdateItem",
    "delete_item": "dynamodb:DeleteItem",
    "query": "dynamodb:Query",
}


@dataclass
class Capacity:
    """Capacity units as DynamoDB counts them: 4 KB read, 1 KB written; a transaction costs twice."""

    read: float = 0.0
    written: float = 0.0


class DynamoDb:
    """The DynamoDB service. `on_change` is called for every changed row with table, key, before, after."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.capacity = Capacity()
        self.page_size: int | None = None
        """The number of rows on a page of a query, if 1 MB is too much for a test."""
        self.conflicts: Callable[[Caller, Sequence[Key]], Collection[int]] = lambda caller, keys: ()
        """Returns the indexes of rows that another transaction is writing."""
        self.unprocessed: Callable[[Caller, Sequence[Key]], int] = lambda caller, keys: 0
        """Returns how many keys of a batch are not read."""
        self.on_change: list[Callable[[str, Key, Item | None, Item | None], None]] = []
        self._tables: dict[str, Table] = {}
        self._tokens: dict[str, Any] = {}
        self._token_times: deque[tuple[datetime, str]] = deque()
        self._chance = world.chance("dynamodb")

    # what the world and the oracle use

    def create_table(self, name: str) -> None:
        self._tables[name] = Table(name)

    def rows(self, table: str, pk: str | None = None) -> Iterator[Row]:
        """Yield rows as plain Python values, ordered by pk and sk."""
        partitions = self._tables[table].partitions
        for key in sorted(partitions) if pk is None else [pk] if pk in partitions else []:
            partition = partitions[key]
            for sk in partition.sks:
                yield {name: plain(value) for name, value in partition.items[sk].items()}

    def row(self, table: str, pk: str, sk: str) -> Row | None:
        item = self._tables[table].item((pk, sk))
        return {name: plain(value) for name, value in item.items()} if item else None

    def delete_by_hand(self, table: str, pk: str, sk: str) -> None:
        """Delete the row, as a user does by hand."""
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

    def get_item(self, caller: Caller, request: Request) -> Answer:
        only(request, ("TableName", "Key", "ConsistentRead"), "GetItem")
        table = self._table(request["TableName"])
        key = key_of(request["Key"])
        item = self._read(table, key, consistent=bool(request.get("ConsistentRead")))
        self._count_read([table.size(key, item)], consistent=bool(request.get("ConsistentRead")))
        return {"Item": item} if item is not None else {}

    def batch_get_item(self, caller: Caller, request: Request) -> Answer:
        """Return the items in random order, possibly not all of them."""
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

    def _batch(self, caller: Caller, table: Table, asked: Mapping[str, Any]) -> tuple[list[Item], list[Item]]:
        keys = [key_of(key) for key in asked["Keys"]]
        if not keys:
            raise invalid("1 validation error detected: Value at 'requestItems' must have length at least 1")
        if len(set(keys)) != len(keys):
            raise invalid("Provided list of item keys contains duplicates")
        consistent = bool(asked.get("ConsistentRead"))
        first_unread = len(keys) - min(self.unprocessed(caller, keys), len(keys))
        items: list[Item] = []
        sizes: list[int] = []
        for index, key in enumerate(keys[:first_unread]):
            item = self._read(table, key, consistent=consistent)
            if item is None:
                continue
            size = table.size(key, item)
            if sum(sizes) + size > MOST_BATCH_BYTES:
                first_unread = index
                break
            items.append(item)
            sizes.append(size)
        self._count_read(sizes, consistent=consistent)
        self._chance.shuffle(items)
        return items, asked["Keys"][first_unread:]

    def query(self, caller: Caller, request: Request) -> Answer:
        known = (
            "TableName", "KeyConditionExpression", "ExpressionAttributeNames", "ExpressionAttributeValues",
            "ConsistentRead", "ScanIndexForward", "Limit", "ExclusiveStartKey",
        )  # fmt: skip
        only(request, known, "Query")
        table = self._table(request["TableName"])
        names, values = read_definitions(request)
        asked = expressions.on_keys(request["KeyConditionExpression"], names, values)
        check_all_used([asked], names, values)
        pk, edges = read_string(values[asked.pk]), [read_string(values[edge]) for edge in asked.edges]
        consistent = bool(request.get("ConsistentRead"))
        found = self._partition(table, pk, consistent=consistent)
        first, last = range_of(found.sks, asked.operator, edges)
        forward = request.get("ScanIndexForward", True)
        if "ExclusiveStartKey" in request:
            first, last = range_after(
                found.sks, first, last, pk, key_of(request["ExclusiveStartKey"]), forward
            )
        page, more = self._page(found, first, last, request.get("Limit"), forward=forward)
        items = [found.items[sk] for sk in page]
        self._count_read([sum(found.sizes[sk] for sk in page)], consistent=consistent)
        answer: Answer = {"Items": items, "Count": len(items), "ScannedCount": len(items)}
        if more:
            answer["LastEvaluatedKey"] = {"pk": {"S": pk}, "sk": {"S": page[-1]}}
        return answer

    def _page(
        self, found: Partition, first: int, last: int, limit: int | None, *, forward: bool
    ) -> tuple[list[str], bool]:
        """Return the sks of a page, and True if DynamoDB reports more. At a limit it reports more without a look."""
        most = min((size for size in (limit, self.page_size) if size), default=None)
        page: list[str] = []
        size = 0
        for index in range(first, last) if forward else range(last - 1, first - 1, -1):
            sk = found.sks[index]
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
        """Return the partition as it is, or as it was a moment ago."""
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

    def put_item(self, caller: Caller, request: Request) -> Answer:
        return self._write_one(caller, "Put", request)

    def update_item(self, caller: Caller, request: Request) -> Answer:
        return self._write_one(caller, "Update", request)

    def delete_item(self, caller: Caller, request: Request) -> Answer:
        return self._write_one(caller, "Delete", request)

    def _write_one(self, caller: Caller, kind: str, request: Request) -> Answer:
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
        size = check_size(action, before, after)
        self.capacity.written += units_written(action.table.size(action.key, before), size)
        self._set(action.table, action.key, after, size)
        shown = {"ALL_OLD": before, "ALL_NEW": after}.get(wanted)
        return {"Attributes": shown} if shown else {}

    def transact_write_items(self, caller: Caller, request: Request) -> Answer:
        """Write all actions or none. A repeated token within ten minutes writes nothing."""
        only(request, ("TransactItems", "ClientRequestToken"), "TransactWriteItems")
        actions = self._actions(request["TransactItems"])
        if self._is_done(request):
            return {}
        before = [action.table.item(action.key) for action in actions]
        conflicts = self.conflicts(caller, [action.key for action in actions])
        outcomes = [
            try_action(action, item, conflict=index in conflicts)
            for index, (action, item) in enumerate(zip(actions, before, strict=True))
        ]
        reasons = [reason for reason, _, _ in outcomes]
        if any(reason["Code"] != "None" for reason in reasons):
            raise cancelled_error(reasons)
        if sum(size for _, _, size in outcomes) > MOST_TRANSACTION_BYTES:
            raise invalid("Transaction request exceeds the maximum allowed size of 4 MB")
        for action, item, (_, after, size) in zip(actions, before, outcomes, strict=True):
            self.capacity.written += 2 * units_written(action.table.size(action.key, item), size)
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
        """Parse and validate one write."""
        only(request, FIELDS[kind], kind)
        table = self._table(request["TableName"])
        names, values = read_definitions(request)
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
        check_all_used(used, names, values)
        if update is not None:
            check_targets(update.targets(names))
        if kind == "Put":
            item = normal_item(request["Item"])
            return Action(kind, table, key_in(item), condition, names, values, put=item)
        return Action(kind, table, key_of(request["Key"]), condition, names, values, update=update)

    def _is_done(self, request: Mapping[str, Any]) -> bool:
        """Return True if the transaction of this token is done. Raises an error if it was a different one."""
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
        for callback in self.on_change:
            callback(table.name, key, before, item)

    def _table(self, name: str) -> Table:
        found = self._tables.get(name.rpartition("/")[2])
        if found is None:
            raise ServiceError("ResourceNotFoundException", "Requested resource not found")
        return found


def table_arn(name: str) -> str:
    if name.startswith("arn:"):
        return name
    return f"arn:{PARTITION}:dynamodb:{REGION}:{ACCOUNT}:table/{name}"
