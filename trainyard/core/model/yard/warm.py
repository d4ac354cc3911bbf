"""The tag of a host in the warm pool: the time until which it waits, and the run that kept it."""

from collections.abc import Mapping
from datetime import datetime

from trainyard.protocol.tags import Tag
from trainyard.values import serialization


def tag_of(run: str, until: datetime) -> str:
    return f"{serialization.timestamp(until)} {run}"


def warm_until(tags: Mapping[str, str | None]) -> datetime | None:
    """Return until when a host of the warm pool waits for a run. Return None for any other host, for a host that
    another run has claimed, and for a tag that cannot be read."""
    until, _, run = (tags.get(Tag.POOL) or "").partition(" ")
    if not run or run != tags.get(Tag.RUN):
        return None
    try:
        return serialization.parse_timestamp(until)
    except ValueError:
        return None
