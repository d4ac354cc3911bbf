"""One world, told alone or as a fork of its clean one, and what was found in it."""

from __future__ import annotations

import dataclasses
import functools
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from simulation import detection, timeline
from simulation.cases import process
from simulation.cases.case import SIMULATOR, Case, Finding, Violation
from simulation.cases.forks import AllTold, Forks, in_turn
from simulation.cases.process import MOST_CPU_SECONDS, TooLong
from simulation.cases.traces import digest
from simulation.faults import Plan
from simulation.scenarios import SCENARIOS
from simulation.story import Story, follow
from simulation.timeline import Line
from simulation.world.world import BEGINNING, Entry

WORTH_A_FORK = 90
"""So many places a world has passed when it has taken as long as a fork takes (25 ms): copies of the pages that both
write to, above all. What has less in common with others is told from its beginning."""


@dataclass
class Told:
    """A world's finding, and all that one may want to know beside it."""

    finding: Finding
    story: Story | None = None
    lines: list[Line] = field(default_factory=list)


@dataclass(frozen=True)
class Retold:
    """A world that has happened twice. `same`: as it must be, byte for byte."""

    finding: Finding
    lines: Sequence[Line]
    same: bool


def differs(retold: Retold) -> Finding:
    """What is wrong with a world that was another the second time."""
    found = Violation(SIMULATOR, "a world was another one when it was told again", 0.0)
    return dataclasses.replace(retold.finding, violations=(*retold.finding.violations, found))


def tried(assembly: Path, case: Case, *, in_full: bool = False) -> Told:
    """Let the world of this case happen. What it dies of is its finding too. `in_full`: with its timeline."""
    began = time.process_time()
    told = _followed(assembly, case, Plan(case.faults), in_full=in_full)
    told.finding = dataclasses.replace(told.finding, cpu=time.process_time() - began)
    process.tidy()
    return told


def branched(assembly: Path, cases: Sequence[Case]) -> list[Finding]:
    """Of worlds of one scenario and seed, most of them forks of their clean world: what `tried` finds, for less."""
    _load(assembly, cases[0].scenario)
    forks = Forks[Finding](cases, WORTH_A_FORK)
    told: Told | None = None
    try:
        told = _followed(assembly, cases[0].only(()), forks)
    except AllTold:
        pass
    finally:
        if forks.asked:
            forks.answer(dataclasses.replace(told.finding, cpu=time.process_time()) if told else None)
    process.tidy()
    return [*_heard(forks.answers), *tried_in_turn(assembly, (*forks.early, *forks.left))]


def tried_in_turn(assembly: Path, cases: Sequence[Case]) -> list[Finding]:
    """Of worlds that have little or nothing in common."""
    for scenario in {case.scenario for case in cases}:
        _load(assembly, scenario)
    return _heard(in_turn(cases, lambda case: tried(assembly, case).finding))


def _heard(answers: Mapping[Case, Finding | int]) -> list[Finding]:
    return [_died(case, answer) if isinstance(answer, int) else answer for case, answer in answers.items()]


def _died(case: Case, code: int) -> Finding:
    said = f"its process ended with {code} and said nothing"
    return Finding(case, violations=(Violation(SIMULATOR, said, 0.0),))


@functools.cache
def _load(assembly: Path, scenario: str) -> None:
    """What its worlds need: each fork would load it for itself."""
    tried(assembly, Case(scenario))


def _followed(assembly: Path, case: Case, plan: Plan, *, in_full: bool = False) -> Told:
    """The world of this plan; its finding is of the faults that the plan has then."""
    template = process.prepared(assembly)
    decided: list[timeline.Decision] = []
    try:
        with process.limited():
            story = follow(
                template,
                SCENARIOS[case.scenario],
                plan,
                seed=case.seed,
                at_end=lambda yard: decided.extend(timeline.decisions(yard) if in_full else ()),
            )
        finding = found(case.only(plan.faults), story)
        return Told(finding, story, timeline.told(story.trace, decided) if in_full else [])
    except (Exception, TooLong) as error:  # noqa: BLE001 - whatever it is, it is the finding
        return Told(Finding(case.only(plan.faults), violations=(_crash(error),)))


def found(case: Case, story: Story) -> Finding:
    """The finding of a world that has come to its end."""
    broken = [
        Violation(str(each.invariant), each.what, (each.at - BEGINNING).total_seconds())
        for each in story.broken
    ]
    only = case.faults[0] if len(case.faults) == 1 else None
    seen = detection.detected(only, story.trace) if only else None
    if seen and seen.late and case.scenario in detection.TRAINING:
        broken.append(Violation(detection.IN_TIME, seen.how_late, seen.asked))
    return Finding(
        case,
        met=story.struck,
        violations=tuple(broken),
        outcome=story.outcome,
        recoveries=_recoveries(story.trace),
        seconds=story.virtual_seconds,
        detection=seen,
        digest=digest(story.trace),
    )


def _recoveries(trace: Iterable[Entry]) -> int:
    """How often a run went on after its state Recover."""
    recovering: set[str] = set()
    count = 0
    for entry in trace:
        if entry.what == "enters Recover":
            recovering.add(entry.who)
        elif entry.what == "enters Pause" and entry.who in recovering:
            recovering.remove(entry.who)
            count += 1
    return count


def _crash(error: BaseException) -> Violation:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/site-packages/" not in frame.filename] or frames
    where = f"{Path(ours[-1].filename).name}, {ours[-1].name}" if ours else "nowhere"
    said = f"{MOST_CPU_SECONDS:.0f} s of CPU and no end" if isinstance(error, TooLong) else repr(error)
    return Violation(SIMULATOR, f"{said} (in {where})", 0.0)
