"""Judge one host: decide what patrol does with it, with the reason in one sentence. Pure.

Missing metrics mean unknown, never idle. Metrics are requested only for hosts that need them (Ask). `docs/patrol.md`
shows the cases of tests/unit/core/patrol/test_verdict.py as a table.
"""

from collections.abc import Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import assert_never

from lambdas.core.capacity.prices import Prices
from lambdas.core.patrol.usage import KERNELS, TERMINALS, Window
from lambdas.core.patrol.verdict import Archive, Earlier, Keep, NeedsMetrics, Stop, Terminate, Verdict, Warn
from trainyard.core.model.yard.billing import disk_hour
from trainyard.core.model.yard.policy import IdleSpot, Policy
from trainyard.protocol.plan import Market
from trainyard.protocol.storage import Storage
from trainyard.protocol.times import LEASE_MARGIN, RESTARTED_LEASE
from trainyard.protocol.verdicts import Cause
from trainyard.values import serialization
from trainyard.values.lazy import dataclass
from trainyard.values.quantities import dollars, format_count, format_roughly

ENDING_STATES = ("shutting-down", "terminated", "stopping")
ORPHAN_GRACE = timedelta(seconds=30)
"""How long a new host cannot be an orphan, because Step Functions may list its execution a little late. Two patrols
later, so at the third patrol at the latest, an orphan ends."""
TWO_LOOKS = timedelta(seconds=30)
"""The shortest time between two patrols that count as two: a retried patrol counts once."""


@dataclass(frozen=True, kw_only=True)
class ObservedHost:
    """One host, as EC2, Systems Manager, CloudWatch and the ledger show it."""

    instance: str
    type: str
    market: Market
    state: str
    launched: datetime
    """When the host was last started."""
    price: float
    """Dollars an hour for the instance."""
    prices: Prices
    """The prices of the yard's region."""
    disk_gib: int | None = None
    """None if unknown."""
    volume_charge: float = 0.0
    """Dollars for the disk's initialization rate, charged once."""
    made: datetime | None = None
    """When the disk was created."""
    changed: datetime | None = None
    """When the state last changed, if EC2 shows it."""
    run: str | None = None
    """The run that the host was launched for."""
    kind: str = "train"
    """The kind of that run."""
    live: bool = False
    """True while the run's execution is running."""
    stays: bool = False
    """True if the job keeps its hosts (after.hosts: stop)."""
    ready: datetime | None = None
    """When the host of a launch became usable."""
    lease: datetime | None = None
    """When the host of a launch powers itself off at the latest, used or not."""
    run_lease: datetime | None = None
    """When the host of a run powers itself off at the latest: a hold may begin until then."""
    held: datetime | None = None
    """The end of its hold."""
    cap: datetime | None = None
    """The end of the hold that an operator allows beyond the yard's longest hold."""
    owner: str | None = None
    """The user who launched the host, by its tag."""
    refused: str | None = None
    """Why the yard's limits leave no room for a host that was started again."""
    warm: datetime | None = None
    """The end of its time in the warm pool."""
    imaging: str | None = None
    """The run that makes an image of the host."""
    dev: str | None = None
    """The name of the dev host."""
    judged_by: str | None = None
    """The policy that the agent of a dev host last read."""
    session: bool = False
    """True if a user has a session on it."""
    forward: bool = False
    """True if a user forwards a port of the host."""
    command: bool = False
    """True while a command runs on it."""
    gpus: int = 1
    vcpus: int = 1
    window: Window | None = None
    """The use of its busiest GPU. None until requested."""
    use: Window | None = None
    """The use of a dev host's kernels and terminals. None until requested."""
    processors: Window | None = None
    """The use of its processors. None until requested."""
    earlier: Earlier | None = None
    """The last verdict of patrol; None as long as patrol only requested metrics."""
    policy: Policy = field(default_factory=Policy)

    @property
    def requested_metrics(self) -> tuple[Window, ...]:
        """Return the metrics that were requested."""
        return tuple(each for each in (self.window, self.use, self.processors) if each is not None)


