"""A hold that a host asks for: a person or a notebook on it wants it left alone for a while, also after its run."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from trainyard.protocol.tags import Tag
from trainyard.values import serialization
from trainyard.values.lazy import dataclass

LONGEST = timedelta(hours=24)
CLOCKS = timedelta(minutes=5)
"""How far a host's clock may be ahead, and how old its signal."""


@dataclass(frozen=True)
class Hold:
    """Patrol and the host itself leave it alone `until` then; an instant that is not ahead ends a hold."""

    until: datetime


@dataclass(frozen=True)
class NoHold:
    reason: str


def grant(
    instance: str, run: str, tags: Mapping[str, str] | None, asked: datetime | None, now: datetime
) -> Hold | NoHold:
    """`tags` are the living instance's, None where there is none. A longer hold that it has stays; asked for
    None, which ends any, it does not."""
    if tags is None:
        return NoHold(f"no instance {instance} lives")
    if tags.get(Tag.RUN) != run:
        return NoHold(f"{instance} is no host of {run} but of {tags.get(Tag.RUN, 'nobody')}")
    if asked is None:
        return Hold(now)
    if asked - now > LONGEST + CLOCKS:
        return NoHold(
            f"a host is held for at most 24 h at a time, and {serialization.timestamp(asked)} is further ahead"
        )
    return Hold(max(asked, held(tags) or asked))


def held(tags: Mapping[str, str]) -> datetime | None:
    """Until when the tags say. One that cannot be read counts for nothing; patrol tells of it."""
    try:
        return serialization.parse_timestamp(tags[Tag.HOLD]) if Tag.HOLD in tags else None
    except ValueError:
        return None


def counts_until(
    held: datetime, *, launched: datetime, lease: datetime | None, cap: datetime | None, most: timedelta
) -> datetime:
    """Return until when a hold counts: `most` after the host's last start at the latest, after the `lease` of its run
    when that ends later, or until the `cap` that an operator has set. No `most` is no limit."""
    if not most:
        return held
    ends = max(launched, lease or launched) + most
    return min(held, max(ends, cap or ends))
