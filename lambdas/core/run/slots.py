"""The yard's limits: what one run may cost, and how many runs and hosts may run at once. Pure.

A run has a slot from its admission to its conclusion. A run without a slot waits, ahead of all waiting runs of a lower
priority and of later runs of the same priority. A host that a user launches has a slot from its admission until it ends
or stops, and never waits for one.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from trainyard.core.model.job import Job
from trainyard.core.model.yard import promises
from trainyard.core.model.yard.promises import Promise
from trainyard.protocol.ledger.claim import Claim, ClaimKind
from trainyard.values.lazy import dataclass
from trainyard.values.quantities import format_count
from trainyard.values.validation import Fault

MOST_NAMED = 3
SHORTEST, LONGEST = 30, 300
"""Seconds between two attempts to get a slot."""


@dataclass(frozen=True)
class YardLimits:
    """The limits of a yard. 0 means no limit."""

    dollars: float = 0.0
    """For one run."""
    runs: int = 0
    """Training runs at once."""
    hosts: int = 0
    """Hosts of runs and launches at once."""
    month: float = 0.0
    """Dollars for a month."""
    pool: int = 0
    """Hosts in the warm pool; 0 for no warm pool."""
    waits: bool = True
    """True if a run waits for a slot, False if it is refused."""

    @property
    def bind(self) -> bool:
        """Return True if a run needs a slot at all."""
        return bool(self.runs or self.hosts or self.month)


def promise_of(claim: Claim, now: datetime) -> Promise:
    """Return what the run or host of the claim may still cost."""
    left = promises.remaining(claim.dollars, claim.per_hour, claim.until, now)
    return Promise(run=claim.run, by=claim.by, dollars=left)


def faults(job: Job, limits: YardLimits, *, is_trial: bool = False) -> tuple[Fault, ...]:
    """Return what this yard grants no run, however long it waits. The warm hosts of a trial count against the trials
    that its study has at once."""
    found = []
    if limits.dollars and job.limits.dollars > limits.dollars:
        found.append(
            Fault(
                "limits.dollars",
                f"found {job.limits.dollars:g}; this yard allows ${limits.dollars:g} a run: ask for less, or ask "
                f"the operator of the yard to raise it ({setting_command('most_dollars_per_run', job.limits.dollars)})",
            )
        )
    if limits.hosts and job.gang > limits.hosts:
        found.append(
            Fault(
                "cluster",
                f"asks for {format_count(job.gang, 'host')}; this yard allows {limits.hosts} at once: ask for fewer, "
                f"or ask the operator of the yard to raise it ({setting_command('most_hosts', job.gang)})",
            )
        )
    if job.pool.keep > limits.pool and not is_trial:
        allowed = (
            f"allows {format_count(limits.pool, 'host')} in its warm pool"
            if limits.pool
            else "has no warm pool"
        )
        found.append(
            Fault(
                "pool.keep",
                f"found {job.pool.keep}; this yard {allowed}: keep fewer, or ask the operator of the yard "
                f"to raise it ({setting_command('most_pool_hosts', job.pool.keep)})",
            )
        )
    return tuple(found)


def setting_command(setting: str, value: float) -> str:
    """Return the command for another value of a setting."""
    return f"cdk deploy --all -c {setting}={value:g}"


def why_full(mine: Claim, others: Iterable[Claim], limits: YardLimits) -> str | None:
    """Return why the run gets no slot now; None if there is one. Waiting runs of a higher priority, and earlier ones of
    the same priority, come first."""
    ahead = [each for each in others if not each.waits or turn(each) < turn(mine)]
    hosts, runs = sum(each.hosts for each in ahead), [each for each in ahead if each.kind is ClaimKind.TRAIN]
    if mine.kind is ClaimKind.BAKE:
        return None
    if limits.runs and mine.kind is ClaimKind.TRAIN and len(runs) >= limits.runs:
        return f"{_these(runs)}, and the yard has {limits.runs} at once (most_runs)"
    if limits.hosts and hosts + mine.hosts > limits.hosts:
        what = "run" if mine.kind is ClaimKind.TRAIN else "dev host"
        return (
            f"{_these(ahead)} with {format_count(hosts, 'host')}; this {what} needs {mine.hosts}, and the yard has "
            f"{limits.hosts} at once (most_hosts)"
        )
    return None


def find_position(mine: Claim, others: Iterable[Claim]) -> tuple[int, int]:
    """Return the position of a run among all waiting runs, and the number of these runs."""
    waiting = [turn(each) for each in others if each.waits]
    return 1 + sum(each < turn(mine) for each in waiting), len(waiting) + 1


def describe_turn(mine: Claim, others: Iterable[Claim]) -> str:
    """Return the position of a run among all waiting runs, and its priority, in words."""
    position, queued = find_position(mine, others)
    which = f"number {position} of {queued} waiting runs" if queued > 1 else "the only waiting run"
    return f"it is {which}, with priority {mine.priority}"


def pause(job: Job) -> int:
    """Return the seconds until the next check: a hundredth of the time that the job waits, within bounds."""
    return int(min(max(job.limits.wait_minutes * 60 / 100, SHORTEST), LONGEST))


def refuse_late(job: Job, created: datetime, now: datetime) -> str | None:
    """Return that the run has waited as long as its job allows; None before."""
    if now - created < timedelta(minutes=job.limits.wait_minutes):
        return None
    return f"it has waited {job.limits.wait_minutes:g} minutes (limits.wait_minutes)"


def advice(limits: YardLimits) -> str:
    """Return the advice for a full yard."""
    more = " -c ".join(
        f"{setting}={2 * limit}"
        for setting, limit in (("most_runs", limits.runs), ("most_hosts", limits.hosts))
        if limit
    )
    return (
        "Start it again when one of them has ended, stop one, give a job more limits.wait_minutes if runs may wait, or "
        f"ask the operator of the yard to raise its limits (cdk deploy --all -c {more})."
    )


def turn(claim: Claim) -> tuple[int, datetime, str]:
    """Return the key that sorts waiting runs: by priority, then by age."""
    return -claim.priority, claim.created, claim.run


def _list_order(claim: Claim) -> tuple[bool, int, datetime, str]:
    """Return the key that sorts runs with a slot by their age, and then waiting runs by their turn."""
    return claim.waits, -claim.priority if claim.waits else 0, claim.created, claim.run


def _these(ahead: list[Claim]) -> str:
    named = [each.run for each in sorted(ahead, key=_list_order)[:MOST_NAMED]]
    more = len(ahead) - len(named)
    runs = "1 run is" if len(ahead) == 1 else f"{len(ahead)} runs are"
    return f"{runs} before it ({', '.join(named)}{f' and {more} more' if more else ''})"
