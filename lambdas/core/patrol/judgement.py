"""Judge one host: what patrol does with it, and why in one sentence. Pure.

Missing metrics are unknown, never idle. Metrics are requested only for hosts that cannot be judged without them (Ask).
`docs/patrol.md` shows the decision table that tests/unit/core/patrol/test_verdict.py is.
"""

from collections.abc import Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import assert_never

from lambdas.core.capacity import cost
from lambdas.core.capacity.prices import Prices
from lambdas.core.patrol.usage import KERNELS, TERMINALS, Window
from lambdas.core.patrol.verdict import Archive, Ask, Earlier, Keep, Stop, Terminate, Verdict, Warn
from trainyard.core.model.yard.policy import IdleSpot, Policy
from trainyard.protocol.plan import Market
from trainyard.protocol.storage import Storage
from trainyard.protocol.times import LEASE_MARGIN, RESTARTED_LEASE
from trainyard.protocol.verdicts import Cause
from trainyard.values import serialization
from trainyard.values.lazy import dataclass
from trainyard.values.quantities import counted, dollars, rounded

GOING = ("shutting-down", "terminated", "stopping")
ORPHAN_GRACE = timedelta(seconds=30)
"""How long after its launch a host cannot be an orphan: Step Functions may name a new execution a little late. With two
looks after it, an orphan ends at the third patrol at the latest, be a rule of one minute some seconds early or late."""
TWO_LOOKS = timedelta(seconds=30)
"""What lies between two patrols at least: one that is called twice has looked once."""


@dataclass(frozen=True, kw_only=True)
class ObservedHost:
    """One host, as EC2 and Systems Manager know it.

    `launched`: when it was started last; `changed`: when its state changed last, where EC2 says so. `run`: whom it
    was launched for, `kind`: that run's, `live`: whether an execution of that name goes on; `stays`: the job keeps its
    hosts (after.hosts: stop). `ready`: since when the host of a launch can be used; `lease`: when it powers itself off
    at the latest, used or not. `warm`: until when it waits in the pool. `held`: until when somebody wants it.
    `imaging`: who makes an image of it. `dev`: the name of the dev host that it is, `judged_by`: what its agent knows
    of its policy. `session`, `forward`, `command`: whether a person has a session on it, or carries a port of it to a
    computer, or a command runs. `price` is dollars an hour, `volume_charge` once, for the disk that was `made` then;
    `disk_gib` None where nobody knows it; `prices` are the region's. `window`, `use` (of a dev host: who was at it)
    and `processors` are None where the metrics were not asked for."""

    instance: str
    type: str
    market: Market
    state: str
    launched: datetime
    price: float
    prices: Prices
    disk_gib: int | None = None
    volume_charge: float = 0.0
    made: datetime | None = None
    changed: datetime | None = None
    run: str | None = None
    kind: str = "train"
    live: bool = False
    stays: bool = False
    ready: datetime | None = None
    lease: datetime | None = None
    run_lease: datetime | None = None
    """When the host of a run powers itself off at the latest: a hold may begin as late as that."""
    held: datetime | None = None
    cap: datetime | None = None
    """Until when an operator lets the host be held, beyond the yard's longest hold."""
    owner: str | None = None
    """Who asked for the host, by its tag."""
    refused: str | None = None
    """Why the yard's limits have no room for a host that was started again."""
    warm: datetime | None = None
    imaging: str | None = None
    dev: str | None = None
    judged_by: str | None = None
    session: bool = False
    forward: bool = False
    command: bool = False
    gpus: int = 1
    vcpus: int = 1
    window: Window | None = None
    use: Window | None = None
    processors: Window | None = None
    earlier: Earlier | None = None
    """The last verdict of patrol; None also of a host that it has only asked about so far. What is to be said once
    asks Logbook.once."""
    policy: Policy = field(default_factory=Policy)

    @property
    def told(self) -> tuple[Window, ...]:
        """What metrics have been asked for."""
        return tuple(each for each in (self.window, self.use, self.processors) if each is not None)


