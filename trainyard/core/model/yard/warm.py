"""The tag of a host in the pool: until when it waits for a run, and which run has kept it."""

from collections.abc import Mapping
from datetime import datetime

from trainyard.protocol.tags import Tag
from trainyard.values import serialization


def tag_of(run: str, until: datetime) -> str:
    return f"{serialization.timestamp(until)} {run}"


def warm_until(tags: Mapping[str, str | None]) -> datetime | None:
    """Return until when a host of the warm pool waits for a run. Return None for a host that is not in the pool, that
    another run has taken, or whose tag cannot be read."""
    until, _, run = (tags.get(Tag.POOL) or "").partition(" ")
    if not run or run != tags.get(Tag.RUN):
        return None
    try:
        return serialization.parse_timestamp(until)
    except ValueError:
        return None
