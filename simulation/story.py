"""One world from its begin to its end, and what came of it."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from simulation.faults import Fault, Kind, Plan
from simulation.promises import Broken, Oracle
from simulation.scenarios import Scenario
from simulation.template import YardTemplate
from simulation.world.world import Entry, World
from simulation.yard import Yard

PASSES = timedelta(minutes=5)
"""Patrol's, after the end."""
STEP = timedelta(seconds=30)


@dataclass
class Story:
    """What a world came to."""

    seed: int
    scenario: Scenario
    faults: tuple[Fault, ...]
    struck: tuple[Fault, ...]
    broken: tuple[Broken, ...]
    trace: list[Entry]
    places: tuple[tuple[Kind, str], ...]
    outcome: str
    virtual_seconds: float
    cpu_seconds: float
    calls: dict[str, int] = field(default_factory=dict)


def tell(
    template: YardTemplate,
    scenario: Scenario,
    *,
    seed: int = 1,
    faults: Sequence[Fault] = (),
    at_end: Callable[[Yard], object] = lambda yard: None,
) -> Story:
    """Let one world happen. `at_end` may look at what is left of it."""
    began = time.process_time()
    world, plan = World(seed), Plan(tuple(faults))
    yard = Yard(world, template, plan)
    oracle = Oracle(yard, scenario, faults)
    beginning = world.now
    with contextlib.redirect_stdout(io.StringIO()):
        scenario.begin(yard)
        last = beginning + scenario.longest
        world.run(last, stop=lambda: scenario.over(yard))
        ended = world.now
        world.run(ended + PASSES)
        broken = oracle.conclude()
        at_end(yard)
    outcomes = [f"{each.label}: {each.status} {each.error or ''}".strip() for each in yard.runs()]
    return Story(
        seed=seed,
        scenario=scenario,
        faults=tuple(faults),
        struck=tuple(plan.struck),
        broken=tuple(broken),
        trace=world.trace,
        places=tuple(plan.places),
        outcome="; ".join(outcomes) or "nothing was started",
        virtual_seconds=(ended - beginning).total_seconds(),
        cpu_seconds=time.process_time() - began,
        calls=dict(yard.gateway.calls),
    )