def judge(host: ObservedHost, now: datetime) -> Verdict | Ask:
    """The first rule that applies decides. Acting on a verdict is somebody else's. What somebody may want to decide
    otherwise says what that costs."""
    if host.state in GOING:
        return Keep(reason=f"it is {host.state} already")
    if host.live:
        return Keep(reason=f"its run {host.run} goes on")
    found = _judged(host, now)
    return found if isinstance(found, Ask) else replace(found, reason=f"{found.reason}. {prices(host)}")


def prices(host: ObservedHost) -> str:
    """What the host costs as it is, and on each rung of the ladder below."""
    gib, gib_month = host.disk_gib, host.prices.gib_month
    of = "for each GiB of its disk" if gib is None else f"for its disk of {gib} GiB"
    stopped = f"${(gib or 1) * gib_month(Storage.DISK):.2f} a month {of}"
    archived = f"${(gib or 1) * gib_month(Storage.SNAPSHOT):.2f}"
    caveat = host.prices.caveat(storage=[Storage.DISK, Storage.SNAPSHOT])
    below = f"archived at most {archived}, terminated nothing, with its disk lost{caveat}"
    if host.state == "stopped":
        return f"Stopped it costs {stopped}, {below}"
    hourly = host.price + cost.disk(gib or 0, gib_month(Storage.DISK))
    return f"It costs {dollars(hourly)} an hour, stopped {stopped}, {below}"


def _judged(host: ObservedHost, now: datetime) -> Verdict | Ask:
    if host.imaging:
        return Keep(reason=f"{host.imaging} makes an image of it")
    if host.state == "stopped":
        return _stopped(host, now)
    if host.refused:
        why = f"it was started again at {_at(host.launched)} beyond the yard's limits: {host.refused}"
        return Stop(reason=why, cause=Cause.LIMITS, since=_since(host, Cause.LIMITS, now), saves=host.price)
    if host.held and host.held > now:
        return Keep(reason=f"somebody holds it until {_at(host.held)}", until=host.held)
    if host.warm and host.warm > now:
        why = f"it waits in the pool until {_at(host.warm)} for a run that takes it"
        return Keep(reason=why, until=host.warm)
    if _is_orphan(host):
        return _orphan(host, now)
    if now - host.launched < host.policy.grace:
        until = host.launched + host.policy.grace
        return Keep(reason=f"it started at {_at(host.launched)} and boots until {_at(until)}", until=until)
    over = host.lease and now - end_of_lease(host.lease, host.launched)
    if over and over >= LEASE_MARGIN:
        why = f"it may not run since {_at(now - over)}, used or not, and has not gone by itself"
        return _idle(host, Cause.LEASE, why, now)
    if host.session or (host.forward and not host.dev):
        return Keep(reason="a session is open on it")
    if host.command:
        return Keep(reason="a command runs on it")
    return _by_metrics(host, now)


def _stopped(host: ObservedHost, now: datetime) -> Verdict:
    since = host.changed or _since(host, Cause.STOPPED, now)
    kept = host.policy.archive_after
    if now - since >= kept:
        return Archive(
            reason=f"it was stopped at {_at(since)}, and after {rounded(kept.total_seconds())} a host becomes an image",
            cause=Cause.STOPPED,
            since=since,
        )
    return Keep(
        reason=f"it was stopped at {_at(since)} and becomes an image at {_at(since + kept)}",
        cause=Cause.STOPPED,
        since=since,
    )


def _is_orphan(host: ObservedHost) -> bool:
    """Of a run that is over and keeps no hosts, or of one that nobody knows. The host of a launch is somebody's once
    the launch has ended well."""
    if host.kind == "dev-host" and host.ready:
        return False
    return host.run is not None and not host.stays


