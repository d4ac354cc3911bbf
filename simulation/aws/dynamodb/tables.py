"""Tables in memory: rows by key, and their recent versions."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from simulation.aws.dynamodb import expressions as expressions
from simulation.aws.dynamodb.values import Item, size_of

Key = tuple[str, str]
"""pk and sk."""
OLD_BY_AT_MOST = timedelta(seconds=1)
"""The maximum age of the result of an eventually consistent read."""


@dataclass
class Partition:
    """All rows of one pk, in the order of their sk."""

    sks: list[str] = field(default_factory=list)
    items: dict[str, Item] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def put(self, sk: str, item: Item, size: int) -> None:
        if sk not in self.items:
            insort(self.sks, sk)
        self.items[sk], self.sizes[sk] = item, size

    def delete(self, sk: str) -> None:
        if self.items.pop(sk, None) is not None:
            del self.sizes[sk]
            del self.sks[bisect_left(self.sks, sk)]


@dataclass
class Table:
    name: str
    partitions: dict[str, Partition] = field(default_factory=dict)
    history: deque[tuple[datetime, Key, Item | None]] = field(default_factory=deque)
    """The earlier versions of recently changed rows."""

    def item(self, key: Key) -> Item | None:
        partition = self.partitions.get(key[0])
        return partition.items.get(key[1]) if partition else None

    def size(self, key: Key, item: Item | None) -> int:
        """Return the size of a current or recent item in bytes."""
        partition = self.partitions.get(key[0])
        if partition and item is partition.items.get(key[1]):
            return partition.sizes.get(key[1], 0)
        return size_of(item or {})

    def set(self, key: Key, item: Item | None, size: int, now: datetime) -> None:
        while self.history and self.history[0][0] < now - OLD_BY_AT_MOST:
            self.history.popleft()
        self.history.append((now, key, self.item(key)))
        partition = self.partitions.setdefault(key[0], Partition())
        if item is not None:
            partition.put(key[1], item, size)
        else:
            partition.delete(key[1])

    def was(self, pk: str, when: datetime) -> dict[str, Item | None]:
        """Return the earlier versions of the partition's rows that have changed since that time."""
        found: dict[str, Item | None] = {}
        for at, (changed, sk), item in self.history:
            if at > when and changed == pk:
                found.setdefault(sk, item)
        return found