def judge(host: ObservedHost, now: datetime) -> Verdict | NeedsMetrics:
    """Return the verdict of the first rule that applies. A verdict that a user may want to override names its cost.
    `steps/patrol/act.py` carries verdicts out."""
    if host.state in ENDING_STATES:
        return Keep(reason=f"it is already {host.state}")
    if host.live:
        return Keep(reason=f"its run {host.run} is running")
    found = _judge(host, now)
    return (
        found if isinstance(found, NeedsMetrics) else replace(found, reason=f"{found.reason}. {prices(host)}")
    )


def prices(host: ObservedHost) -> str:
    """Return what the host costs now, stopped, archived and terminated."""
    gib, gib_month = host.disk_gib, host.prices.gib_month
    of = "for each GiB of its disk" if gib is None else f"for its disk of {gib} GiB"
    stopped = f"${(gib or 1) * gib_month(Storage.DISK):.2f} a month {of}"
    archived = f"${(gib or 1) * gib_month(Storage.SNAPSHOT):.2f}"
    caveat = host.prices.caveat(storage=[Storage.DISK, Storage.SNAPSHOT])
    below = f"Archived: at most {archived} a month. Terminated: nothing, and its disk is deleted{caveat}"
    if host.state == "stopped":
        return f"It costs {stopped} while stopped. {below}"
    hourly = host.price + disk_hour(gib or 0, gib_month(Storage.DISK))
    return f"It costs {dollars(hourly)} an hour. Stopped: {stopped}. {below}"


def _judge(host: ObservedHost, now: datetime) -> Verdict | NeedsMetrics:
    if host.imaging:
        return Keep(reason=f"{host.imaging} is making an image of it")
    if host.state == "stopped":
        return _judge_stopped(host, now)
    if host.refused:
        why = (
            f"it was started again at {_format_time(host.launched)} beyond the yard's limits: {host.refused}"
        )
        return Stop(reason=why, cause=Cause.LIMITS, since=_since(host, Cause.LIMITS, now), saves=host.price)
    if host.held and host.held > now:
        return Keep(reason=f"it is held until {_format_time(host.held)}", until=host.held)
    if host.warm and host.warm > now:
        why = f"it waits in the warm pool until {_format_time(host.warm)}"
        return Keep(reason=why, until=host.warm)
    if _is_orphan(host):
        return _orphan(host, now)
    if now - host.launched < host.policy.grace:
        until = host.launched + host.policy.grace
        return Keep(
            reason=f"it started at {_format_time(host.launched)} and boots until {_format_time(until)}",
            until=until,
        )
    over = host.lease and now - end_of_lease(host.lease, host.launched)
    if over and over >= LEASE_MARGIN:
        why = f"its lease ended at {_format_time(now - over)}, and it has not shut down by itself"
        return _idle(host, Cause.LEASE, why, now)
    if host.session or (host.forward and not host.dev):
        return Keep(reason="a session is open on it")
    if host.command:
        return Keep(reason="a command is running on it")
    return _judge_by_metrics(host, now)


def _judge_stopped(host: ObservedHost, now: datetime) -> Verdict:
    since = host.changed or _since(host, Cause.STOPPED, now)
    kept = host.policy.archive_after
    if now - since >= kept:
        return Archive(
            reason=f"it was stopped at {_format_time(since)}, and its policy archives a host that was stopped for "
            f"{format_roughly(kept.total_seconds())}",
            cause=Cause.STOPPED,
            since=since,
        )
    return Keep(
        reason=f"it was stopped at {_format_time(since)} and will be archived at {_format_time(since + kept)}",
        cause=Cause.STOPPED,
        since=since,
    )


def _is_orphan(host: ObservedHost) -> bool:
    """Return True if the host's run has ended and keeps no hosts, or is unknown. The host of a successful launch
    belongs to its user."""
    if host.kind == "dev-host" and host.ready:
        return False
    return host.run is not None and not host.stays


