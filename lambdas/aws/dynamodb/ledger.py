"""The ledger: one DynamoDB table (docs/contracts/ledger.md).

Rows that belong together are written in one transaction: a crash leaves all of them or none.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from botocore.exceptions import ClientError

from lambdas.aws.calls import listed
from lambdas.aws.clients import client
from lambdas.aws.dynamodb.rows import (
    DEV,
    DEV_IMAGING,
    OPEN,
    PLACES,
    POOL,
    POOLED,
    PRICES,
    ResourceKind,
    claim_of,
)
from lambdas.aws.dynamodb.serialization import Packed, key_of, pack, packed, unpack
from lambdas.aws.dynamodb.write import Write, request_of
from lambdas.core.run import records
from lambdas.core.run.records import Records
from lambdas.core.run.warm_pool import WarmHost
from trainyard.core.model.errors import Misconfigured
from trainyard.protocol.ledger import reading
from trainyard.protocol.ledger.attempt import TokenRow
from trainyard.protocol.ledger.claim import Claim
from trainyard.protocol.ledger.lookup import Owner
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.ledger.yard import DevRow, PriceList
from trainyard.protocol.timeline import Entry
from trainyard.values import serialization
from trainyard.values.lazy import dataclass

MOST_WRITES = 100
BAKE_LOCK = ("bake", "lock")


@dataclass(frozen=True)
class Lock:
    """Who may move the image parameter: a run, its execution, and when that execution's time is up at the latest."""

    run: str
    execution_arn: str
    until: datetime


