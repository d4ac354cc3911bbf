"""The money that a yard has promised: the most that admitted runs and hosts may still cost, by user."""

from collections.abc import Collection, Iterable
from datetime import datetime

from trainyard.values.lazy import dataclass
from trainyard.values.quantities import dollars as in_dollars

MOST_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class Promise:
    """The most that a run or a host may still cost. `by` is the user, as verified by IAM."""

    run: str
    by: str
    dollars: float


def remaining(most: float, per_hour: float | None, until: datetime | None, now: datetime) -> float:
    """Return the rest of a promise of `most` dollars. Once the hosts are known, they cost `per_hour` until `until`."""
    if per_hour is None or until is None:
        return most
    return min(most, per_hour * max(0.0, (until - now).total_seconds() / 3600))


def total(promises: Iterable[Promise]) -> float:
    return sum(each.dollars for each in promises)


def describe_promises(promises: Collection[Promise]) -> str:
    """Return the sum and the largest promises: `$25.00 to ada ($20.00, digits-1) and bob ($5.00, dev-mine-2)`."""
    if not promises:
        return in_dollars(0.0)
    largest = sorted(promises, key=lambda each: (-each.dollars, each.run))
    named = [f"{each.by} ({in_dollars(each.dollars)}, {each.run})" for each in largest[:MOST_NAMED]]
    if more := largest[MOST_NAMED:]:
        named.append(f"{len(more)} more ({in_dollars(total(more))})")
    *first, last = named
    return f"{in_dollars(total(promises))} to {' and '.join([', '.join(first), last] if first else [last])}"