def end_of_lease(tagged: datetime | None, launched: datetime) -> datetime:
    """Return when the host of a launch powers itself off at the latest; of one that was started again, later."""
    return tagged if tagged and launched < tagged else launched + RESTARTED_LEASE


def _orphan(host: ObservedHost, now: datetime) -> Verdict:
    """An execution that goes on would have been named twice in a row."""
    age = now - host.launched
    grace = min(ORPHAN_GRACE, host.policy.grace)
    if age < grace:
        why = f"it was launched at {_at(host.launched)} for {host.run}, whose execution may be named late"
        return Keep(reason=why, until=host.launched + grace)
    since = _since(host, Cause.ORPHAN, now)
    why = f"no execution named {host.run} goes on, and the host was launched for it"
    if host.warm:
        why = (
            f"its time in the pool, kept by {host.run}, was over at {_at(host.warm)}, and no run has taken it"
        )
    if now - since >= TWO_LOOKS:
        return Terminate(
            reason=f"{why}; two patrols in a row have seen that",
            cause=Cause.ORPHAN,
            since=since,
            saves=host.price,
        )
    return Warn(reason=f"{why}; if the next patrol sees that too, it ends", cause=Cause.ORPHAN, since=since)


def _by_metrics(host: ObservedHost, now: datetime) -> Verdict | Ask:
    """GPUs and people first: the processors are asked about only where these are idle."""
    policy, window, use = host.policy, host.window, host.use
    if not host.gpus and not policy.sees_processors and not host.dev:
        why = f"a {host.type} has no GPU whose use could be seen, and EC2 tells of processors too late for its window"
        return _unknown(host, why, now)
    if (window is None and host.gpus) or (use is None and host.dev):
        return Ask("no run, no hold and no session keeps it: its metrics decide")
    span = rounded(policy.window_minutes * 60)
    if window and window.peak >= policy.idle_percent:
        why = f"its busiest GPU was at {window.peak:.0f} % within the last {span}"
        return _busy(host, f"{why}; idle is below {policy.idle_percent:g} %", now)
    if use and use.peak:
        others = f"; no GPU of it was above {window.peak:.1f} %" if window else ""
        return _busy(host, f"{_people(use)} within the last {span}{others}", now)
    usable = max(host.launched, host.ready or host.launched)
    if now - usable < timedelta(minutes=policy.window_minutes):
        return Keep(
            reason=f"nobody could use it before {_at(usable)}, and {span} without work make it idle",
            until=usable + timedelta(minutes=policy.window_minutes),
        )
    if window and not window.is_whole:
        lack = "all" if window.is_empty else f"{window.missing}"
        why = f"{lack} of the last {counted(len(window.minutes), 'minute')} of its GPU metrics are missing"
        return _by_processors(host, why, now) or _unknown(host, why, now)
    if use and not use.is_whole:
        lack = "all" if use.is_empty else f"{use.missing}"
        why = f"{lack} of the last {counted(len(use.minutes), 'minute')} of its metric InUse are missing"
        return _by_processors(host, why, now) or _unknown(host, why, now, look="its host agent")
    idle = [f"no GPU of it was above {window.peak:.1f} %"] if window else []
    if policy.sees_processors:
        if host.processors is None:
            return Ask("no GPU of it works: its processors decide")
        if found := _busy_processors(host, host.processors):
            return _busy(host, found, now)
        if not host.processors.is_whole:
            return _unknown(host, "EC2 has not told how much of its processors was used", now)
        idle.append(f"its processors did at most {_used(host, host.processors):.0f} % of what one does")
    if use:
        idle.append("no kernel and no terminal of it was in use")
    alone = "nobody holds it"
    if host.dev:
        alone = f"{alone} or has a session on it{' but for a forward of a port' if host.forward else ''}"
    return _idle(host, Cause.IDLE, f"{_listed(idle)} in the last {span}, and {alone}", now)


