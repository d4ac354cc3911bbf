"""Hosts that say nothing when the others have left: who is asked, who is believed to be lost. Pure.

A host that hangs or is cut off is running to EC2, so no event tells of it. Those that have left an attempt say again
and again that they are ready for the next one: each time is the moment to look for the rest.
"""

from datetime import datetime, timedelta

from lambdas.core.run.records import HostRow, Records
from lambdas.core.values import wire
from lambdas.core.values.lazy import dataclass

ASK_AFTER = timedelta(seconds=15)
"""A program sees a lost peer within seconds, and EC2 tells of a host that is gone as fast."""
LOST_AFTER = timedelta(seconds=30)
"""An order reaches a host that is well in a second or two."""


@dataclass(frozen=True)
class Wait:
    """Nothing to do now."""

    reason: str


@dataclass(frozen=True)
class AskToLeave:
    """The others have left: these must be told to."""

    hosts: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class PresumeLost:
    """They were asked long enough ago: those that have not even taken the order are lost."""

    hosts: tuple[str, ...]
    commands: tuple[str, ...]


def detect(records: Records, attempt: int, now: datetime) -> Wait | AskToLeave | PresumeLost:
    """What to do about the silent hosts of an attempt that is under way."""
    row = records.attempts.get(attempt)
    if row is None or row.ending or records.waiting(attempt, ("train",)) is None:
        return Wait("nobody is to leave this attempt")
    members = records.members(attempt)
    left = [host.stopped_at for host in members if host.stopped >= attempt and host.stopped_at]
    silent = tuple(host.instance for host in members if _is_silent(host, attempt))
    if not left or not silent:
        return Wait("nobody is missing")
    if row.asked is None:
        if now - max(left) < ASK_AFTER:
            return Wait("the others may be about to leave")
        return AskToLeave(silent, f"the others have left and {', '.join(silent)} has said nothing")
    if now - row.asked < LOST_AFTER:
        return Wait("the rest has just been asked to leave")
    return PresumeLost(
        tuple(host for host in silent if not _has_news(records, attempt, host, row.asked)), row.asked_by
    )


def reason_of(lost: tuple[str, ...]) -> str:
    return (
        f"the others have left the attempt, and {', '.join(lost)} neither says anything nor takes orders: it hangs or "
        "is cut off, though EC2 calls it running"
    )


def _is_silent(host: HostRow, attempt: int) -> bool:
    return host.lives and host.stopped < attempt and host.ready <= attempt


def _has_news(records: Records, attempt: int, host: str, since: datetime) -> bool:
    """Whether the chief still reports: what it carries away may take longer than its order."""
    chief, progress = records.chief(attempt), records.run.progress or {}
    return (
        chief is not None
        and chief.instance == host
        and progress.get("attempt") == attempt
        and wire.instant(str(progress["at"])) > since
    )
