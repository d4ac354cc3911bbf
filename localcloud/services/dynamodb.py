"""Transactions in DynamoDB that take time, so that other writers conflict with them.

ministack completes a transaction at once. Here a transaction locks its items for the time in the settings. Another
transaction on such an item is cancelled with TransactionConflict, and a single write is refused with
TransactionConflictException. Plain reads never conflict, nor does BatchWriteItem, whose behavior AWS does not document.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from ministack.core.responses import get_account_id, get_region, new_uuid
from ministack.services import dynamodb

from localcloud.base.calls import calls
from localcloud.base.settings import Settings
from localcloud.patches import MINISTACK

Body = dict[str, Any]
Answer = tuple[int, dict[str, str], bytes]
Handler = Callable[..., Awaitable[Answer]]
Item = tuple[str, ...]

ONGOING = "Transaction is ongoing for the item"
TOKEN_IN_USE = "The transaction with the given request token is already in progress."  # noqa: S105 - a message
SINGLE = ("PutItem", "UpdateItem", "DeleteItem")
TRANSACTIONS = ("TransactWriteItems", "TransactGetItems")


def install(settings: Settings) -> None:
    name = "app:SERVICE_HANDLERS"
    MINISTACK.extend(name, {"dynamodb": Transactions(MINISTACK.stock(name)["dynamodb"], settings).handle})
    described = "services.dynamodb:_table_description"
    stock = MINISTACK.stock(described)

    def describe(name: str) -> Body:
        table: Body = stock(name)
        throughput = {"NumberOfDecreasesToday": 0, **table["ProvisionedThroughput"]}
        return {**table, "ProvisionedThroughput": throughput}

    MINISTACK.replace(described, describe)


class Transactions:
    """The items and client tokens of transactions in progress."""

    def __init__(self, stock: Handler, settings: Settings) -> None:
        self._stock, self._seconds = stock, settings.latencies.transaction
        self._locked: set[Item] = set()

    async def handle(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, query_params: Mapping[str, Any]
    ) -> Answer:
        """Handle a request for the service `dynamodb`. Runs in the event loop, so its steps are atomic."""

        async def pass_on() -> Answer:
            return await self._stock(method, path, headers, body, query_params)

        operation = headers.get("x-amz-target", "").rpartition(".")[2]
        if operation not in (*SINGLE, *TRANSACTIONS):
            return await pass_on()
        try:
            request = json.loads(body)
            items = _items(operation, request)
        except (AttributeError, KeyError, TypeError, ValueError):
            return await pass_on()  # the service itself reports the error
        if operation == "TransactWriteItems":
            return await self._write(request, items, pass_on)
        if self._locked.isdisjoint(items):
            return await pass_on()
        calls.mark_retryable()
        return (
            self._cancelled_error(items)
            if operation in TRANSACTIONS
            else _error("TransactionConflictException", ONGOING)
        )

    async def _write(
        self, request: Body, items: list[Item], pass_on: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        token = request.get("ClientRequestToken")
        tokens = {(get_account_id(), get_region(), "token", str(token))} if token else set()
        if not self._locked.isdisjoint({*items, *tokens}):
            calls.mark_retryable()
        if not self._locked.isdisjoint(tokens):
            return _error("TransactionInProgressException", TOKEN_IN_USE)
        if not self._locked.isdisjoint(items):
            return self._cancelled_error(items)
        locked = {*items, *tokens}
        self._locked |= locked
        try:
            await asyncio.sleep(self._seconds)
            return await pass_on()
        finally:
            self._locked -= locked

    def _cancelled_error(self, items: list[Item]) -> Answer:
        codes = ["TransactionConflict" if item in self._locked else "None" for item in items]
        reasons = [{"Code": code, **({} if code == "None" else {"Message": ONGOING})} for code in codes]
        message = (
            "Transaction cancelled, please refer cancellation reasons for specific reasons "
            f"[{', '.join(codes)}]"
        )
        return _error("TransactionCanceledException", message, CancellationReasons=reasons)


def _items(operation: str, request: Body) -> list[Item]:
    """Return the items of a request in order."""
    if operation in SINGLE:
        return [_item(request["TableName"], request.get("Key") or request["Item"])]
    return [
        _item(each["TableName"], each.get("Key") or each["Item"])
        for entry in request["TransactItems"]
        for each in entry.values()
    ]


def _item(table: str, attributes: Body) -> Item:
    """Return an item's identity: account, region, table and key values. Raise KeyError for a missing table."""
    name = table.rpartition("/")[2]
    names: Iterable[str] = filter(
        None, (dynamodb._tables[name]["pk_name"], dynamodb._tables[name]["sk_name"])
    )
    return (get_account_id(), get_region(), name, *(json.dumps(attributes[each]) for each in names))


def _error(code: str, message: str, **more: Any) -> Answer:
    return _answer(400, {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": message, **more})


def _answer(status: int, document: Body) -> Answer:
    body = json.dumps(document).encode()
    headers = {
        "Content-Type": "application/x-amz-json-1.0",
        "x-amzn-requestid": new_uuid(),
        "x-amz-crc32": str(zlib.crc32(body)),
    }
    return status, headers, body