def _by_processors(host: ObservedHost, why: str, now: datetime) -> Verdict | Ask | None:
    """Judge a host whose other metrics are missing by its processors; return None if these cannot show that it works.

    NVIDIA's driver reports no utilization of a GPU that is divided (MIG): such a host never has GPU metrics,
    however much it does. Idle processors prove nothing: a GPU may work without them."""
    if not host.policy.sees_processors:
        return None
    if host.processors is None:
        return Ask(f"{why}: its processors may show that it works")
    found = _busy_processors(host, host.processors)
    return _busy(host, f"{why}, but {found}", now) if found else None


def _busy_processors(host: ObservedHost, processors: Window) -> str | None:
    """Return what the processors did, in words; None if that is idle."""
    used, policy = _used(host, processors), host.policy
    if used < policy.idle_cpu_percent:
        return None
    span = rounded(policy.window_minutes * 60)
    return (
        f"its processors did {used:.0f} % of what one does, in five minutes within the last {span}; "
        f"idle is below {policy.idle_cpu_percent:g} %"
    )


def _used(host: ObservedHost, processors: Window) -> float:
    """Return the processors' busiest five minutes, in percent of one processor."""
    return processors.peak * host.vcpus


def _people(use: Window) -> str:
    """Who was at it: `a kernel of its notebooks was busy or active`."""
    kernels, terminals = use.used(KERNELS), use.used(TERMINALS)
    if kernels and terminals:
        return "a kernel of its notebooks and a terminal of it were busy or active"
    return f"a {'kernel of its notebooks' if kernels else 'terminal of it'} was busy or active"


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


def _busy(host: ObservedHost, why: str, now: datetime) -> Verdict:
    return Keep(reason=why, cause=Cause.BUSY, since=_since(host, Cause.BUSY, now))


def _unknown(host: ObservedHost, why: str, now: datetime, *, look: str = "its CloudWatch agent") -> Verdict:
    since, policy = _since(host, Cause.UNKNOWN, now), host.policy
    lasting = now - since
    stop_after = policy.unknown_stop_minutes
    if stop_after is not None and host.market.can_stop and lasting >= timedelta(minutes=stop_after):
        reason = f"{why}, and whether it works is unknown since {_at(since)}; its policy stops it then"
        return Stop(reason=reason, cause=Cause.UNKNOWN, since=since, saves=host.price)
    if lasting >= timedelta(minutes=policy.unknown_warn_minutes):
        reason = f"{why}, and whether it works is unknown since {_at(since)}: look whether {look} runs"
        return Warn(reason=reason, cause=Cause.UNKNOWN, since=since)
    return Keep(reason=f"{why}: unknown is not idle", cause=Cause.UNKNOWN, since=since)


def _idle(host: ObservedHost, cause: Cause, why: str, now: datetime) -> Verdict:
    """The next rung of the ladder: what can be stopped is, so that its disk stays."""
    since, price = _since(host, cause, now), host.price
    if host.market.can_stop:
        return Stop(reason=f"{why}: it is stopped", cause=cause, since=since, saves=price)
    why = f"{why}; EC2 cannot stop a fleet's spot host"
    match host.policy.idle_spot:
        case IdleSpot.ARCHIVE:
            return Archive(reason=f"{why}, so it becomes an image", cause=cause, since=since, saves=price)
        case IdleSpot.TERMINATE:
            return Terminate(reason=f"{why}, and its policy ends it", cause=cause, since=since, saves=price)
    assert_never(host.policy.idle_spot)


def _since(host: ObservedHost, cause: Cause, now: datetime) -> datetime:
    """When this cause was first seen, patrol after patrol without a break."""
    return host.earlier.since if host.earlier and host.earlier.word.cause == cause else now


def _at(instant: datetime) -> str:
    text = serialization.timestamp(instant)
    return text[: 16 if text[17:19] == "00" else 19] + "Z"
