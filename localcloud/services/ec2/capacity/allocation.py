"""Which pools give how many members of a fleet. Pure: what there is room for is asked of a function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, Protocol, TypeVar


@dataclass(frozen=True)
class Pool:
    """Where instances come from: one type, in one zone, on one market."""

    instance_type: str
    zone: str
    market: str

    def __str__(self) -> str:
        return f"{self.instance_type}/{self.zone}/{self.market}"


@dataclass(frozen=True)
class Refusal:
    """Why EC2 does not start (all of) what was asked, with its error code."""

    code: str
    message: str


@dataclass(frozen=True)
class Grant:
    """How many may start, and why not more."""

    count: int
    refusal: Refusal | None = None


@dataclass(frozen=True)
class Rules:
    """SpotOptions or OnDemandOptions; `least` is MinTargetCapacity."""

    strategy: str
    single_type: bool
    single_zone: bool
    least: int


class Choice(Protocol):
    """One override: the pool it launches in, and how much capacity each of its members is."""

    @property
    def pool(self) -> Pool:
        """Where it launches."""

    @property
    def weight(self) -> int:
        """WeightedCapacity."""


C = TypeVar("C", bound=Choice)


@dataclass(frozen=True)
class Batch(Generic[C]):
    """So many members from this override."""

    override: C
    count: int


@dataclass(frozen=True)
class Plan(Generic[C]):
    """What to launch, and which overrides were refused why."""

    batches: list[Batch[C]]
    refusals: list[tuple[C, Refusal]]


Room = Callable[[C, int], Grant]


def plan(overrides: Sequence[C], wanted: int, rules: Rules, room: Room[C]) -> Plan[C]:
    """Which overrides give how many members.

    `overrides` come in the order in which they are to be tried. The first group of overrides that may be combined
    (one type, one zone, as the rules say) and holds everything wins; else the one that holds most, if it reaches the
    least; else nothing is launched.
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
