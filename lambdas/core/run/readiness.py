"""AwaitHosts: is the whole gang there? Every host must have signalled ready and be known to SSM."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from lambdas.core.values.lazy import dataclass

PATIENCE = timedelta(minutes=20)
"""How long hosts may take from launch to ready: boot (10 minutes for the largest types), data, program."""


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


def _of(some: Collection[str], hosts: Collection[str]) -> str:
    return f"{len(some)} of {len(hosts)} hosts {'is' if len(some) == 1 else 'are'}"


def _lack(host: str, ready: Collection[str], online: Collection[str]) -> str | None:
    if host in ready:
        return None if host in online else "is ready but not known to SSM"
    return "has not signalled ready" if host in online else "has neither signalled ready nor reached SSM"
