"""Patrol's rows in the yard's table: passes, verdicts and the costs of the month. Also bulk reads of runs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from lambdas.aws.dynamodb.ledger import Table
from lambdas.aws.dynamodb.rows import HELD, OPEN, PRICES, claim_of
from lambdas.aws.dynamodb.serialization import pack_row, unpack
from lambdas.core.run import records
from trainyard.core.model.errors import Infrastructure
from trainyard.protocol.ledger.canaries import CANARIES, MODEL_PREFIX
from trainyard.protocol.ledger.claim import Claim
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.ledger.yard import Money, PriceList, VerdictRow
from trainyard.values import serialization
from trainyard.values.lazy import dataclass
from trainyard.values.quantities import format_count

PATROL = "patrol"
RETENTION = timedelta(days=90)
MOST_KEYS = 100
MOST_ROUNDS = 5
MOST_VERDICTS = 500
"""The most verdicts of one row: an item of DynamoDB holds 400 KB."""


@dataclass(frozen=True)
class OpenRun:
    """A run that was admitted and is not concluded."""

    run: str
    kind: str
    execution_arn: str


@dataclass(frozen=True, kw_only=True)
class Opened:
    """The runs that are not concluded, and the claims of training runs and dev hosts."""

    runs: tuple[OpenRun, ...]
    claims: tuple[Claim, ...]


@dataclass(frozen=True)
class EarlierResults:
    """The results of earlier passes, each None until patrol has written it, and the models with a canary."""

    money: Money | None
    prices: PriceList | None
    canaries: tuple[str, ...] = ()


class Throttled(Infrastructure):
    """DynamoDB throttles every try of a read. The next pass tries again."""


class Logbook(Table):
    def begin(self, now: datetime, *, apart: timedelta) -> bool:
        """Record the start of a pass; return False if another pass began less than `apart` ago."""
        return self._put_if(
            "attribute_not_exists(pk) OR #at < :soon",
            {"pk": PATROL, "sk": "pass", "at": serialization.timestamp(now)},
            soon=serialization.timestamp(now - apart),
        )

    def money(self) -> Money | None:
        row = self._get(PATROL, "money")
        return serialization.from_json(Money, row) if row else None

    def read_earlier(self) -> EarlierResults:
        """Read the costs of the month, the price list and the models with a canary in one call."""
        rows = {row["sk"]: row for row in self._batch([(PATROL, "money"), PRICES, CANARIES])}
        money, prices, canaries = rows.get("money"), rows.get("prices"), rows.get(CANARIES[1], {})
        return EarlierResults(
            serialization.from_json(Money, money) if money else None,
            serialization.from_json(PriceList, prices) if prices else None,
            tuple(
                sorted(name.removeprefix(MODEL_PREFIX) for name in canaries if name.startswith(MODEL_PREFIX))
            ),
        )

    def keep(self, prices: PriceList) -> None:
        """Store the region's price list until the next read."""
        key = dict(zip(("pk", "sk"), PRICES, strict=True))
        self.dynamodb.put_item(TableName=self.table, Item=pack_row(key | serialization.to_json(prices)))

    def count(self, money: Money, before: Money | None) -> bool:
        """Write the costs of the month; return False if another pass wrote them after `before` was read."""
        row = {"pk": PATROL, "sk": "money", **serialization.to_json(money)}
        if before is None:
            return self._put_if("attribute_not_exists(pk)", row)
        return self._put_if("#at = :before", row, before=serialization.timestamp(before.at))

    def once(self, what: str, now: datetime) -> bool:
        """Return True on the first call for `what`, to send a notification only once."""
        row = {
            "pk": PATROL,
            "sk": f"once#{what}",
            "at": serialization.timestamp(now),
            "expires": _expires(now),
        }
        return self._put_if("attribute_not_exists(pk)", row)

    def find_once(self, what: Iterable[str]) -> set[str]:
        """Return the elements of `what` for which `once` was called."""
        rows = self._batch((PATROL, f"once#{each}") for each in what)
        return {str(row["sk"]).removeprefix("once#") for row in rows}

    def write(self, verdicts: Sequence[VerdictRow], now: datetime) -> None:
        """Write the verdicts that changed or were carried out in this pass, up to 500 a row."""
        for number, first in enumerate(range(0, len(verdicts), MOST_VERDICTS)):
            row = {
                "pk": f"{PATROL}#{now:%Y-%m-%d}",
                "sk": f"{serialization.timestamp(now)}#{number:03d}",
                "verdicts": serialization.to_json(verdicts[first : first + MOST_VERDICTS]),
                "expires": _expires(now),
            }
            self.dynamodb.put_item(TableName=self.table, Item=pack_row(row))

    def day(self, day: datetime) -> list[VerdictRow]:
        """Return every verdict of that day, in order."""
        rows = self._query("pk = :day", {"day": f"{PATROL}#{day:%Y-%m-%d}"})
        return [serialization.from_json(VerdictRow, verdict) for row in rows for verdict in row["verdicts"]]

    def read_open_runs(self) -> Opened:
        """Return the open runs and all claims. One call reads thousands."""
        rows = self._query("pk = :open", {"open": OPEN})
        runs = (row for row in rows if not str(row["sk"]).startswith(HELD))
        return Opened(
            runs=tuple(OpenRun(str(row["sk"]), str(row["kind"]), str(row["execution_arn"])) for row in runs),
            claims=tuple(claim for row in rows if (claim := claim_of(row))),
        )

    def runs(self, names: Iterable[str]) -> dict[str, RunRow]:
        """Return the rows of these runs that exist. One call reads a hundred."""
        found = {}
        for row in self._batch((f"run#{name}", "run") for name in sorted(set(names))):
            known = records.from_rows(str(row["pk"]).removeprefix("run#"), [row])
            if known:
                found[known.run.run] = known.run
        return found

    def find_awaited_images(self, attempts: Mapping[str, int], wait: str) -> dict[str, str]:
        """Return the image that each of these runs waits for in that attempt."""
        keys = ((f"run#{run}", f"wait#{attempt:04d}#{wait}") for run, attempt in sorted(attempts.items()))
        return {
            str(row["pk"]).removeprefix("run#"): str(row["image"])
            for row in self._batch(keys)
            if row.get("image")
        }

    def _batch(self, keys: Iterable[tuple[str, str]]) -> Iterator[dict[str, Any]]:
        asked = [{"pk": {"S": pk}, "sk": {"S": sk}} for pk, sk in keys]
        for first in range(0, len(asked), MOST_KEYS):
            wanted = asked[first : first + MOST_KEYS]
            for _ in range(MOST_ROUNDS):
                answer = self.dynamodb.batch_get_item(
                    RequestItems={self.table: {"Keys": wanted, "ConsistentRead": True}}
                )
                yield from (unpack(item) for item in answer["Responses"].get(self.table, []))
                wanted = answer.get("UnprocessedKeys", {}).get(self.table, {}).get("Keys", [])
                if not wanted:
                    break
            else:
                raise Throttled(
                    f"DynamoDB left {format_count(len(wanted), 'row')} unread after {MOST_ROUNDS} calls"
                )

    def _put_if(self, condition: str, row: Mapping[str, Any], **values: str) -> bool:
        return self._only_if(condition, "Put", values, Item=pack_row(row))


def _expires(now: datetime) -> int:
    return int((now + RETENTION).timestamp())
