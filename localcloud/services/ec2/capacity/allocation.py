"""Allocation of fleet members to capacity pools. Pure: a function parameter supplies the available capacity."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, Protocol, TypeVar


@dataclass(frozen=True)
class Pool:
    """A capacity pool: an instance type in a zone on a market."""

    instance_type: str
    zone: str
    market: str

    def __str__(self) -> str:
        return f"{self.instance_type}/{self.zone}/{self.market}"


@dataclass(frozen=True)
class Refusal:
    """EC2's reason not to start all requested instances, with its error code."""

    code: str
    message: str


@dataclass(frozen=True)
class Grant:
    """Number of instances that may start, and the reason for the limit."""

    count: int
    refusal: Refusal | None = None


@dataclass(frozen=True)
class Rules:
    """Rules of SpotOptions or OnDemandOptions; `least` is MinTargetCapacity."""

    strategy: str
    single_type: bool
    single_zone: bool
    least: int


class Choice(Protocol):
    """An override: its capacity pool, and the capacity of each member."""

    @property
    def pool(self) -> Pool: ...

    @property
    def weight(self) -> int: ...


C = TypeVar("C", bound=Choice)


@dataclass(frozen=True)
class Batch(Generic[C]):
    """A number of members from one override."""

    override: C
    count: int


@dataclass(frozen=True)
class Plan(Generic[C]):
    """Members to launch, and the refusals by override."""

    batches: list[Batch[C]]
    refusals: list[tuple[C, Refusal]]


Room = Callable[[C, int], Grant]


def plan(overrides: Sequence[C], wanted: int, rules: Rules, room: Room[C]) -> Plan[C]:
    """Return the number of members of each override.

    `overrides` are in the order of preference. The first group that may be combined (one type or one zone, by the
    rules) and provides everything wins. Otherwise the group with the most capacity wins if it reaches the minimum.
    Otherwise nothing is launched.
    """
    if wanted < 1:
        return Plan([], [])
    refusals: list[tuple[C, Refusal]] = []
    best: list[Batch[C]] = []
    for group in _groups(overrides, rules):
        batches, refused = _fill(group, wanted, room)
        refusals += refused
        if _units(batches) > _units(best):
            best = batches
        if _units(best) >= wanted:
            break
    return Plan(best if _units(best) >= max(rules.least, 1) else [], refusals)


def _groups(overrides: Sequence[C], rules: Rules) -> list[list[C]]:
    def kind(override: C) -> tuple[str, str]:
        pool = override.pool
        return (pool.instance_type if rules.single_type else "", pool.zone if rules.single_zone else "")

    first_seen = list(dict.fromkeys(kind(override) for override in overrides))
    ranked = sorted(overrides, key=lambda override: first_seen.index(kind(override)))
    return [list(group) for _, group in groupby(ranked, kind)]


def _fill(group: list[C], wanted: int, room: Room[C]) -> tuple[list[Batch[C]], list[tuple[C, Refusal]]]:
    batches: list[Batch[C]] = []
    refused: list[tuple[C, Refusal]] = []
    for override in group:
        left = wanted - _units(batches)
        if left <= 0:
            break
        grant = room(override, math.ceil(left / override.weight))
        if grant.refusal is not None:
            refused.append((override, grant.refusal))
        if grant.count:
            batches.append(Batch(override, grant.count))
    return batches, refused


def _units(batches: list[Batch[C]]) -> int:
    return sum(batch.count * batch.override.weight for batch in batches)
