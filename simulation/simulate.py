"""Simulate one world from its beginning to its end."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from simulation.faults import Fault, FaultPoint, Plan, Visit
from simulation.injections import Injections
from simulation.invariants.model import Broken
from simulation.invariants.oracle import Oracle
from simulation.scenario import Scenario
from simulation.template import YardTemplate
from simulation.world.world import Entry, World
from simulation.yard import Yard

PASSES = timedelta(minutes=5)
"""The time that patrol has after the end to terminate the last host."""
LONGEST_AFTER = timedelta(minutes=75)
"""The longest wait after the end for events that arrive late."""
STEP = timedelta(seconds=15)


@dataclass
class Result:
    """The result of one world."""

    seed: int
    scenario: Scenario
    faults: tuple[Fault, ...]
    injected: tuple[Fault, ...]
    broken: tuple[Broken, ...]
    trace: list[Entry]
    points: Mapping[FaultPoint, Visit | None]
    outcome: str
    virtual_seconds: float
    calls: dict[str, int] = field(default_factory=dict)


def simulate(
    template: YardTemplate,
    scenario: Scenario,
    *,
    seed: int = 1,
    faults: Sequence[Fault] = (),
    at_end: Callable[[Yard], object] = lambda yard: None,
) -> Result:
    """Simulate one world. `at_end` may inspect the yard at its end."""
    return simulate_plan(template, scenario, Plan(tuple(faults)), seed=seed, at_end=at_end)


def simulate_plan(
    template: YardTemplate,
    scenario: Scenario,
    plan: Plan,
    *,
    seed: int,
    at_end: Callable[[Yard], object] = lambda yard: None,
) -> Result:
    """Simulate one world with a plan whose faults may change on the way."""
    world = World(seed, beginning=scenario.beginning)
    for name, value in scenario.settings.items():
        template = template.with_limits(**{name: value})
    yard = Yard(world, template, plan)
    Injections(yard).install()
    oracle = Oracle(yard, scenario)
    beginning = world.now
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        scenario.begin(yard)
        ended = _run_to_end(yard, scenario)
        broken = oracle.conclude()
        at_end(yard)
    outcomes = [f"{each.label}: {each.status} {each.error or ''}".strip() for each in yard.runs()]
    return Result(
        seed=seed,
        scenario=scenario,
        faults=tuple(plan.faults),
        injected=tuple(plan.injected),
        broken=tuple(broken),
        trace=world.trace,
        points=dict(plan.points),
        outcome="; ".join(outcomes) or "nothing was started",
        virtual_seconds=(ended - beginning).total_seconds(),
        calls=dict(yard.gateway.calls),
    )


def _run_to_end(yard: Yard, scenario: Scenario) -> datetime:
    """Run until the last run has ended, or should have, and the yard is quiet. Return when it ended.

    A run that a fault starts at the end of another run gets the full time of the scenario again.
    """
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
    """Return True once no host lives, or patrol has had its time, and only schedules are still planned."""
    since = yard.world.now - ended
    if since >= LONGEST_AFTER:
        return True
    lives = any(each.state != "terminated" for each in yard.ec2.ever.values())
    return since >= (PASSES if lives else STEP) and not yard.is_pending()
