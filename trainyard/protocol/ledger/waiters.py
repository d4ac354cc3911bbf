"""The rows of runs that wait for another run: `pk = waiters#<run>`, `sk = <waiting run>`."""

from datetime import datetime

from trainyard.values.lazy import dataclass

PREFIX = "waiters#"


def waiters_of(run: str) -> str:
    """Return the partition key of the runs that wait for the end of this run."""
    return f"{PREFIX}{run}"


@dataclass(frozen=True, kw_only=True)
class WaiterRow:
    """A run that waits for the end of another run."""

    since: datetime
    """When it began to wait."""
