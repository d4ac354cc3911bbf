"""Growth: more hosts for an attempt that trains with fewer workers than its job allows. Pure.

Launch requests them during training. When all of them are ready, the gang saves, leaves, and continues with them. Until
then they belong to the run, but to no attempt. If the attempt ends earlier, the next one includes them; hosts that do
not become ready in time are terminated.
"""

from datetime import datetime, timedelta

from lambdas.core.capacity.plan import fit_job
from lambdas.core.run import deadlines, readiness
from lambdas.core.run.records import Records
from trainyard.core.model.gang import fit_workers, size
from trainyard.protocol.cluster import Gang, Member
from trainyard.protocol.ledger.host import HostRow
from trainyard.protocol.plan import Candidate
from trainyard.values.lazy import dataclass

APART = timedelta(minutes=10)
"""The time between an attempt's launch and its first request for more hosts, and between two such requests."""
SHORTEST_GAIN = timedelta(minutes=15)
"""A training with less time left does not grow, because hosts have to boot first."""
RETRY_INTERVAL = timedelta(minutes=1)
"""After this time a gang that was ordered to leave is ordered once more, because the first caller may have died."""
LEASE = readiness.PATIENCE + timedelta(minutes=10)
"""A new host that no attempt has started powers itself off after this time."""


@dataclass(frozen=True)
class RequestHosts:
    """Request at most `count` more hosts."""

    count: int


@dataclass(frozen=True)
class Join:
    """The new hosts are ready: the gang leaves, to continue with them."""

    hosts: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class GiveUp:
    """The new hosts failed and are terminated."""

    hosts: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Wait:
    reason: str


def is_due(records: Records, now: datetime) -> bool:
    """Return True if a request for more hosts is due."""
    return records.run.grows is not None and now >= records.run.grows


def decide(records: Records, now: datetime) -> RequestHosts | Join | GiveUp | Wait:
    """Decide the next step of growth for the run's current attempt."""
    attempt = records.run.attempt
    row, job = records.attempts.get(attempt), records.job
    if row is None or job is None or not job.cluster.is_elastic or row.ending or not row.started:
        return Wait("none of its attempts can grow now")
    joining = records.joining()
    leaves = row.growing and (not joining or now - row.growing < RETRY_INTERVAL)
    if records.run.stopping or records.run.ended or row.capped or records.run.leaves_for or leaves:
        return Wait("the gang is about to leave")
    if gone := [host for host in joining if not host.stays]:
        return GiveUp(_names(gone), "; ".join(f"{host.instance}: {host.ending_reason}" for host in gone))
    if late := [host for host in joining if not host.ready and now - host.launched >= readiness.PATIENCE]:
        minutes = readiness.PATIENCE.total_seconds() / 60
        return GiveUp(_names(late), f"{', '.join(_names(late))} not ready {minutes:g} minutes after launch")
    if joining and all(host.ready for host in joining):
        return Join(_names(joining), _why_join(records, joining))
    if joining:
        return Wait(f"{', '.join(_names(joining))} will join")
    if open_ask := records.growth():
        return (
            RequestHosts(open_ask.more or 0)
            if is_due(records, now)
            else Wait("a request for more hosts is open")
        )
    return _request_hosts(records, now)


def count_missing_hosts(records: Records) -> int:
    """Return how many more hosts of its capacity pool the run may have."""
    job, candidate = records.job, records.held_candidate(records.run.attempt + 1)
    if job is None or candidate is None or records.plan is None:
        return 0
    most = fit_job(job, records.plan.candidates[candidate])
    have = [host for host in records.remaining(records.run.attempt + 1) if host.gang is Gang.MAIN]
    return max(0, size(most, Gang.MAIN) - len(have))


def workers_of(records: Records, attempt: int) -> int:
    """Return how many hosts of the attempt train."""
    job, members = records.job, records.members(attempt)
    assert job is not None, "an admitted run has a job"
    return fit_workers(job, (Member(instance=each.instance) for each in members)).cluster.most_workers


def next_request(records: Records, candidate: Candidate, hosts: int, now: datetime) -> datetime | None:
    """Return when an attempt with this many hosts of the candidate may request more; None if it is complete."""
    job = records.job
    assert job is not None, "an admitted run has a job"
    return now + APART if job.cluster.is_elastic and hosts < fit_job(job, candidate).gang else None


def _request_hosts(records: Records, now: datetime) -> RequestHosts | Wait:
    count, members = count_missing_hosts(records), records.members(records.run.attempt)
    if not count:
        return Wait("it has all workers that its capacity pool may hold")
    if any(not host.stays for host in members):
        return Wait("a host of the gang is leaving: the next attempt comes first")
    if not is_due(records, now):
        return Wait("the next request for more hosts is not due yet")
    if deadlines.deadline(records, records.run.attempt, now) - now < SHORTEST_GAIN or _ends_soon(records):
        return Wait("the run ends too soon for more hosts")
    return RequestHosts(count)


def _ends_soon(records: Records) -> bool:
    """Return True if the program ends soon at the speed that it reports."""
    progress = records.run.progress or {}
    step, steps, speed = (progress.get(name) for name in ("step", "steps", "steps_per_second"))
    if not step or not steps or not speed or progress.get("attempt") != records.run.attempt:
        return False
    return bool((steps - step) / speed < SHORTEST_GAIN.total_seconds())


def _why_join(records: Records, joining: tuple[HostRow, ...]) -> str:
    have, more = workers_of(records, records.run.attempt), len(joining)
    hosts = f"{more} more host{'' if more == 1 else 's'}"
    ready = f"{hosts} of the same capacity pool {'is' if more == 1 else 'are'} ready"
    return f"{ready}: it continues with {have + more} workers instead of {have}"


def _names(hosts: tuple[HostRow, ...] | list[HostRow]) -> tuple[str, ...]:
    return tuple(host.instance for host in hosts)
