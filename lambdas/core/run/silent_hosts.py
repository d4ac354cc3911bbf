"""Hosts that say nothing when the others have left: who is asked, who is believed to be lost. Pure.

A host that hangs or is cut off is running to EC2, so no event tells of it. Those that have left an attempt say again
and again that they are ready for the next one: each time is the moment to look for the rest.
"""

from datetime import datetime, timedelta

from lambdas.core.run.records import Records
from trainyard.protocol.ledger.host import HostRow
from trainyard.values import serialization
from trainyard.values.lazy import dataclass

ASK_AFTER = timedelta(seconds=10)
"""A program sees a lost peer within seconds, and EC2 tells of a host that is gone as fast."""
LOST_AFTER = timedelta(seconds=12)
"""A host that is well has an order, and has left word of that in the bucket, six seconds later."""
GONE_AFTER = timedelta(minutes=15)
"""A host that took the order has left by then: its program gets 90 seconds, a restore or an upload may take long."""


@dataclass(frozen=True)
class Wait:
    """Nothing to do now."""

    reason: str


@dataclass(frozen=True)
class LetThemLeave:
    """Some have left, the others are about to: until then the attempt is not over, though nobody trains any more."""

    reason: str


@dataclass(frozen=True)
class AskToLeave:
    """The others have left: these must be told to."""

    hosts: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class PresumeLost:
    """They were asked long enough ago: those that have not even taken the order are lost; or `all_of_them` are, since
    they took it and stay."""

    hosts: tuple[str, ...]
    all_of_them: bool = False


def detect(records: Records, attempt: int, now: datetime) -> Wait | LetThemLeave | AskToLeave | PresumeLost:
    """What to do about the silent hosts of an attempt that is under way."""
    row = records.attempts.get(attempt)
    if row is None or row.ending or records.waiting(attempt, ("train",)) is None:
        return Wait("nobody is to leave this attempt")
    members = records.members(attempt)
    left = [host.stopped_at for host in members if host.stopped >= attempt and host.stopped_at]
    silent = those_within(records, attempt)
    if not left or not silent:
        return Wait("nobody is missing")
    if row.asked is None:
        if now - max(left) < ASK_AFTER:
            return LetThemLeave("the others may be about to leave")
        return AskToLeave(silent, f"the other hosts have left, but no signal came from {', '.join(silent)}")
    if now - row.asked < LOST_AFTER:
        return LetThemLeave("the rest has just been asked to leave")
    doubted = tuple(host for host in silent if not _has_news(records, attempt, host, row.asked))
    return PresumeLost(doubted, all_of_them=now - row.asked >= GONE_AFTER)


def left_behind(records: Records, attempt: int) -> tuple[str, ...]:
    """The survivors whom an attempt waits for and who may be in an earlier one still."""
    if records.waiting(attempt, ("await_hosts",)) is None:
        return ()
    members = records.members(attempt)
    return tuple(
        host.instance for host in members if host.attempt < attempt and _is_silent(host, attempt - 1)
    )


def reason_of(lost: tuple[str, ...], *, took_orders: bool = False) -> str:
    minutes = GONE_AFTER.total_seconds() / 60
    said = (
        f"has not left within {minutes:g} minutes of being asked to: it hangs"
        if took_orders
        else "neither says anything nor takes orders: it hangs or is cut off"
    )
    return f"the others have left the attempt, and {', '.join(lost)} {said}, though EC2 calls it running"


def reason_of_all(silent: tuple[str, ...], silence: timedelta) -> str:
    """The chief says nothing, nor does anybody else in its place. Of the others each may be well, and wait for it."""
    said = f"said anything for {silence.total_seconds():g} s"
    if not silent:
        return f"all hosts have left the attempt, and none has {said} since, though EC2 calls them running"
    if len(silent) == 1:
        return f"{silent[0]} has not {said}: it hangs or is cut off, though EC2 calls it running"
    return f"none of the hosts {', '.join(silent)} has {said}: they hang or are cut off, though EC2 calls them running"


def those_within(records: Records, attempt: int) -> tuple[str, ...]:
    """The hosts that have neither left the attempt nor finished their part in it."""
    return tuple(host.instance for host in records.members(attempt) if _is_silent(host, attempt))


def _is_silent(host: HostRow, attempt: int) -> bool:
    return host.lives and host.stopped < attempt and host.ready <= attempt


def _has_news(records: Records, attempt: int, host: str, since: datetime) -> bool:
    """Whether the chief still reports: what it carries away may take longer than its order."""
    chief, progress = records.chief(attempt), records.run.progress or {}
    return (
        chief is not None
        and chief.instance == host
        and progress.get("attempt") == attempt
        and serialization.parse_timestamp(str(progress["at"])) > since
    )
