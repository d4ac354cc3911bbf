"""The yard's own limits: what one run may cost, and how many runs and hosts there are at once. Pure.

A run has its place from its admission until it is concluded. One that finds none waits, before all that came later. A
host that a person launches has its place from its admission until it has ended or stopped, and waits for none."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from trainyard.core.model.job import Job
from trainyard.core.model.yard import promises
from trainyard.core.model.yard.promises import Promise
from trainyard.protocol.ledger.claim import Claim, ClaimKind
from trainyard.values.lazy import dataclass
from trainyard.values.quantities import counted
from trainyard.values.validation import Fault

MOST_NAMED = 3
SHORTEST, LONGEST = 30, 300
"""Seconds between two looks for a place."""


@dataclass(frozen=True)
class YardLimits:
    """`dollars` for one run; `runs` at once; `hosts` of runs and launches at once; `month`: dollars of a month; 0: no
    limit. `pool`: hosts that wait for another run; 0: none do. `waits`: whether one waits for a place."""

    dollars: float = 0.0
    runs: int = 0
    hosts: int = 0
    month: float = 0.0
    pool: int = 0
    waits: bool = True

    @property
    def bind(self) -> bool:
        """Whether a run needs a place at all."""
        return bool(self.runs or self.hosts or self.month)


def promise_of(claim: Claim, now: datetime) -> Promise:
    """Return what the run or host of the claim may still cost."""
    left = promises.remaining(claim.dollars, claim.per_hour, claim.until, now)
    return Promise(run=claim.run, by=claim.by, dollars=left)


def faults(job: Job, limits: YardLimits) -> tuple[Fault, ...]:
    """What this yard lets no run have, however long it waits."""
    found = []
    if limits.dollars and job.limits.dollars > limits.dollars:
        found.append(
            Fault(
                "limits.dollars",
                f"found {job.limits.dollars:g}; this yard lets one run cost ${limits.dollars:g}: ask for less, or let "
                f"whoever deploys the yard raise it ({how('most_dollars_per_run', job.limits.dollars)})",
            )
        )
    if limits.hosts and job.gang > limits.hosts:
        found.append(
            Fault(
                "cluster",
                f"asks for {counted(job.gang, 'host')}; this yard lets its runs have {limits.hosts} at once: "
                f"ask for fewer, or let whoever deploys the yard raise it ({how('most_hosts', job.gang)})",
            )
        )
    if job.pool.keep > limits.pool:
        allowed = (
            f"lets {counted(limits.pool, 'host')} wait for other runs at once"
            if limits.pool
            else "has no pool"
        )
        found.append(
            Fault(
                "pool.keep",
                f"found {job.pool.keep}; this yard {allowed}: keep fewer, or let whoever deploys the yard raise it "
                f"({how('most_pool_hosts', job.pool.keep)})",
            )
        )
    return tuple(found)


def how(setting: str, value: float) -> str:
    """What to type for another value of a setting."""
    return f"cdk deploy --all -c {setting}={value:g}"


def full(mine: Claim, others: Iterable[Claim], limits: YardLimits) -> str | None:
    """Why there is no place for the run now; None where there is one. Who came earlier and waits is before it."""
    ahead = [each for each in others if not each.waits or _turn(each) < _turn(mine)]
    hosts, runs = sum(each.hosts for each in ahead), [each for each in ahead if each.kind is ClaimKind.TRAIN]
    if mine.kind is ClaimKind.BAKE:
        return None
    if limits.runs and mine.kind is ClaimKind.TRAIN and len(runs) >= limits.runs:
        return f"{_these(runs)}, and the yard has {limits.runs} at once (most_runs)"
    if limits.hosts and hosts + mine.hosts > limits.hosts:
        what = "run" if mine.kind is ClaimKind.TRAIN else "dev host"
        return (
            f"{_these(ahead)} with {counted(hosts, 'host')}; this {what} needs {mine.hosts}, and the yard has "
            f"{limits.hosts} at once (most_hosts)"
        )
    return None


def pause(job: Job) -> int:
    """Seconds until the next look: a hundred of them in the time that the job waits, within reason."""
    return int(min(max(job.limits.wait_minutes * 60 / 100, SHORTEST), LONGEST))


def too_late(job: Job, created: datetime, now: datetime) -> str | None:
    """That the run has waited as long as its job says; None while it has not."""
    if now - created < timedelta(minutes=job.limits.wait_minutes):
        return None
    return f"it has waited {job.limits.wait_minutes:g} minutes (limits.wait_minutes)"


def advice(limits: YardLimits) -> str:
    """What helps against a yard that is full."""
    more = " -c ".join(
        f"{setting}={2 * limit}"
        for setting, limit in (("most_runs", limits.runs), ("most_hosts", limits.hosts))
        if limit
    )
    return (
        "Start it again when one of them has ended, stop one, give a job more limits.wait_minutes if runs may wait, or "
        f"let whoever deploys the yard raise its limits (cdk deploy --all -c {more})."
    )


def _turn(claim: Claim) -> tuple[datetime, str]:
    return claim.created, claim.run


def _these(ahead: list[Claim]) -> str:
    """`4 runs are before it (a, b, c and 1 more)`."""
    named = [each.run for each in sorted(ahead, key=_turn)[:MOST_NAMED]]
    more = len(ahead) - len(named)
    runs = "1 run is" if len(ahead) == 1 else f"{len(ahead)} runs are"
    return f"{runs} before it ({', '.join(named)}{f' and {more} more' if more else ''})"
