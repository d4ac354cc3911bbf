"""What the ledger and the bucket say of a run, as values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from trainyard.client.execution import Execution, State

ROLES = ("chief", "worker", "ps", "evaluator", "")
"""In the order in which hosts are listed."""
Rows = Iterable[dict[str, Any]]
Loss = tuple[int, float]
"""(step, loss)."""


@dataclass(frozen=True)
class Host:
    """One host of the run, launched for `attempt`. `role` (`worker 0`) is empty until the cluster is written."""

    instance: str
    attempt: int
    role: str
    type: str
    zone: str
    market: str
    address: str
    price: float
    on_demand_price: float
    launched: datetime
    ended: datetime | None
    state: str

    @property
    def rank(self) -> tuple[int, int, str, str]:
        """Hosts of one attempt stand together: the chief first, then the workers, then those that serve them."""
        role, _, index = self.role.partition(" ")
        return self.attempt, ROLES.index(role), index.zfill(4), self.instance

    def dollars(self, now: datetime) -> float:
        """What it has cost until now."""
        return self.price * elapsed(self.launched, self.ended or now).total_seconds() / 3600


@dataclass(frozen=True)
class Event:
    """One line of the timeline."""

    at: datetime
    source: str
    event: str
    instance: str
    reason: str
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[datetime, str, str, str]:
        """Equal for the same event seen twice."""
        return self.at, self.source, self.event, self.instance


@dataclass(frozen=True)
class Progress:
    """How far the program is."""

    step: int
    steps: int
    epoch: float
    loss: float
    accuracy: float | None
    steps_per_second: float


@dataclass(frozen=True)
class RunStatus:
    """Everything that is known of a run at one moment."""

    at: datetime
    execution: Execution
    attempt: int
    states: tuple[State, ...]
    hosts: tuple[Host, ...]
    timeline: tuple[Event, ...]
    progress: Progress | None
    losses: tuple[Loss, ...]

    @property
    def state(self) -> str:
        """The state the execution is in, or its status when it is over."""
        if self.execution.is_over:
            return self.execution.status
        return self.states[-1].name if self.states else "Starting"

    @property
    def dollars(self) -> float:
        """What the hosts have cost until now."""
        return sum(host.dollars(self.at) for host in self.hosts)


def run_row(rows: Rows) -> dict[str, Any]:
    """The row of the run itself; empty before there is one."""
    return next((row for row in rows if row["sk"] == "run"), {})


def attempts_started(rows: Rows) -> list[int]:
    """The attempts whose cluster is written."""
    return [
        int(row["sk"].partition("#")[2])
        for row in rows
        if row["sk"].startswith("attempt#") and row.get("started")
    ]


def hosts_in(rows: Rows, roles: Mapping[str, str], states: Mapping[str, str]) -> Iterator[Host]:
    """The hosts, with their roles and EC2's states by instance."""
    for row in rows:
        if not row["sk"].startswith("host#"):
            continue
        instance = row["sk"].partition("#")[2]
        yield Host(
            instance=instance,
            attempt=int(row.get("attempt") or 0),
            role=roles.get(instance, ""),
            type=str(row.get("type", "")),
            zone=str(row.get("zone", "")),
            market=str(row.get("market", "")),
            address=str(row.get("address") or ""),
            price=float(row.get("price") or 0),
            on_demand_price=float(row.get("on_demand_price") or 0),
            launched=datetime.fromisoformat(row["launched"]),
            ended=datetime.fromisoformat(row["ended"]) if row.get("ended") else None,
            state=states.get(instance, "gone"),
        )


def timeline_in(rows: Rows) -> tuple[Event, ...]:
    """The events, oldest first."""
    events = [
        Event(
            at=datetime.fromisoformat(row["at"]),
            source=str(row.get("source", "")),
            event=str(row.get("event", "")),
            instance=str(row.get("instance") or ""),
            reason=str(row.get("reason") or ""),
            detail=dict(row.get("detail") or {}),
        )
        for row in rows
        if row["sk"].startswith("event#")
    ]
    return tuple(sorted(events, key=lambda event: event.at))


def progress_in(row: Mapping[str, Any]) -> Progress | None:
    """What the run's row says of it; None before the program has reported a step."""
    reported = row.get("progress") or {}
    if reported.get("step") is None:
        return None
    return Progress(
        step=int(reported["step"]),
        steps=int(reported.get("steps") or 0),
        epoch=float(reported.get("epoch") or 0),
        loss=float(reported.get("loss") or 0),
        accuracy=float(reported["accuracy"]) if reported.get("accuracy") is not None else None,
        steps_per_second=float(reported.get("steps_per_second") or 0),
    )


def further(told: Progress | None, written: Progress | None) -> Progress | None:
    """The later of what the ledger was told and what metrics.json has: a short run tells of its last steps there alone.
    What a program writes at its end need not say all that it has told."""
    if told is None or written is None or written.step <= told.step:
        return told or written
    return replace(written, steps=written.steps or told.steps, epoch=written.epoch or told.epoch)


def losses_in(metrics: Mapping[str, Any]) -> Iterator[Loss]:
    """The samples of metrics.json, which the chief's agent keeps; a program need not report a loss."""
    for sample in metrics.get("samples", []):
        if sample.get("step") is not None and sample.get("loss") is not None:
            yield int(sample["step"]), float(sample["loss"])


def elapsed(since: datetime, until: datetime) -> timedelta:
    """Never negative, whatever the clocks say."""
    return max(until - since, timedelta())
