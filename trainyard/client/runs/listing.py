"""The yard's runs as its ledger lists them, month by month."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any, Self

from boto3.dynamodb.conditions import Attr, Key

from trainyard.client.runs import html
from trainyard.client.runs.records import Progress, progress_in
from trainyard.core.model import ends, states
from trainyard.values import wire
from trainyard.values.quantities import dollars

RUN_DIGITS = re.compile(r"[0-9a-f]{8}")
"""The end of a run's id, behind the name of its job (trainyard/core/model/tokens.py)."""
INDEX = "month"
"""Of the ledger, and the attribute that it is by: docs/contracts/ledger.md."""


@dataclass(frozen=True)
class Waiting:
    """What a run without hosts waits for, `capacity`, `place` or `run`: since when, until when at most, when it asks
    next and every so many seconds from then on; how many pools refused last, by the kind of their refusal."""

    what: str
    since: datetime
    asks: datetime
    seconds: int
    until: datetime
    reason: str
    refused: Mapping[str, int] = field(default_factory=dict)

    @property
    def noun(self) -> str:
        """What the run waits for, in the words of users."""
        return {"place": "a slot", "run": "the run that it resumes"}.get(self.what, self.what)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """From the attribute `waiting`."""
        return cls(
            what=row["what"],
            since=datetime.fromisoformat(row["since"]),
            asks=datetime.fromisoformat(row["asks"]),
            seconds=int(row["seconds"]),
            until=datetime.fromisoformat(row["until"]),
            reason=row["reason"],
            refused={kind: int(pools) for kind, pools in row.get("refused", {}).items()},
        )

    def asks_after(self, now: datetime) -> datetime:
        """When it asks next, as seen now."""
        late = max(0, ceil((now - self.asks).total_seconds() / self.seconds))
        return min(self.asks + timedelta(seconds=late * self.seconds), max(self.until, self.asks))


@dataclass(frozen=True)
class ListedRun:
    """One run in a list, as the ledger knew it a moment ago. `name` is that of its job, recipe or family; `pool`,
    `market`, `gang` (how many hosts) and `price` (dollars an hour of all of them) are those of its last launch,
    `dollars` what it has cost when it ended, `saved_dollars` what it would have cost more on demand. `submitter` is
    what IAM calls who asked for it (`unknown` where it vouches for nobody)."""

    id: str
    arn: str
    kind: str
    created: datetime
    state: str
    attempt: int
    name: str | None
    submitter: str | None
    labels: Mapping[str, str]
    outcome: str | None
    error: str | None
    reason: str | None
    ended: datetime | None
    progress: Progress | None
    waiting: Waiting | None
    pool: str | None
    market: str | None
    gang: int | None
    price: float | None
    dollars: float | None
    saved_dollars: float | None
    image: str | None

    @property
    def ending(self) -> str | None:
        """How it ended, in words: `succeeded, but ...` if something speaks against its success."""
        return ends.named(self.outcome, self.reason) if self.outcome else None

    @property
    def but(self) -> str | None:
        """What speaks against a run that succeeded; None if nothing does."""
        return ends.doubt(self.outcome, self.reason)

    @property
    def word(self) -> str:
        """The word for how the run stands (trainyard/core/model/states.py)."""
        return self.ending or states.word_for(self.state, self.kind)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """From the index."""
        return cls(
            id=str(row["pk"]).removeprefix("run#"),
            arn=row["execution_arn"],
            kind=row["kind"],
            created=datetime.fromisoformat(row["created"]),
            state=row["state"],
            attempt=int(row["attempt"]),
            name=row.get("name"),
            submitter=row.get("submitter"),
            labels=dict(row.get("labels") or {}),
            outcome=row.get("outcome"),
            error=row.get("error"),
            reason=row.get("reason"),
            ended=datetime.fromisoformat(row["ended"]) if row.get("ended") else None,
            progress=progress_in(row),
            waiting=Waiting.of(row["waiting"]) if row.get("waiting") else None,
            pool=row.get("pool"),
            market=row.get("market"),
            gang=int(row["gang"]) if row.get("gang") is not None else None,
            price=_number(row.get("price")),
            dollars=_number(row.get("dollars")),
            saved_dollars=_number(row.get("saved_dollars")),
            image=row.get("image") or None,
        )


@dataclass(frozen=True)
class BegunRun:
    """A training run that has begun and that the yard has not admitted yet, so that the ledger does not list it."""

    id: str
    arn: str
    name: str
    kind: str = "train"


def begun_in(executions: Iterable[Mapping[str, Any]], listed: Collection[str]) -> Iterator[BegunRun]:
    """Yield the executions whose runs are not among these ids. The names of executions are the ids of runs."""
    for execution in executions:
        name, dash, digits = str(execution["name"]).rpartition("-")
        if dash and execution["name"] not in listed and RUN_DIGITS.fullmatch(digits):
            yield BegunRun(str(execution["name"]), str(execution["executionArn"]), name)


class Listing(tuple[ListedRun, ...]):
    """Runs, newest first."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """As a notebook shows them."""
        rows = (
            (
                run.id,
                run.word,
                run.pool,
                run.submitter,
                f"{run.created:%Y-%m-%d %H:%M}",
                _cost(run),
            )
            for run in self
        )
        return html.table(("run", "state", "pool", "by", "begun (UTC)", "cost"), tuple(rows))


def _cost(run: ListedRun) -> str | None:
    return None if run.dollars is None else dollars(run.dollars)


def newest(table: Any, *, since: datetime, now: datetime, kind: str | None, page: int) -> Iterator[ListedRun]:
    """The runs that began since then, newest first; a month is asked for when it is come to, in pages of so many rows,
    or where only those of a kind are wanted in the largest. `table` is boto3's."""
    begin = wire.stamp(since)
    for month in _months(since, now):
        query: dict[str, Any] = {
            "IndexName": INDEX,
            "KeyConditionExpression": Key(INDEX).eq(month) & Key("created").gte(begin),
            "ScanIndexForward": False,
        }
        query |= {"Limit": page} if kind is None else {"FilterExpression": Attr("kind").eq(kind)}
        while True:
            answer = table.query(**query)
            yield from map(ListedRun.of, answer["Items"])
            if "LastEvaluatedKey" not in answer:
                break
            query["ExclusiveStartKey"] = answer["LastEvaluatedKey"]


def last_month(now: datetime) -> datetime:
    """When the month before this one began."""
    this = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (this - timedelta(days=1)).replace(day=1)


def _months(since: datetime, now: datetime) -> Iterator[str]:
    """From now's back to that of `since`."""
    first, month = since.astimezone(UTC), now.astimezone(UTC).replace(day=1)
    while (month.year, month.month) >= (first.year, first.month):
        yield f"{month:%Y-%m}"
        month = (month - timedelta(days=1)).replace(day=1)


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
