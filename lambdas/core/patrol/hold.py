"""Holds: a user or a notebook on a host keeps patrol away for a while, also after the run."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from trainyard.protocol.tags import Tag
from trainyard.values import serialization
from trainyard.values.lazy import dataclass

LONGEST = timedelta(hours=24)
CLOCKS = timedelta(minutes=5)
"""How far a host's clock may be ahead, and how old its signal may be."""


@dataclass(frozen=True)
class Hold:
    """Neither patrol nor the host itself ends the host before `until`. An instant in the past ends a hold."""

    until: datetime


@dataclass(frozen=True)
class NoHold:
    reason: str


def grant(
    instance: str, run: str, tags: Mapping[str, str] | None, asked: datetime | None, now: datetime
) -> Hold | NoHold:
    """Grant or refuse a hold until `asked`. A longer hold stays; `asked=None` ends every hold. Without `tags`, the
    instance is missing."""
    if tags is None:
        return NoHold(f"instance {instance} is not running")
    if tags.get(Tag.RUN) != run:
        return NoHold(f"{instance} belongs to {tags.get(Tag.RUN, 'no run')}, not to {run}")
    if asked is None:
        return Hold(now)
    if asked - now > LONGEST + CLOCKS:
        return NoHold(
            f"a host is held for at most 24 h at a time, and {serialization.timestamp(asked)} is further ahead"
        )
    return Hold(max(asked, hold_end(tags) or asked))


def hold_end(tags: Mapping[str, str]) -> datetime | None:
    """Return the end of the hold in the tags. Patrol reports an unreadable tag, which counts as no hold."""
    try:
        return serialization.parse_timestamp(tags[Tag.HOLD]) if Tag.HOLD in tags else None
    except ValueError:
        return None


def counts_until(
    held: datetime, *, launched: datetime, lease: datetime | None, cap: datetime | None, most: timedelta
) -> datetime:
    """Return the end of a hold: at most `most` after the host's last start or after its run's `lease`, whichever is
    later, or the `cap` that an operator set. `most=0` means no limit."""
    if not most:
        return held
    ends = max(launched, lease or launched) + most
    return min(held, max(ends, cap or ends))
