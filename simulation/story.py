"""One world from its begin to its end, and what came of it."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from simulation.faults import Fault, Passed, Place, Plan
from simulation.injections import Injections
from simulation.invariants.model import Broken
from simulation.invariants.oracle import Oracle
from simulation.scenarios import Scenario
from simulation.template import YardTemplate
from simulation.world.world import Entry, World
from simulation.yard import Yard

PASSES = timedelta(minutes=5)
"""Patrol's, after the end, where a host still lives then."""
LONGEST_AFTER = timedelta(minutes=75)
"""For what comes much too late, after the run's end."""
STEP = timedelta(seconds=15)


@dataclass
class Story:
    """What a world came to."""

    seed: int
    scenario: Scenario
    faults: tuple[Fault, ...]
    struck: tuple[Fault, ...]
    broken: tuple[Broken, ...]
    trace: list[Entry]
    places: Mapping[Place, Passed | None]
    outcome: str
    virtual_seconds: float
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
    return follow(template, scenario, Plan(tuple(faults)), seed=seed, at_end=at_end)


def follow(
    template: YardTemplate,
    scenario: Scenario,
    plan: Plan,
    *,
    seed: int,
    at_end: Callable[[Yard], object] = lambda yard: None,
) -> Story:
    """The same, by a plan, of which the faults may only come about on the way."""
    world = World(seed)
    yard = Yard(world, template, plan)
    Injections(yard).listen()
    oracle = Oracle(yard, scenario)
    beginning = world.now
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        scenario.begin(yard)
        ended = _run_to_end(yard, scenario)
        broken = oracle.conclude()
        at_end(yard)
    outcomes = [f"{each.label}: {each.status} {each.error or ''}".strip() for each in yard.runs()]
    return Story(
        seed=seed,
        scenario=scenario,
        faults=tuple(plan.faults),
        struck=tuple(plan.struck),
        broken=tuple(broken),
        trace=world.trace,
        places=dict(plan.places),
        outcome="; ".join(outcomes) or "nothing was started",
        virtual_seconds=(ended - beginning).total_seconds(),
        calls=dict(yard.gateway.calls),
    )


def _run_to_end(yard: Yard, scenario: Scenario) -> datetime:
    """When the last run was over, or ought to have been; a run that a fault begins at another's end has its own time.

    The world is quiet then."""
    world = yard.world
    while True:
        last = world.now + scenario.longest
        world.run(last, stop=lambda: scenario.over(yard))
        ended = world.now
        while not _is_quiet(yard, ended):
            world.run(world.now + STEP)
        if scenario.over(yard) or ended >= last:
            return ended


def _is_quiet(yard: Yard, ended: datetime) -> bool:
    """Nothing lives any more, or patrol has had its time; and nothing is to come but what comes for ever."""
    since = yard.world.now - ended
    if since >= LONGEST_AFTER:
        return True
    lives = any(each.state != "terminated" for each in yard.ec2.ever.values())
    return since >= (PASSES if lives else STEP) and not yard.is_awaited()
