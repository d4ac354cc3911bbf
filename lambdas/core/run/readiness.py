"""Readiness of a gang: every host must have signalled ready."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from trainyard.values.lazy import dataclass
from trainyard.values.quantities import format_count

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
    """The gang cannot become complete."""

    error: str
    """HostLost or HostsNotReady."""
    lost: tuple[str, ...]
    """The hosts to replace."""
    reason: str


def assess(
    hosts: Collection[str],
    *,
    ready: Collection[str],
    lost: Mapping[str, str],
    now: datetime,
    deadline: datetime,
) -> Complete | Waiting | Failed:
    """Assess a gang. `ready` hosts signalled ready for this attempt; `lost` hosts have a reason."""
    gone = tuple(sorted(set(hosts) & set(lost)))
    if gone:
        problems = "; ".join(f"{host}: {lost[host]}" for host in gone)
        return Failed("HostLost", gone, f"{_of(gone, hosts)} gone before the gang was complete ({problems})")
    missing = tuple(sorted(set(hosts) - set(ready)))
    if not missing:
        return Complete("the host is ready" if len(hosts) == 1 else f"all {len(hosts)} hosts are ready")
    problems = f"{', '.join(missing)} {'has' if len(missing) == 1 else 'have'} not signalled ready"
    if now >= deadline:
        return Failed("HostsNotReady", missing, f"{_of(missing, hosts)} not there in time: {problems}")
    return Waiting(missing, f"{_of(missing, hosts)} still awaited: {problems}")


def _of(some: Collection[str], hosts: Collection[str]) -> str:
    return f"{len(some)} of {format_count(len(hosts), 'host')} {'is' if len(some) == 1 else 'are'}"
