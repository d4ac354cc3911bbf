"""Choose the cases to run from the fault points of clean worlds."""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from simulation.cases.case import Case, Finding
from simulation.faults import Fault, FaultPoint, Kind, is_chosen_retry, singles
from simulation.scenarios import NAMED
from simulation.simulate import Result


@dataclass(frozen=True)
class Clean:
    """A scenario's world without faults."""

    finding: Finding
    faults: tuple[Fault, ...] = ()
    """The faults at its fault points."""
    equivalent: frozenset[FaultPoint] = frozenset()
    """The fault points that are equivalent to others."""


Spaces = Mapping[str, tuple[Fault, ...]]
"""Every single fault at every fault point of the clean world, by scenario."""


def list_faults(result: Result) -> tuple[Fault, ...]:
    return tuple(singles(result.points))


def select_kinds(spaces: Spaces, kinds: Iterable[Kind]) -> Spaces:
    """Return the faults of these kinds. Scenarios without any are left out."""
    wanted = set(kinds)
    left = {name: tuple(fault for fault in faults if fault.kind in wanted) for name, faults in spaces.items()}
    return {name: faults for name, faults in left.items() if faults}


def drop_shared(spaces: Spaces) -> Spaces:
    """Drop the faults that a similar scenario already has: those before `since` and from `until` on."""
    found = {}
    for name, faults in spaces.items():
        scenario = NAMED[name]
        own = itertools.dropwhile(partial(_is_before, scenario.since), faults)
        found[name] = tuple(
            itertools.takewhile(partial(_is_before, scenario.until), own) if scenario.until else own
        )
    return found


def _is_before(point: str, fault: Fault) -> bool:
    return not fault.point.startswith(point)


def drop_equivalent(spaces: Spaces, clean: Mapping[str, Clean]) -> Spaces:
    """Drop faults at equivalent fault points, and equivalent faults at one fault point."""
    return {
        name: tuple(
            each
            for each in faults
            if (each.kind, each.point) not in clean[name].equivalent and is_chosen_retry(each)
        )
        for name, faults in spaces.items()
    }


def list_singles(spaces: Spaces) -> list[Case]:
    return [Case(scenario, (fault,)) for scenario, faults in spaces.items() for fault in faults]


def sample(cases: Sequence[Case], count: int, seed: int) -> list[Case]:
    """Return a random sample in the original order. Another seed gives another sample."""
    if count >= len(cases):
        return list(cases)
    chance = random.Random(_number("sample", seed))
    return [cases[index] for index in sorted(chance.sample(range(len(cases)), count))]


def choose_case(spaces: Spaces, seed: int) -> Case:
    """Return a case with two or three faults, drawn by this seed.

    Scenarios are weighted by their number of faults. Within a scenario, each kind of fault is equally likely.
    """
    chance = random.Random(_number("choice", seed))
    indexes = {name: _index(faults) for name, faults in spaces.items()}
    weights = [sum(map(len, index.values())) for index in indexes.values()]
    scenario = chance.choices(list(indexes), weights)[0]
    points = indexes[scenario]
    faults: dict[str, Fault] = {}
    wanted = min(chance.choice((2, 2, 3)), sum(map(len, points.values())))
    while len(faults) < wanted:
        of_kind = points[chance.choice(list(points))]
        point = chance.choice(list(of_kind))
        fault = chance.choice(of_kind[point])
        faults.setdefault(f"{fault.kind} {point}", fault)
    return Case(scenario, tuple(faults.values()), seed)


_INDEXES: dict[int, tuple[tuple[Fault, ...], dict[Kind, dict[str, list[Fault]]]]] = {}


def _index(faults: tuple[Fault, ...]) -> dict[Kind, dict[str, list[Fault]]]:
    """Return the faults by kind and fault point; cached."""
    if id(faults) not in _INDEXES:
        index: dict[Kind, dict[str, list[Fault]]] = {}
        for fault in faults:
            index.setdefault(fault.kind, {}).setdefault(fault.point, []).append(fault)
        _INDEXES[id(faults)] = faults, index
    return _INDEXES[id(faults)][1]


def _number(of: str, seed: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{of}/{seed}".encode()).digest()[:8])


def list_subsets(case: Case) -> Iterator[Case]:
    """Yield the case with each proper subset of its faults, the smallest first."""
    count = len(case.faults)
    for bits in sorted(range(2**count - 1), key=lambda bits: (bits.bit_count(), bits)):
        yield case.only(fault for number, fault in enumerate(case.faults) if bits >> number & 1)