def end_of_lease(tagged: datetime | None, launched: datetime) -> datetime:
    """Return when the host of a launch powers itself off at the latest. A restart begins a new lease."""
    return tagged if tagged and launched < tagged else launched + RESTARTED_LEASE


def _orphan(host: ObservedHost, now: datetime) -> Verdict:
    """Warn of an orphan, then terminate it: two patrols in a row would both have listed a running execution."""
    age = now - host.launched
    grace = min(ORPHAN_GRACE, host.policy.grace)
    if age < grace:
        why = f"it was launched at {_format_time(host.launched)} for {host.run}, whose execution may not be listed yet"
        return Keep(reason=why, until=host.launched + grace)
    since = _since(host, Cause.ORPHAN, now)
    why = f"it was launched for {host.run}, and no execution of that name is running"
    if host.warm:
        until = _format_time(host.warm)
        why = (
            f"its time in the warm pool ended at {until}, and no run has claimed it (retained by {host.run})"
        )
    if now - since >= TWO_LOOKS:
        return Terminate(
            reason=f"{why}; two patrols in a row found that",
            cause=Cause.ORPHAN,
            since=since,
            saves=host.price,
        )
    return Warn(
        reason=f"{why}; if the next patrol confirms that, the host is terminated",
        cause=Cause.ORPHAN,
        since=since,
    )


def _judge_by_metrics(host: ObservedHost, now: datetime) -> Verdict | NeedsMetrics:
    """Judge by GPUs and users first. Processors matter only if these are idle."""
    policy, window, use = host.policy, host.window, host.use
    if not host.gpus and not policy.sees_processors and not host.dev:
        why = f"a {host.type} has no GPU to measure, and EC2 reports processors too late for the window of its policy"
        return _unknown(host, why, now)
    if (window is None and host.gpus) or (use is None and host.dev):
        return NeedsMetrics("no run, hold or session keeps it: its metrics decide")
    span = format_roughly(policy.window_minutes * 60)
    if window and window.peak >= policy.idle_percent:
        why = f"its busiest GPU was at {window.peak:.0f} % within the last {span}"
        return _busy(host, f"{why}; idle is below {policy.idle_percent:g} %", now)
    if use and use.peak:
        others = f"; no GPU of it was above {window.peak:.1f} %" if window else ""
        return _busy(host, f"{_people(use)} within the last {span}{others}", now)
    usable = max(host.launched, host.ready or host.launched)
    if now - usable < timedelta(minutes=policy.window_minutes):
        return Keep(
            reason=f"it became usable at {_format_time(usable)}, and is idle after {span} without work",
            until=usable + timedelta(minutes=policy.window_minutes),
        )
    if window and not window.is_whole:
        lack = "all" if window.is_empty else f"{window.missing}"
        why = (
            f"{lack} of the last {format_count(len(window.minutes), 'minute')} of its GPU metrics are missing"
        )
        return _judge_by_processors(host, why, now) or _unknown(host, why, now)
    if use and not use.is_whole:
        lack = "all" if use.is_empty else f"{use.missing}"
        why = f"{lack} of the last {format_count(len(use.minutes), 'minute')} of its metric InUse are missing"
        return _judge_by_processors(host, why, now) or _unknown(host, why, now, look="its host agent")
    idle = [f"no GPU of it was above {window.peak:.1f} %"] if window else []
    if policy.sees_processors:
        if host.processors is None:
            return NeedsMetrics("no GPU of it works: its processors decide")
        if found := _busy_processors(host, host.processors):
            return _busy(host, found, now)
        if not host.processors.is_whole:
            return _unknown(host, "EC2 has not reported the use of its processors", now)
        idle.append(
            f"its processors used at most {_busiest_use(host, host.processors):.0f} % of one processor"
        )
    if use:
        idle.append("no kernel or terminal of it was in use")
    alone = "it is not held"
    if host.dev:
        alone = f"{alone} and has no session{' except a port forward' if host.forward else ''}"
    return _idle(host, Cause.IDLE, f"{_join(idle)} in the last {span}, and {alone}", now)


