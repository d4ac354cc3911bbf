"""The yard's runs, as listed in its ledger month by month."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from boto3.dynamodb.conditions import Attr, Key

from trainyard.client.runs import html
from trainyard.client.runs.progress import Progress, progress_in
from trainyard.core.model import ends, states
from trainyard.protocol.ledger import reading
from trainyard.protocol.ledger.run import RunRow, Waiting
from trainyard.protocol.ledger.study import Search
from trainyard.protocol.schedules import schedule_of
from trainyard.protocol.trial import study_of
from trainyard.values import serialization
from trainyard.values.quantities import dollars

RUN_DIGITS = re.compile(r"[0-9a-f]{8}")
"""The end of a run's id, behind the name of its job (trainyard/core/model/tokens.py)."""
INDEX = "month"
"""The ledger's index of runs, and its partition key (docs/contracts/ledger.md)."""


@dataclass(frozen=True)
class ListedRun:
    """A run in a list, read from the ledger."""

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
    search: Search | None = None
    """The state of a study."""
    args: Mapping[str, str | int | float] = field(default_factory=dict)
    """The first arguments of the program; empty if the job has them as a list."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The latest values of the metrics of the program."""

    @property
    def type(self) -> str | None:
        """Return the instance type of the last launch."""
        return self.pool.partition(" in ")[0] if self.pool else None

    @property
    def schedule(self) -> str | None:
        """Return the schedule that started the run, or None."""
        return schedule_of(self.id)

    @property
    def study(self) -> str | None:
        """Return the study of a trial; None for a run that belongs to no study."""
        return study_of(self.id)

    @property
    def ending(self) -> str | None:
        """Return how the run ended, in words: `Finished, but ...` if something speaks against its success."""
        return ends.outcome_in_words(self.outcome, self.reason) if self.outcome else None

    @property
    def but(self) -> str | None:
        """Return the doubt about a run that succeeded, or None."""
        return ends.doubt(self.outcome, self.reason)

    @property
    def word(self) -> str:
        """Return the word for the state of the run (trainyard/core/model/states.py)."""
        if self.waiting and not self.outcome:
            number = f" ({at} of {self.waiting.queued})" if (at := self.waiting.position) else ""
            return f"Waiting for {self.waiting.awaited}{number}"
        return self.ending or states.word_for(self.state, self.kind)

    @classmethod
    def of(cls, row: RunRow) -> Self:
        """Read a run from a row of the index."""
        progress, last = progress_in(row.progress), row.last_launch
        return cls(
            id=row.run,
            arn=row.execution_arn,
            kind=row.kind,
            created=row.created,
            state=row.state,
            attempt=row.attempt,
            name=row.name,
            submitter=row.submitter,
            labels=row.labels,
            outcome=row.outcome,
            error=row.error,
            reason=row.reason,
            ended=row.ended,
            progress=progress,
            waiting=row.waiting,
            pool=last.pool if last else None,
            market=last.market if last else None,
            gang=last.gang if last else None,
            price=last.price if last else None,
            dollars=row.dollars,
            saved_dollars=row.saved_dollars,
            image=row.image or None,
            search=row.search,
            args={name: _value(text) for name, text in row.args.items()},
            metrics={**(progress.metrics if progress else {}), **(row.scalars or {})},
        )


@dataclass(frozen=True)
class BegunRun:
    """A training run that has begun but is not admitted yet, so that the ledger does not list it."""

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
        """Return an HTML table for notebooks."""
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


def newest(
    table: Any, *, since: datetime, now: datetime, kinds: Sequence[str] | None, page: int
) -> Iterator[ListedRun]:
    """Yield the runs since a time, the newest first. Each month is queried when it is needed, in pages of `page` rows,
    or of 1 MB for some kinds. `table` is boto3's."""
    begin = serialization.timestamp(since)
    for month in _months(since, now):
        query: dict[str, Any] = {
            "IndexName": INDEX,
            "KeyConditionExpression": Key(INDEX).eq(month) & Key("created").gte(begin),
            "ScanIndexForward": False,
        }
        query |= {"Limit": page} if kinds is None else {"FilterExpression": Attr("kind").is_in([*kinds])}
        while True:
            answer = table.query(**query)
            yield from (ListedRun.of(reading.run_of(row)) for row in answer["Items"])
            if "LastEvaluatedKey" not in answer:
                break
            query["ExclusiveStartKey"] = answer["LastEvaluatedKey"]


def _value(text: str) -> str | int | float:
    """Return the number in a text, or the text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def last_month(now: datetime) -> datetime:
    """Return the beginning of the previous month."""
    this = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (this - timedelta(days=1)).replace(day=1)


def _months(since: datetime, now: datetime) -> Iterator[str]:
    """Yield the months from now back to `since`."""
    first, month = since.astimezone(UTC), now.astimezone(UTC).replace(day=1)
    while (month.year, month.month) >= (first.year, first.month):
        yield f"{month:%Y-%m}"
        month = (month - timedelta(days=1)).replace(day=1)