class AlreadyWrittenError(Exception):
    """A condition of a write did not hold: another call was here before, which callers expect and handle.

    `numbers`: which writes of the transaction, the first being 0, had conditions that did not hold."""

    def __init__(self, message: str, *, numbers: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.numbers = tuple(numbers)


class Table:
    """The yard's one table."""

    def __init__(self, table: str) -> None:
        self.table = table
        self.dynamodb = client("dynamodb")

    def _get(self, pk: str, sk: str) -> dict[str, Any] | None:
        answer = self.dynamodb.get_item(TableName=self.table, Key=key_of(pk, sk), ConsistentRead=True)
        return unpack(answer["Item"]) if "Item" in answer else None

    def _only_if(
        self, condition: str, act: Literal["Put", "Delete"], values: Mapping[str, Any], **more: Any
    ) -> bool:
        """Whether the condition held, so that it is done. `#name` in it is an attribute, `:name` one of `values`.

        A transaction of one: botocore gives it a token, so that its retry of one whose answer was lost is told that it
        is done. Alone, the retry would meet its own write and be told that the condition does not hold."""
        names = {word: word[1:] for word in re.findall(r"#\w+", condition)}
        words: dict[str, Any] = {"ExpressionAttributeNames": names} if names else {}
        if values:
            words["ExpressionAttributeValues"] = {f":{name}": pack(value) for name, value in values.items()}
        only = {act: {"TableName": self.table, "ConditionExpression": condition, **words, **more}}
        try:
            self.dynamodb.transact_write_items(TransactItems=[only])
        except ClientError as error:
            if _did_not_hold(error):
                return False
            raise
        return True

    def pool(self) -> tuple[WarmHost, ...]:
        """All hosts in the pool."""
        rows = self._query("pk = :pool", {"pool": POOL}, ConsistentRead=True)
        return tuple(serialization.from_json(WarmHost, {**row, "instance": row["sk"]}) for row in rows)

    def _query(self, condition: str, values: Mapping[str, str], **more: Any) -> list[dict[str, Any]]:
        """The rows for whose keys the condition holds, in which `:name` is one of `values`."""
        return [unpack(item) for item in self._items(condition, values, **more)]

    def _items(self, condition: str, values: Mapping[str, str], **more: Any) -> Iterator[Mapping[str, Any]]:
        """The same as DynamoDB's API has them."""
        words = {f":{name}": {"S": value} for name, value in values.items()}
        asked = {"KeyConditionExpression": condition, "ExpressionAttributeValues": words, **more}
        return listed("dynamodb", "query", "Items", TableName=self.table, **asked)


class Ledger(Table):
    def write(self, *writes: Write) -> None:
        """All rows of a call in one transaction of up to 100 (the conditions belong into the first 100).

        Raises AlreadyWrittenError, having written nothing, when a condition does not hold. A late state is no reason:
        everything else is written without it."""
        for first in range(0, len(writes), MOST_WRITES):
            chunk = writes[first : first + MOST_WRITES]
            try:
                self._transact(chunk)
            except AlreadyWrittenError as error:
                if not any(chunk[number].stage for number in error.numbers):
                    raise
                self._transact([write.of_late_stage for write in chunk])

    def _transact(self, writes: Iterable[Write]) -> None:
        try:
            self.dynamodb.transact_write_items(
                TransactItems=[request_of(self.table, write) for write in writes]
            )
        except ClientError as error:
            if not _did_not_hold(error):
                raise
            raise AlreadyWrittenError(str(error), numbers=_of_failed_conditions(error)) from error

    def read(self, run: str) -> Records | None:
        """All rows of a run; None for a run the ledger does not know."""
        found = self._read(run)
        # A Query may show a part of a transaction that is written meanwhile: what looks torn is read once more.
        return self._read(run) if found and found.torn else found

    def known(self, run: str) -> Records:
        """All rows of a run that must be there; raises Misconfigured where some are not."""
        found = self.read(run)
        if found is None:
            raise self.lost(run)
        if found.torn:
            raise self.lost(run, found.torn)
        return found

    def lost(self, run: str, rows: str | None = None) -> Misconfigured:
        """That the ledger knows nothing of the run any more, or nothing of these `rows` of it."""
        of = f"{rows} of the run {run}" if rows else f"the run {run}"
        return Misconfigured(
            f"The ledger {self.table} does not know {of}: the rows were deleted, or the table replaced, while the run "
            f"went on. Start it again; a training goes on from its last checkpoint with checkpoints.resume: {run}."
        )

    def _read(self, run: str) -> Records | None:
        items = self._items("pk = :run", {"run": f"run#{run}"}, ConsistentRead=True)
        return records.of_rows(
            run, [Packed(item) if item["sk"]["S"] == "plan" else unpack(item) for item in items]
        )

    def run(self, run: str) -> RunRow | None:
        """The run's own row alone; None for a run the ledger does not know."""
        found = records.of_rows(run, [row] if (row := self._get(f"run#{run}", "run")) else [])
        return found.run if found else None

    def timeline(self, run: str) -> tuple[Entry, ...]:
        """Every timeline entry of a run, in order."""
        rows = self._query("pk = :timeline", {"timeline": f"timeline#{run}"}, ConsistentRead=True)
        return tuple(serialization.from_json(Entry, row) for row in rows)

    def token(self, run: str, attempt: int, wait: str) -> TokenRow | None:
        row = self._get(f"run#{run}", f"token#{attempt:04d}#{wait}")
        return reading.read_one(row) if row else None

    def waiting(self, run: str) -> tuple[TokenRow, ...]:
        """The tokens of a run that nobody has answered, be the run itself known or not."""
        tokens_of = {"run": f"run#{run}", "token": "token#"}
        rows = self._query("pk = :run AND begins_with(sk, :token)", tokens_of, ConsistentRead=True)
        tokens: Iterable[TokenRow] = (reading.read_one(row) for row in rows if "token" in row)
        return tuple(token for token in tokens if token.answered is None)

    def owner(self, kind: ResourceKind, name: str) -> Owner | None:
        """Whose the instance, image or command is, by its look-up row."""
        row = self._get(f"{kind}#{name}", "run")
        return serialization.from_json(Owner, row) if row else None

    def prices(self) -> PriceList | None:
        """The region's price list; None until patrol has asked for it."""
        row = self._get(*PRICES)
        return serialization.from_json(PriceList, row) if row else None

    def claims(self) -> tuple[int, tuple[Claim, ...]]:
        """How many places were given until now, and the claims of training runs that are not concluded and of launches.

        The number is read first: who gives a place by these claims and finds another number was not alone."""
        given = self._get(*PLACES)
        rows = self._query("pk = :open", {"open": OPEN}, ConsistentRead=True)
        claims = tuple(claim for row in rows if (claim := claim_of(row)))
        return int(given["number"]) if given else 0, claims

    def warm_hosts(self) -> tuple[int, tuple[WarmHost, ...]]:
        """How often hosts were put into the pool until now, and all that are there. The number is read first, as that
        of the claims."""
        given = self._get(*POOLED)
        return int(given["number"]) if given else 0, self.pool()

    def warm_host(self, instance: str) -> WarmHost | None:
        """The host, if it is in the pool."""
        row = self._get(POOL, instance)
        return serialization.from_json(WarmHost, {**row, "instance": instance}) if row else None

    def dev(self, name: str) -> DevRow | None:
        """Who has the name of a dev host."""
        row = self._get(DEV, name)
        return serialization.from_json(DevRow, {**row, "name": name}) if row else None

    def take_dev_name(self, row: DevRow, before: DevRow | None) -> bool:
        """Whether the name is now as the row says: nobody has taken it since `before` was read."""
        known = {name: value for name, value in serialization.to_json(row).items() if name != "name"}
        return self._only_if(
            "#run = :before" if before else "attribute_not_exists(pk)",
            "Put",
            {"before": before.run} if before else {},
            Item=key_of(DEV, row.name) | packed(known),
        )

    def may_image_dev_host(self, run: str, instance: str) -> bool:
        """Whether its owner or patrol wants that host to be imaged by this snapshot."""
        row = self._get(DEV_IMAGING, run)
        return row is not None and row["instance"] == instance

    def bake_lock(self) -> Lock | None:
        """The lock as somebody holds it; None when it is free."""
        row = self._get(*BAKE_LOCK)
        return serialization.from_json(Lock, row) if row else None

    def take_bake_lock(self, lock: Lock, *, instead_of: str | None) -> bool:
        """Whether the lock is this run's now: it was free, its own, or that of `instead_of`, which is over."""
        return self._only_if(
            "attribute_not_exists(pk) OR #run IN (:mine, :over)",
            "Put",
            {"mine": lock.run, "over": instead_of or lock.run},
            Item=key_of(*BAKE_LOCK) | packed(serialization.to_json(lock)),
        )

    def give_back_bake_lock(self, run: str) -> bool:
        """Whether the lock was this run's until now."""
        return self._only_if("#run = :mine", "Delete", {"mine": run}, Key=key_of(*BAKE_LOCK))


def _did_not_hold(error: ClientError) -> bool:
    """Return True if a transaction was cancelled because a condition of its own did not hold."""
    return bool(_of_failed_conditions(error))


def _of_failed_conditions(error: ClientError) -> list[int]:
    """Return the numbers of the transaction's writes whose conditions did not hold; none for another error."""
    if error.response["Error"]["Code"] != "TransactionCanceledException":
        return []
    codes = [reason.get("Code") for reason in error.response.get("CancellationReasons", [])]
    return [number for number, code in enumerate(codes) if code == "ConditionalCheckFailed"]
