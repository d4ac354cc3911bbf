"""The rows with the run of an instance, an image or a command: `pk = instance#<id>`, `image#<ami>` or
`command#<id>`, `sk = run`. The rows of runs that wait for another run: `pk = waiters#<run>`, `sk = <waiting run>`."""

from datetime import datetime

from trainyard.values.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The run that an instance, an image or a command belongs to."""

    run: str
    attempt: int = 1
    wait: str | None = None
    """The wait that the image or command answers."""
    before: str | None = None
    """The run that a host belonged to before it was claimed from the warm pool."""


WAITERS = "waiters#"


def waiters_of(run: str) -> str:
    """Return the partition key of the runs that wait for the end of this run."""
    return f"{WAITERS}{run}"


@dataclass(frozen=True, kw_only=True)
class WaiterRow:
    """A run that waits for the end of another run."""

    since: datetime
    """When it began to wait."""
