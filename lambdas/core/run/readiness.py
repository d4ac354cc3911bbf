"""AwaitHosts: is the whole gang there? Every host must have signalled ready and be known to SSM."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from lambdas.core.run.records import HostRow
from lambdas.core.run.recovery import Trouble
from lambdas.core.values.lazy import dataclass

PATIENCE = timedelta(minutes=20)
"""How long hosts may take from launch to ready: boot (10 minutes for the largest types), data, program."""
SSM_PATIENCE = timedelta(minutes=5)
"""How long after its `ready` a host may need to reach Systems Manager: the agent retries every few seconds."""
SILENCE = timedelta(seconds=90)
"""Of a host that is ready and not started, which says so every 15 seconds."""
DENIED_PATIENCE = timedelta(seconds=15)
"""The same where the agent itself says that it is not allowed to: a new role may take some seconds to be known."""


@dataclass(frozen=True)
class Complete:
    reason: str


@dataclass(frozen=True)
class Waiting:
    missing: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Failed:
    """The gang cannot be complete. `error`: HostLost or HostsNotReady; `lost`: the hosts to replace."""

    error: str
    lost: tuple[str, ...]
    reason: str


def assess(
    hosts: Collection[str],
    *,
    ready: Collection[str],
    online: Collection[str],
    lost: Mapping[str, str],
    now: datetime,
    deadline: datetime,
) -> Complete | Waiting | Failed:
    """`ready`: signalled ready for this attempt. `online`: SSM says PingStatus Online. `lost`: gone, and why."""
    gone = tuple(sorted(set(hosts) & set(lost)))
    if gone:
        problems = "; ".join(f"{host}: {lost[host]}" for host in gone)
        return Failed("HostLost", gone, f"{_of(gone, hosts)} gone before the gang was complete ({problems})")
    not_ready = {host: _lack(host, ready, online) for host in sorted(hosts)}
    missing = tuple(host for host, lack in not_ready.items() if lack)
    if not missing:
        return Complete(f"all {len(hosts)} hosts are ready and known to SSM")
    problems = "; ".join(f"{host} {not_ready[host]}" for host in missing)
    if now >= deadline:
        return Failed("HostsNotReady", missing, f"{_of(missing, hosts)} not there in time: {problems}")
    return Waiting(missing, f"{_of(missing, hosts)} still awaited: {problems}")


def late(
    members: Collection[HostRow],
    ready: Collection[str],
    online: Collection[str],
    now: datetime,
    *,
    denied: str | None,
) -> Trouble | None:
    """What is wrong with a gang that is ready and partly unknown to Systems Manager; None while hosts are awaited, or
    it may still come to know them. `denied` is what a host's Systems Manager agent says it may not do."""
    if len(ready) < len(members):
        return None
    unknown = [host for host in members if host.instance not in online]
    silent = [host.instance for host in unknown if now - (host.heard or host.ready_at or now) > SILENCE]
    if silent:
        who, seconds = ", ".join(sorted(silent)), f"{SILENCE.total_seconds():g} s"
        reason = (
            f"{who} signalled ready, has said nothing for {seconds} and is not known to Systems Manager: "
            "it hangs or is cut off, though EC2 calls it running"
        )
        return Trouble(error="HostLost", reason=reason, lost=tuple(silent))
    latest = max((host.ready_at for host in members if host.ready_at), default=now)
    if now - latest <= (DENIED_PATIENCE if denied else SSM_PATIENCE):
        return None
    return unregistered(sorted(host.instance for host in unknown), denied)


def unregistered(hosts: list[str], denied: str | None = None) -> Trouble:
    """Hosts that work and can say so, but that Systems Manager does not know: a permission is missing where the agent
    of one says so; else the next attempt has other hosts instead of them."""
    who = f"Systems Manager does not know {', '.join(hosts)}, though they signalled ready"
    if denied:
        reason = f"{who}: the host role lacks {denied}. Give the role AmazonSSMManagedInstanceCore"
        return Trouble(error="AccessDenied", reason=reason, lost=tuple(hosts), final=True)
    return Trouble(
        error="HostsNotReady",
        reason=f"{who}: its agent does not answer there. Should that be so for every host, the host role lacks "
        "AmazonSSMManagedInstanceCore, or the subnet has no route to Systems Manager",
        lost=tuple(hosts),
    )


def _of(some: Collection[str], hosts: Collection[str]) -> str:
    return f"{len(some)} of {len(hosts)} hosts {'is' if len(some) == 1 else 'are'}"


def _lack(host: str, ready: Collection[str], online: Collection[str]) -> str | None:
    if host in ready:
        return None if host in online else "is ready but not known to SSM"
    return "has not signalled ready" if host in online else "has neither signalled ready nor reached SSM"
