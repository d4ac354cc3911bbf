"""Silent hosts after the others left: which to order to leave, and which to presume lost. Pure.

EC2 calls a host that hangs or is cut off running, so no event reports it. Hosts that left an attempt repeat that they
are ready for the next one: each such signal triggers a check of the others.
"""

from datetime import datetime, timedelta

from lambdas.core.run.records import Records
from trainyard.protocol.ledger.host import HostRow
from trainyard.values import serialization
from trainyard.values.lazy import dataclass

ORDER_DELAY = timedelta(seconds=10)
"""Programs notice a lost peer within seconds, and EC2 reports a terminated host as fast."""
LOST_AFTER = timedelta(seconds=12)
"""A healthy host receives an order within six seconds, and confirms it in the bucket."""
GONE_AFTER = timedelta(minutes=15)
"""A host that received the order has left after this time: its program gets 90 seconds, and a restore or upload may
take long."""


@dataclass(frozen=True)
class Wait:
    """There is nothing to do now."""

    reason: str


@dataclass(frozen=True)
class LetThemLeave:
    """Some hosts left, and the others are about to: the attempt has not ended, although no host trains."""

    reason: str


@dataclass(frozen=True)
class OrderToLeave:
    """The other hosts left: order these to leave, too."""

    hosts: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class PresumeLost:
    """Hosts that were ordered long enough ago and did not leave."""

    hosts: tuple[str, ...]
    """The hosts that have not even received the order."""
    all_of_them: bool = False
    """True if hosts that received the order are lost, too."""


def detect(records: Records, attempt: int, now: datetime) -> Wait | LetThemLeave | OrderToLeave | PresumeLost:
    """Decide about the silent hosts of the current attempt."""
    row = records.attempts.get(attempt)
    if row is None or row.ending or records.waiting(attempt, ("train",)) is None:
        return Wait("no host has to leave this attempt")
    members = records.members(attempt)
    left = [host.stopped_at for host in members if host.stopped >= attempt and host.stopped_at]
    silent = find_silent(records, attempt)
    if not left or not silent:
        return Wait("no host is missing")
    if row.ordered_to_leave is None:
        if now - max(left) < ORDER_DELAY:
            return LetThemLeave("the others may be about to leave")
        return OrderToLeave(silent, f"the other hosts have left, but no signal came from {', '.join(silent)}")
    if now - row.ordered_to_leave < LOST_AFTER:
        return LetThemLeave("the others have just been ordered to leave")
    doubted = tuple(
        host for host in silent if not _has_reported(records, attempt, host, row.ordered_to_leave)
    )
    return PresumeLost(doubted, all_of_them=now - row.ordered_to_leave >= GONE_AFTER)


def find_stragglers(records: Records, attempt: int) -> tuple[str, ...]:
    """Return the hosts that an attempt waits for and that may still be in an earlier one."""
    if records.waiting(attempt, ("await_hosts",)) is None:
        return ()
    members = records.members(attempt)
    return tuple(
        host.instance for host in members if host.attempt < attempt and _is_silent(host, attempt - 1)
    )


def reason_of(lost: tuple[str, ...], *, took_orders: bool = False) -> str:
    minutes = GONE_AFTER.total_seconds() / 60
    said = (
        f"has not left within {minutes:g} minutes of the order: it hangs"
        if took_orders
        else "neither sends signals nor confirms orders: it hangs or is disconnected"
    )
    return (
        f"the others have left the attempt, and {', '.join(lost)} {said}, although EC2 reports it as running"
    )


def reason_of_all(silent: tuple[str, ...], silence: timedelta) -> str:
    """Return the reason if the chief and all others are silent. Any of the others may be healthy and wait for the
    chief."""
    said = f"sent a signal for {silence.total_seconds():g} s"
    if not silent:
        return f"all hosts have left the attempt, and none has {said} since, although EC2 reports them as running"
    if len(silent) == 1:
        return f"{silent[0]} has not {said}: it hangs or is disconnected, although EC2 reports it as running"
    hosts = ", ".join(silent)
    return f"none of the hosts {hosts} has {said}: they hang or are disconnected, although EC2 reports them as running"


def find_silent(records: Records, attempt: int) -> tuple[str, ...]:
    """Return the hosts that have neither left the attempt nor finished their part in it."""
    return tuple(host.instance for host in records.members(attempt) if _is_silent(host, attempt))


def _is_silent(host: HostRow, attempt: int) -> bool:
    return host.lives and host.stopped < attempt and host.ready <= attempt


def _has_reported(records: Records, attempt: int, host: str, since: datetime) -> bool:
    """Return True if the chief has reported since: its upload may outlast the order."""
    chief, progress = records.chief(attempt), records.run.progress or {}
    return (
        chief is not None
        and chief.instance == host
        and progress.get("attempt") == attempt
        and serialization.parse_timestamp(str(progress["at"])) > since
    )
