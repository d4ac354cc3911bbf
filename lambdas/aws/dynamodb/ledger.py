"""The ledger: one DynamoDB table (docs/contracts/ledger.md).

Rows that belong together are written in one transaction: a crash leaves all of them or none.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from botocore.exceptions import ClientError

from lambdas.aws.calls import list_items
from lambdas.aws.clients import client
from lambdas.aws.dynamodb.rows import (
    DEV,
    DEV_IMAGING,
    OPEN,
    POOL,
    POOL_ENTRIES,
    PRICES,
    QUARANTINE,
    SLOTS,
    ResourceKind,
    claim_of,
)
from lambdas.aws.dynamodb.serialization import Packed, key_of, pack, pack_row, unpack
from lambdas.aws.dynamodb.write import Write, request_of
from lambdas.core.run import records
from lambdas.core.run.records import Records
from lambdas.core.run.warm_host import WarmHost
from trainyard.core.model.errors import Misconfigured
from trainyard.protocol.ledger import reading
from trainyard.protocol.ledger.attempt import TokenRow
from trainyard.protocol.ledger.claim import Claim
from trainyard.protocol.ledger.lookup import Owner, waiters_of
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.ledger.yard import DevRow, PriceList, QuarantineRow
from trainyard.protocol.timeline import Entry
from trainyard.values import serialization
from trainyard.values.lazy import dataclass

MOST_WRITES = 100
BAKE_LOCK = ("bake", "lock")


@dataclass(frozen=True)
class Lock:
    """The lock of a bake, which allows it to change the image parameter."""

    run: str
    execution_arn: str
    until: datetime
    """The latest end of the execution."""


class AlreadyWrittenError(Exception):
    """A condition of a write failed because another call wrote first. Callers expect this.

    `numbers` are the indexes of the writes whose conditions failed."""

    def __init__(self, message: str, *, numbers: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.numbers = tuple(numbers)


class Table:
    def __init__(self, table: str) -> None:
        self.table = table
        self.dynamodb = client("dynamodb")

    def _get(self, pk: str, sk: str) -> dict[str, Any] | None:
        answer = self.dynamodb.get_item(TableName=self.table, Key=key_of(pk, sk), ConsistentRead=True)
        return unpack(answer["Item"]) if "Item" in answer else None

    def _only_if(
        self, condition: str, act: Literal["Put", "Delete"], values: Mapping[str, Any], **more: Any
    ) -> bool:
        """Write if the condition holds; return whether it held. In the condition `#name` is an attribute and `:name` is
        one of `values`.

        The call is a transaction of one write, because botocore gives a transaction a client token. After a lost
        answer, a plain write would meet its own earlier effect and fail."""
        names = {word: word[1:] for word in re.findall(r"#\w+", condition)}
        words: dict[str, Any] = {"ExpressionAttributeNames": names} if names else {}
        if values:
            words["ExpressionAttributeValues"] = {f":{name}": pack(value) for name, value in values.items()}
        only = {act: {"TableName": self.table, "ConditionExpression": condition, **words, **more}}
        try:
            self.dynamodb.transact_write_items(TransactItems=[only])
        except ClientError as error:
            if _is_failed_condition(error):
                return False
            raise
        return True

    def pool(self) -> tuple[WarmHost, ...]:
        """Return all hosts in the warm pool."""
        rows = self._query("pk = :pool", {"pool": POOL}, ConsistentRead=True)
        return tuple(serialization.from_json(WarmHost, {**row, "instance": row["sk"]}) for row in rows)

    def _query(self, condition: str, values: Mapping[str, str], **more: Any) -> list[dict[str, Any]]:
        """Return the rows whose keys meet the condition. In the condition `:name` is one of `values`."""
        return [unpack(item) for item in self._items(condition, values, **more)]

    def _items(self, condition: str, values: Mapping[str, str], **more: Any) -> Iterator[Mapping[str, Any]]:
        """Yield the items whose keys meet the condition, in the format of DynamoDB's API."""
        words = {f":{name}": {"S": value} for name, value in values.items()}
        asked = {"KeyConditionExpression": condition, "ExpressionAttributeValues": words, **more}
        return list_items("dynamodb", "query", "Items", TableName=self.table, **asked)


