"""Choose the versions that leave the memory of a process."""

from collections.abc import Mapping

from lambdas.core.prediction.choice import MOST_BYTES
from trainyard.values.lazy import dataclass

Key = tuple[str, int]
"""A model and the number of a version."""


@dataclass(frozen=True)
class Kept:
    size: int
    """Bytes."""
    used: float
    """When it was used last, in seconds."""


def choose_evicted(kept: Mapping[Key, Kept], size: int) -> list[Key]:
    """Return the least recently used versions that must leave before one of `size` bytes fits."""
    evicted = []
    total = sum(each.size for each in kept.values()) + size
    for key, each in sorted(kept.items(), key=lambda item: item[1].used):
        if total <= MOST_BYTES:
            break
        evicted.append(key)
        total -= each.size
    return evicted
