"""Hosts, attempts, launch requests and events of a run, as users see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from trainyard.core.model.yard.billing import billed_hours, host_dollars
from trainyard.protocol import timeline
from trainyard.protocol.ledger.attempt import AttemptRow
from trainyard.protocol.ledger.host import HostRow
from trainyard.protocol.ledger.launch_request import LaunchRequestRow
from trainyard.protocol.plan import Plan
from trainyard.protocol.timeline import Entry

ROLES = ("chief", "worker", "ps", "evaluator", "")
"""The roles in the order of lists of hosts."""


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
    disk_gib: int = 0
    gib_month: float = 0.0
    volume_charge: float = 0.0

    @property
    def rank(self) -> tuple[int, int, str, str]:
        """Return the sort key of hosts: by attempt, the chief first, then workers, then parameter servers."""
        role, _, index = self.role.partition(" ")
        return self.attempt, ROLES.index(role), index.zfill(4), self.instance

    def dollars(self, now: datetime) -> float:
        """Return the cost until now, as in the bill of its run."""
        return host_dollars(
            self.seconds(now),
            self.price,
            disk_gib=self.disk_gib,
            gib_month=self.gib_month,
            volume_charge=self.volume_charge,
        )

    def saved_dollars(self, now: datetime) -> float:
        """Return the amount saved until now compared to the on-demand price; 0 if that price is unknown."""
        return max(self.on_demand_price - self.price, 0.0) * billed_hours(self.seconds(now))

    def seconds(self, now: datetime) -> float:
        """Return the age of the host in seconds until now."""
        return elapsed(self.launched, self.ended or now).total_seconds()


@dataclass(frozen=True)
class Attempt:
    """One attempt: the life of one gang. `ending` (docs/contracts/ledger.md) and `reason` are empty while it runs;
    `saved` is the step of its last whole checkpoint."""

    number: int
    pool: str
    launched: datetime
    started: datetime | None
    ended: datetime | None
    ending: str
    reason: str
    from_step: int | None
    to_step: int | None
    saved: int | None
    saved_at: datetime | None
    hosts: int = 0


@dataclass(frozen=True)
class Pool:
    """One capacity pool of the plan, in the plan's order, with dollars an hour of one host."""

    name: str
    price: float
    on_demand_price: float


@dataclass(frozen=True)
class AnsweredRequest:
    """One launch request for the hosts of an attempt. `answer` is `launched`, `refused` or empty; `kind`
    (docs/contracts/README.md, `LaunchesRefused`), `code` and `reason` explain a refusal."""

    attempt: int
    pool: str
    at: datetime
    answer: str
    kind: str
    code: str
    reason: str


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
        """Return a key that is equal for equal events."""
        return self.at, self.source, self.event, self.instance


def hosts_in(hosts: Iterable[HostRow], roles: Mapping[str, str], states: Mapping[str, str]) -> Iterator[Host]:
    """Yield the hosts, with their roles and EC2's states by instance."""
    for row in hosts:
        yield Host(
            instance=row.instance,
            attempt=row.attempt,
            role=roles.get(row.instance, ""),
            type=row.type,
            zone=row.zone,
            market=row.market,
            address=row.address or "",
            price=row.price,
            on_demand_price=row.on_demand_price or 0.0,
            launched=row.launched,
            ended=row.ended,
            state=states.get(row.instance, "terminated"),
            disk_gib=row.disk_gib,
            gib_month=row.gib_month,
            volume_charge=row.charges,
        )


def attempts_in(attempts: Iterable[AttemptRow]) -> Iterator[Attempt]:
    """Yield the attempts that were launched, oldest first."""
    for row in attempts:
        yield Attempt(
            number=row.attempt,
            pool=row.pool,
            launched=row.launched,
            started=row.started,
            ended=row.ended,
            ending=row.ending or "",
            reason=row.reason or "",
            from_step=row.from_step,
            to_step=row.to_step,
            saved=row.checkpointed,
            saved_at=row.saved,
            hosts=len(row.hosts),
        )


def pools_in(plan: Plan | None) -> Iterator[Pool]:
    """Yield the capacity pools of the plan; none before there is one."""
    for candidate in plan.candidates if plan else ():
        yield Pool(candidate.pool, candidate.price, candidate.on_demand_price or 0.0)


def list_answered_requests(
    requests: Iterable[LaunchRequestRow], plan: Plan | None
) -> tuple[AnsweredRequest, ...]:
    """Return the launch requests, the oldest first, with each refusal of a request for several capacity pools."""
    return tuple(sorted(_answered_requests(requests, plan), key=lambda each: each.at))


def _answered_requests(requests: Iterable[LaunchRequestRow], plan: Plan | None) -> Iterator[AnsweredRequest]:
    for row in requests:
        alone = (
            row.capacity_pool or _pool(plan, row.candidate),
            row.refusal or "",
            row.code or "",
            row.reason or "",
        )
        each_of: list[tuple[str, str, str, str]] = [
            (_pool(plan, each.candidate), each.kind, each.code, each.reason) for each in row.refusals
        ]
        for pool, kind, code, reason in each_of or [alone]:
            yield AnsweredRequest(row.attempt, pool, row.at, row.answer or "", kind, code, reason)


def _pool(plan: Plan | None, candidate: int) -> str:
    return plan.candidates[candidate].pool if plan else ""


def timeline_in(entries: Iterable[Entry]) -> tuple[Event, ...]:
    """Return the events in their order, oldest first (trainyard/protocol/timeline.py)."""
    events = [
        Event(
            at=entry.at,
            source=entry.source,
            event=entry.event,
            instance=entry.instance or "",
            reason=entry.reason or "",
            detail=entry.detail,
        )
        for entry in entries
    ]
    return tuple(sorted(events, key=lambda event: timeline.sort_key(event.at, event.event)))


def elapsed(since: datetime, until: datetime) -> timedelta:
    """Return the time between two moments, never negative."""
    return max(until - since, timedelta())
