"""Which worlds are tried: faults at the places that clean worlds pass."""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from simulation.cases.case import Case, Finding
from simulation.faults import Fault, Kind, Place, has_its_turn, singles
from simulation.scenarios import SCENARIOS
from simulation.story import Story


@dataclass(frozen=True)
class Clean:
    """A scenario's world without faults: the faults that its places allow, and which of these are like others."""

    finding: Finding
    faults: tuple[Fault, ...] = ()
    like_others: frozenset[Place] = frozenset()


Spaces = Mapping[str, tuple[Fault, ...]]
"""By scenario: every single fault at every place that its clean world passes."""


def space_of(story: Story) -> tuple[Fault, ...]:
    return tuple(singles(story.places))


def of_kinds(spaces: Spaces, kinds: Iterable[Kind]) -> Spaces:
    """What is left of them; a scenario without any such fault is left out."""
    wanted = set(kinds)
    left = {name: tuple(fault for fault in faults if fault.kind in wanted) for name, faults in spaces.items()}
    return {name: faults for name, faults in left.items() if faults}


def its_own(spaces: Spaces) -> Spaces:
    """Of a scenario that begins, or ends, like another one the faults from the first place of its own up to the last,
    whatever their kind."""
    found = {}
    for name, faults in spaces.items():
        scenario = SCENARIOS[name]
        own = itertools.dropwhile(partial(_is_before, scenario.since), faults)
        found[name] = tuple(
            itertools.takewhile(partial(_is_before, scenario.until), own) if scenario.until else own
        )
    return found


def _is_before(place: str, fault: Fault) -> bool:
    return not fault.place.startswith(place)


def one_of_each(spaces: Spaces, clean: Mapping[str, Clean]) -> Spaces:
    """Without the faults at places that are like others, and those that are like others at their place."""
    return {
        name: tuple(
            each
            for each in faults
            if (each.kind, each.place) not in clean[name].like_others and has_its_turn(each)
        )
        for name, faults in spaces.items()
    }


def each_single(spaces: Spaces) -> list[Case]:
    return [Case(scenario, (fault,)) for scenario, faults in spaces.items() for fault in faults]


def sample(cases: Sequence[Case], count: int, seed: int) -> list[Case]:
    """So many of them, others for another seed, in their order."""
    if count >= len(cases):
        return list(cases)
    chance = random.Random(_number("sample", seed))
    return [cases[index] for index in sorted(chance.sample(range(len(cases)), count))]


def chosen(spaces: Spaces, seed: int) -> Case:
    """Two or three faults at places of one scenario, and the seed of their world, all by this seed.

    Scenarios have the weight of their places; in one, each kind of fault is as likely as any other.
    """
    chance = random.Random(_number("choice", seed))
    indexes = {name: _index(faults) for name, faults in spaces.items()}
    weights = [sum(map(len, index.values())) for index in indexes.values()]
    scenario = chance.choices(list(indexes), weights)[0]
    places = indexes[scenario]
    faults: dict[str, Fault] = {}
    wanted = min(chance.choice((2, 2, 3)), sum(map(len, places.values())))
    while len(faults) < wanted:
        of_kind = places[chance.choice(list(places))]
        place = chance.choice(list(of_kind))
        fault = chance.choice(of_kind[place])
        faults.setdefault(f"{fault.kind} {place}", fault)
    return Case(scenario, tuple(faults.values()), seed)


_INDEXES: dict[int, tuple[tuple[Fault, ...], dict[Kind, dict[str, list[Fault]]]]] = {}


def _index(faults: tuple[Fault, ...]) -> dict[Kind, dict[str, list[Fault]]]:
    """By kind and place. Made once."""
    if id(faults) not in _INDEXES:
        index: dict[Kind, dict[str, list[Fault]]] = {}
        for fault in faults:
            index.setdefault(fault.kind, {}).setdefault(fault.place, []).append(fault)
        _INDEXES[id(faults)] = faults, index
    return _INDEXES[id(faults)][1]


def _number(of: str, seed: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{of}/{seed}".encode()).digest()[:8])


def smaller(case: Case) -> Iterator[Case]:
    """The same world with fewer of its faults, the fewest first."""
    count = len(case.faults)
    for bits in sorted(range(2**count - 1), key=lambda bits: (bits.bit_count(), bits)):
        yield case.only(fault for number, fault in enumerate(case.faults) if bits >> number & 1)