def _judge_by_processors(host: ObservedHost, why: str, now: datetime) -> Verdict | NeedsMetrics | None:
    """Judge a host whose other metrics are missing by its processors; return None if these cannot show that it
    works.

    NVIDIA's driver reports no utilization of a divided GPU (MIG), so such a host never has GPU metrics. Idle
    processors prove nothing: a GPU may work without them.
    """
    if not host.policy.sees_processors:
        return None
    if host.processors is None:
        return NeedsMetrics(f"{why}: its processors may show that it works")
    found = _busy_processors(host, host.processors)
    return _busy(host, f"{why}, but {found}", now) if found else None


def _busy_processors(host: ObservedHost, processors: Window) -> str | None:
    """Describe what the processors did; return None if they were idle."""
    used, policy = _busiest_use(host, processors), host.policy
    if used < policy.idle_cpu_percent:
        return None
    span = format_roughly(policy.window_minutes * 60)
    return (
        f"its processors used {used:.0f} % of one processor, in five minutes within the last {span}; "
        f"idle is below {policy.idle_cpu_percent:g} %"
    )


def _busiest_use(host: ObservedHost, processors: Window) -> float:
    """Return the processors' busiest five minutes, in percent of one processor."""
    return processors.peak * host.vcpus


def _people(use: Window) -> str:
    """Describe who used the host: `a kernel of its notebooks was busy or active`."""
    kernels, terminals = use.was_used(KERNELS), use.was_used(TERMINALS)
    if kernels and terminals:
        return "a kernel of its notebooks and a terminal of it were busy or active"
    return f"a {'kernel of its notebooks' if kernels else 'terminal of it'} was busy or active"


def _join(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


def _busy(host: ObservedHost, why: str, now: datetime) -> Verdict:
    return Keep(reason=why, cause=Cause.BUSY, since=_since(host, Cause.BUSY, now))


def _unknown(host: ObservedHost, why: str, now: datetime, *, look: str = "its CloudWatch agent") -> Verdict:
    since, policy = _since(host, Cause.UNKNOWN, now), host.policy
    lasting = now - since
    stop_after = policy.unknown_stop_minutes
    if stop_after is not None and host.market.can_stop and lasting >= timedelta(minutes=stop_after):
        reason = f"{why}, and its use has been unknown since {_format_time(since)}, so its policy stops it"
        return Stop(reason=reason, cause=Cause.UNKNOWN, since=since, saves=host.price)
    if lasting >= timedelta(minutes=policy.unknown_warn_minutes):
        reason = (
            f"{why}, and its use has been unknown since {_format_time(since)}: check that {look} is running"
        )
        return Warn(reason=reason, cause=Cause.UNKNOWN, since=since)
    return Keep(reason=f"{why}: unknown is not idle", cause=Cause.UNKNOWN, since=since)


def _idle(host: ObservedHost, cause: Cause, why: str, now: datetime) -> Verdict:
    """Return the gentlest act that the market and the policy allow: a host that can be stopped keeps its disk."""
    since, price = _since(host, cause, now), host.price
    if host.market.can_stop:
        return Stop(reason=f"{why}: it is stopped", cause=cause, since=since, saves=price)
    why = f"{why}; EC2 cannot stop a fleet's spot host"
    match host.policy.idle_spot:
        case IdleSpot.ARCHIVE:
            return Archive(reason=f"{why}, so it is archived", cause=cause, since=since, saves=price)
        case IdleSpot.TERMINATE:
            return Terminate(
                reason=f"{why}, so its policy terminates it", cause=cause, since=since, saves=price
            )
    assert_never(host.policy.idle_spot)


def _since(host: ObservedHost, cause: Cause, now: datetime) -> datetime:
    """Return when the current series of verdicts with this cause began."""
    return host.earlier.since if host.earlier and host.earlier.word.cause == cause else now


def _format_time(instant: datetime) -> str:
    text = serialization.timestamp(instant)
    return text[: 16 if text[17:19] == "00" else 19] + "Z"