class Ledger(Table):
    def write(self, *writes: Write) -> None:
        """Write all rows in one transaction of up to 100 writes. Rows with conditions must be among the first 100.

        Raises AlreadyWrittenError without writing anything if a condition fails. A late state does not fail the
        transaction: all other values are written."""
        for first in range(0, len(writes), MOST_WRITES):
            chunk = writes[first : first + MOST_WRITES]
            try:
                self._transact(chunk)
            except AlreadyWrittenError as error:
                if not any(chunk[number].stage for number in error.numbers):
                    raise
                self._transact([write.without_stage for write in chunk])

    def _transact(self, writes: Iterable[Write]) -> None:
        try:
            self.dynamodb.transact_write_items(
                TransactItems=[request_of(self.table, write) for write in writes]
            )
        except ClientError as error:
            if not _is_failed_condition(error):
                raise
            raise AlreadyWrittenError(str(error), numbers=_failed_conditions(error)) from error

    def read(self, run: str) -> Records | None:
        """Return all rows of a run; None if the ledger has no such run."""
        found = self._read(run)
        # A Query may show half of a concurrent transaction, so rows that look torn are read again.
        return self._read(run) if found and found.torn else found

    def require(self, run: str) -> Records:
        """Return all rows of a run. Raises Misconfigured if rows are missing."""
        found = self.read(run)
        if found is None:
            raise self.missing_rows_error(run)
        if found.torn:
            raise self.missing_rows_error(run, found.torn)
        return found

    def missing_rows_error(self, run: str, rows: str | None = None) -> Misconfigured:
        """Return the error for a run whose rows, or whose `rows` of one kind, are missing."""
        of = f"{rows} of the run {run}" if rows else f"the run {run}"
        return Misconfigured(
            f"The ledger {self.table} lacks {of}: the rows were deleted, or the table replaced, during the run. The "
            f"run cannot continue. Start it again; checkpoints.resume: {run} continues a training from its last "
            "checkpoint."
        )

    def _read(self, run: str) -> Records | None:
        items = self._items("pk = :run", {"run": f"run#{run}"}, ConsistentRead=True)
        return records.from_rows(
            run, [Packed(item) if item["sk"]["S"] == "plan" else unpack(item) for item in items]
        )

    def run(self, run: str) -> RunRow | None:
        """Return only the run's own row; None if the ledger has no such run."""
        found = records.from_rows(run, [row] if (row := self._get(f"run#{run}", "run")) else [])
        return found.run if found else None

    def waiters(self, run: str) -> tuple[str, ...]:
        """Return the runs that wait for the end of this run."""
        rows = self._query("pk = :waiters", {"waiters": waiters_of(run)}, ConsistentRead=True)
        return tuple(str(row["sk"]) for row in rows)

    def timeline(self, run: str) -> tuple[Entry, ...]:
        """Return every timeline entry of a run, in order."""
        rows = self._query("pk = :timeline", {"timeline": f"timeline#{run}"}, ConsistentRead=True)
        return tuple(serialization.from_json(Entry, row) for row in rows)

    def token(self, run: str, attempt: int, wait: str) -> TokenRow | None:
        row = self._get(f"run#{run}", f"token#{attempt:04d}#{wait}")
        return reading.read_one(row) if row else None

    def list_unanswered_tokens(self, run: str) -> tuple[TokenRow, ...]:
        """Return the unanswered task tokens of a run, even if the run's own row is missing."""
        tokens_of = {"run": f"run#{run}", "token": "token#"}
        rows = self._query("pk = :run AND begins_with(sk, :token)", tokens_of, ConsistentRead=True)
        tokens: Iterable[TokenRow] = (reading.read_one(row) for row in rows if "token" in row)
        return tuple(token for token in tokens if token.answered is None)

    def owner(self, kind: ResourceKind, name: str) -> Owner | None:
        """Return the run that owns the instance, image or command, from its look-up row."""
        row = self._get(f"{kind}#{name}", "run")
        return serialization.from_json(Owner, row) if row else None

    def prices(self) -> PriceList | None:
        """Return the region's price list; None until patrol has read it."""
        row = self._get(*PRICES)
        return serialization.from_json(PriceList, row) if row else None

    def claims(self) -> tuple[int, tuple[Claim, ...]]:
        """Return the number of slots given so far, and the claims of open training runs and of dev hosts.

        The number is read first. Admission is conditional on this number, which detects concurrent admissions."""
        given = self._get(*SLOTS)
        rows = self._query("pk = :open", {"open": OPEN}, ConsistentRead=True)
        claims = tuple(claim for row in rows if (claim := claim_of(row)))
        return int(given["number"]) if given else 0, claims

    def warm_hosts(self) -> tuple[int, tuple[WarmHost, ...]]:
        """Return how often hosts entered the warm pool so far, and all hosts in it. The number is read first; a write
        that is conditional on it detects concurrent changes."""
        given = self._get(*POOL_ENTRIES)
        return int(given["number"]) if given else 0, self.pool()

    def warm_host(self, instance: str) -> WarmHost | None:
        """Return the host if it is in the warm pool."""
        row = self._get(POOL, instance)
        return serialization.from_json(WarmHost, {**row, "instance": instance}) if row else None

    def quarantined(self) -> tuple[QuarantineRow, ...]:
        """Return the hosts whose hardware has failed, and whose rows DynamoDB has not deleted yet."""
        rows = self._query("pk = :quarantine", {"quarantine": QUARANTINE})
        return tuple(serialization.from_json(QuarantineRow, {**row, "instance": row["sk"]}) for row in rows)

    def dev(self, name: str) -> DevRow | None:
        """Return the row of a dev host's name."""
        row = self._get(DEV, name)
        return serialization.from_json(DevRow, {**row, "name": name}) if row else None

    def take_dev_name(self, row: DevRow, before: DevRow | None) -> bool:
        """Claim the name of a dev host. Return False if another call changed the row after `before` was read."""
        known = {name: value for name, value in serialization.to_json(row).items() if name != "name"}
        return self._only_if(
            "#run = :before" if before else "attribute_not_exists(pk)",
            "Put",
            {"before": before.run} if before else {},
            Item=key_of(DEV, row.name) | pack_row(known),
        )

    def may_image_dev_host(self, run: str, instance: str) -> bool:
        """Return True if the owner or patrol asked for this snapshot of the dev host."""
        row = self._get(DEV_IMAGING, run)
        return row is not None and row["instance"] == instance

    def bake_lock(self) -> Lock | None:
        """Return the lock of the current bake; None if the lock is free."""
        row = self._get(*BAKE_LOCK)
        return serialization.from_json(Lock, row) if row else None

    def take_bake_lock(self, lock: Lock, *, instead_of: str | None) -> bool:
        """Acquire the lock. It must be free, belong to this run already, or belong to `instead_of`, which has ended."""
        return self._only_if(
            "attribute_not_exists(pk) OR #run IN (:mine, :over)",
            "Put",
            {"mine": lock.run, "over": instead_of or lock.run},
            Item=key_of(*BAKE_LOCK) | pack_row(serialization.to_json(lock)),
        )

    def give_back_bake_lock(self, run: str) -> bool:
        """Release the lock; return False if this run did not hold it."""
        return self._only_if("#run = :mine", "Delete", {"mine": run}, Key=key_of(*BAKE_LOCK))


def _is_failed_condition(error: ClientError) -> bool:
    """Return True if a condition of the transaction failed."""
    return bool(_failed_conditions(error))


def _failed_conditions(error: ClientError) -> list[int]:
    """Return the indexes of the writes whose conditions failed; none for another error."""
    if error.response["Error"]["Code"] != "TransactionCanceledException":
        return []
    codes = [reason.get("Code") for reason in error.response.get("CancellationReasons", [])]
    return [number for number, code in enumerate(codes) if code == "ConditionalCheckFailed"]
