"""The warm pool: wiped hosts of successful runs and of trials, retained for a run that needs such hosts. Pure.

A host in the pool has a row, which Release writes, and a tag `<until> <run>`, which counts while the host has that
run's tag (core/model/yard/warm.py). It can be claimed once it has signalled that it is wiped. One transaction deletes
the row and makes the host part of another run, so two runs never get one host. The tag is the lease: afterwards patrol
treats the host as an orphan, with or without a row.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from lambdas.core.capacity.plan import fit_job
from lambdas.core.patrol import hold
from lambdas.core.run.records import Records
from lambdas.core.run.warm_host import WarmHost
from trainyard.core.model.gang import missing
from trainyard.core.model.job import Job
from trainyard.core.model.yard import policy
from trainyard.core.model.yard.billing import disk_hour
from trainyard.protocol.cluster import Gang
from trainyard.protocol.ledger.attempt import Ending
from trainyard.protocol.ledger.host import HostRow
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.plan import Candidate, Plan
from trainyard.protocol.tags import Tag
from trainyard.values.lazy import dataclass

LONGEST_WIPE = timedelta(minutes=5)
"""How long a host may take from its release until it signals that it is wiped."""
RETAGGED = (
    Tag.RUN, Tag.ATTEMPT, Tag.GANG, Tag.GPUS, Tag.LEASE, Tag.AFTER,
    Tag.PRICE, Tag.DISK, Tag.SUBMITTER, Tag.SERVES, "Name", *policy.tag_keys(),
)  # fmt: skip
"""Tags that show a host of the pool which run it belongs to. A job with a pool has no policy, so neither has its next
run."""
WIPE_TIME = timedelta(seconds=15)
"""How long a trial waits for hosts of its study that are being wiped, which takes about 5 s."""
SHORTEST_REMAINING_TIME = timedelta(minutes=2)
"""A host with less time left is not claimed, because patrol runs once a minute."""


@dataclass(frozen=True)
class ClaimedGang:
    """A gang from the warm pool, and the candidate of the plan that it replaces."""

    candidate: int
    hosts: tuple[WarmHost, ...]


def keeps_hosts(records: Records) -> bool:
    """Return True if the run retains hosts: its job says so, its training succeeded, and it was not stopped. A trial
    also retains them after a failure, and if its study stopped it at a rung."""
    run, row = records.run, records.attempts.get(records.run.attempt)
    asked = run.kind == "train" and records.job is not None and records.job.pool.keep > 0
    if not asked or row is None or row.ending is None or run.cut_short:
        return False
    if run.trial:
        return run.stopping is None or run.pruned is not None
    return row.ending is Ending.FINISHED and run.stopping is None


def most_dollars(plan: Plan, job: Job) -> float | None:
    """Return what hosts of the plan's first candidate may cost in the pool; None if the job retains none."""
    if not (job.pool.keep and plan.candidates):
        return None
    hourly = plan.candidates[0].price + disk_hour(plan.disk_gib, plan.gib_month)
    return round(job.pool.keep * hourly * job.pool.minutes / 60, 5)


def is_held(tags: Mapping[str, str], now: datetime) -> bool:
    """Return True if a user holds the host. No run gets it then."""
    until = hold.hold_end(tags)
    return until is not None and until > now


def choose_hosts(
    records: Records, running: Iterable[str], waiting: Iterable[WarmHost], *, most: int, now: datetime
) -> tuple[WarmHost, ...]:
    """Return the hosts of the run for the pool, beginning with those that an earlier call put there. `running` are
    the run's running hosts; `waiting` are all hosts in the pool. Without hosts of studies, the pool holds at most
    `most` hosts."""
    job, plan = records.job, records.plan
    if not keeps_hosts(records) or job is None or plan is None:
        return ()
    here, waiting = set(running), tuple(waiting)
    mine = tuple(host for host in waiting if host.run == records.run.run)
    there = {host.instance for host in mine}
    others = sum(host.run != records.run.run and host.study is None for host in waiting)
    room = (job.pool.keep if records.run.trial else min(job.pool.keep, most - others)) - len(mine)
    fit = [
        host
        for host in records.members(records.run.attempt)
        if host.gang is Gang.MAIN and host.stays and host.instance in here and host.instance not in there
    ]
    more = tuple(_warm(records.run, host, plan, job.pool.minutes, now) for host in fit[: max(0, room)])
    return (*(host for host in mine if host.instance in here), *more)


def choose_gang(
    waiting: Iterable[WarmHost],
    plan: Plan,
    job: Job,
    now: datetime,
    *,
    study: str | None = None,
    with_unwiped: bool = False,
) -> ClaimedGang | None:
    """Return a whole gang from the warm pool, of the first candidate that the pool can fill; None if it can fill none.
    Its hosts share type, zone and market, and have the plan's image and disk. A trial takes hosts of its study first.
    With `with_unwiped`, hosts of the study that are being wiped count, too."""
    if job.cpu_gang:
        return None
    fit = sorted(
        (
            host
            for host in waiting
            if (host.ready or (with_unwiped and host.study and now - host.since < WIPE_TIME))
            and host.study in (None, study)
            and host.until - now >= SHORTEST_REMAINING_TIME
            and (host.image, host.disk_gib) == (plan.image, plan.disk_gib)
        ),
        key=lambda host: (host.study is not None, host.until, host.instance),
        reverse=True,
    )
    for number, candidate in enumerate(plan.candidates):
        most, least = missing(fit_job(job, candidate), Gang.MAIN, ())
        gang = [host for host in fit if _is_of(host, candidate)][:most]
        if gang and len(gang) >= least:
            return ClaimedGang(number, tuple(gang))
    return None


def _is_of(host: WarmHost, candidate: Candidate) -> bool:
    return (host.type, host.zone, host.market) == (candidate.type, candidate.zone, candidate.market)


def _warm(run: RunRow, host: HostRow, plan: Plan, minutes: float, now: datetime) -> WarmHost:
    return WarmHost(
        instance=host.instance,
        run=run.run,
        study=run.trial.study if run.trial else None,
        type=host.type,
        zone=host.zone,
        market=host.market,
        image=plan.image,
        price=host.price,
        on_demand_price=host.on_demand_price,
        disk_gib=host.disk_gib,
        gib_month=host.gib_month,
        since=now,
        until=now + LONGEST_WIPE,
        minutes=minutes,
    )
