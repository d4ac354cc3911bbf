"""The tag of a host in the pool, `<until> <run>` (docs/contracts/tags.md). Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from trainyard.protocol.tags import Tag


@dataclass(frozen=True, slots=True)
class Warm:
    """Until when the host waits for a run, and which run has kept it."""

    until: datetime
    run: str


def warm_of(tags: Mapping[str, str | None]) -> Warm | None:
    """None for a host that no run has put into the pool, or that another has taken since."""
    until, _, run = (tags.get(Tag.POOL) or "").partition(" ")
    if not run or run != tags.get(Tag.RUN):
        return None
    try:
        return Warm(datetime.fromisoformat(until), run)
    except ValueError:
        return None
