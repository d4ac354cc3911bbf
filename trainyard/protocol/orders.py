"""Orders to the hosts of a run: start an attempt, or leave it. The bucket contains the newest order (keys.order)."""

import json
from enum import StrEnum
from typing import Any

from trainyard.values import serialization
from trainyard.values.lazy import dataclass


class OrderKind(StrEnum):
    """The kinds of orders, in their order within an attempt."""

    START = "start"
    STOP = "stop"


@dataclass(frozen=True)
class Order:
    """An order to some hosts of a run."""

    kind: OrderKind
    run: str
    attempt: int
    hosts: tuple[str, ...] = ()
    """Instances that the order is for."""

    @property
    def sort_key(self) -> tuple[int, int]:
        """Return the sort key of an order: a later attempt is higher, and a stop is higher than its start."""
        return self.attempt, list(OrderKind).index(self.kind)


def encode(order: Order) -> dict[str, Any]:
    """Return the contents of order.json."""
    document: dict[str, Any] = serialization.to_json(order)
    return document


def decode(text: str | bytes) -> Order:
    """Return the order. Raise ValueError with each fault of the text."""
    document = json.loads(text)
    wrong = serialization.faults(Order, document)
    if wrong:
        raise ValueError("; ".join(wrong))
    return serialization.from_json(Order, document)
