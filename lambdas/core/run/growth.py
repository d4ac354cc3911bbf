"""Growth: more hosts for an attempt that trains with fewer workers than its job may have. Pure.

They are asked for while it trains, and wait until all of them are ready; then the gang saves, leaves, and goes on with
them. Until then they are newcomers: hosts of the run that are in no attempt yet. Whatever ends the attempt before, the
next one has them, and those that never get ready are ended.
"""

from datetime import datetime, timedelta

from lambdas.core.capacity.plan import fitting
from lambdas.core.run import deadlines, readiness
from lambdas.core.run.records import Records
from trainyard.core.model.gang import size, sized
from trainyard.protocol.cluster import Gang, Member
from trainyard.protocol.ledger.host import HostRow
from trainyard.protocol.plan import Candidate
from trainyard.values.lazy import dataclass

APART = timedelta(minutes=10)
"""Between an attempt's launch, or an ask for more hosts, and the next ask."""
WORTH = timedelta(minutes=15)
"""A training that ends sooner has no use of hosts that boot first."""
AGAIN = timedelta(minutes=1)
"""A gang that has not left so long after it was asked to is asked once more: who asked may have died before."""
LEASE = readiness.PATIENCE + timedelta(minutes=10)
"""After which a newcomer that was never started powers itself off, whoever has forgotten it."""


@dataclass(frozen=True)
class Ask:
    """So many more hosts, at most."""

    count: int


@dataclass(frozen=True)
class Join:
    """They are ready: the gang leaves, to go on with them."""

    hosts: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class GiveUp:
    """They will not join any more, and are ended."""

    hosts: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Wait:
    reason: str


def is_due(records: Records, now: datetime) -> bool:
    """Whether more hosts may be asked for by now."""
    return records.run.grows is not None and now >= records.run.grows


def decide(records: Records, now: datetime) -> Ask | Join | GiveUp | Wait:
    """What comes next for the run's current attempt."""
    attempt = records.run.attempt
    row, job = records.attempts.get(attempt), records.job
    if row is None or job is None or not job.cluster.is_elastic or row.ending or not row.started:
        return Wait("no attempt of it trains that could grow")
    newcomers = records.newcomers()
    leaves = row.growing and (not newcomers or now - row.growing < AGAIN)
    if records.run.stopping or records.run.ended or row.capped or leaves:
        return Wait("the gang is about to leave")
    if gone := [host for host in newcomers if not host.stays]:
        return GiveUp(_names(gone), "; ".join(f"{host.instance}: {host.going}" for host in gone))
    if late := [host for host in newcomers if not host.ready and now - host.launched >= readiness.PATIENCE]:
        minutes = readiness.PATIENCE.total_seconds() / 60
        return GiveUp(_names(late), f"{', '.join(_names(late))} not ready {minutes:g} minutes after launch")
    if newcomers and all(host.ready for host in newcomers):
        return Join(_names(newcomers), _why_join(records, newcomers))
    if newcomers:
        return Wait(f"{', '.join(_names(newcomers))} will join")
    if open_ask := records.growth():
        return Ask(open_ask.more or 0) if is_due(records, now) else Wait("EC2 is being asked for more hosts")
    return _ask(records, now)


def lacking(records: Records) -> int:
    """How many more hosts its pool may give the run, beside all that it has."""
    job, candidate = records.job, records.held_candidate(records.run.attempt + 1)
    if job is None or candidate is None or records.plan is None:
        return 0
    most = fitting(job, records.plan.candidates[candidate])
    have = [host for host in records.survivors(records.run.attempt + 1) if host.gang is Gang.MAIN]
    return max(0, size(most, Gang.MAIN) - len(have))


def workers_of(records: Records, attempt: int) -> int:
    """How many of its hosts train."""
    job, members = records.job, records.members(attempt)
    assert job is not None, "an admitted run has a job"
    return sized(job, (Member(instance=each.instance) for each in members)).cluster.most_workers


def next_ask(records: Records, candidate: Candidate, hosts: int, now: datetime) -> datetime | None:
    """When an attempt that begins there with so many hosts may ask for more; None where it needs none."""
    job = records.job
    assert job is not None, "an admitted run has a job"
    return now + APART if job.cluster.is_elastic and hosts < fitting(job, candidate).gang else None


def _ask(records: Records, now: datetime) -> Ask | Wait:
    count, members = lacking(records), records.members(records.run.attempt)
    if not count:
        return Wait("it has as many workers as it may have there")
    if any(not host.stays for host in members):
        return Wait("a host of the gang goes: the next attempt comes first")
    if not is_due(records, now):
        return Wait("more hosts are not asked for yet")
    if deadlines.deadline(records, records.run.attempt, now) - now < WORTH or _ends_soon(records):
        return Wait("the run ends too soon for more hosts")
    return Ask(count)


def _ends_soon(records: Records) -> bool:
    """By the program's own speed, if it tells one."""
    progress = records.run.progress or {}
    step, steps, speed = (progress.get(name) for name in ("step", "steps", "steps_per_second"))
    if not step or not steps or not speed or progress.get("attempt") != records.run.attempt:
        return False
    return bool((steps - step) / speed < WORTH.total_seconds())


def _why_join(records: Records, newcomers: tuple[HostRow, ...]) -> str:
    have, more = workers_of(records, records.run.attempt), len(newcomers)
    hosts = f"{more} more host{'' if more == 1 else 's'}"
    ready = f"{hosts} of the same pool {'is' if more == 1 else 'are'} ready"
    return f"{ready}: it goes on with {have + more} workers in place of {have}"


def _names(hosts: tuple[HostRow, ...] | list[HostRow]) -> tuple[str, ...]:
    return tuple(host.instance for host in hosts)
