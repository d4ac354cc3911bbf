"""Run one case, directly or as a fork of its clean world, and collect its finding."""

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
"""The number of fault points that a world passes in the time of a fork (25 ms, mostly copying pages). Worlds that
share less with others run from their beginning."""


@dataclass
class Told:
    """A case that was run."""

    finding: Finding
    story: Story | None = None
    lines: list[Line] = field(default_factory=list)


@dataclass(frozen=True)
class Retold:
    """A case that was run twice."""

    finding: Finding
    lines: Sequence[Line]
    same: bool
    """True if both traces are equal byte for byte, as they must be."""


def differs(retold: Retold) -> Finding:
    """Return the finding with a violation: the second run of the world was different."""
    found = Violation(SIMULATOR, "the second run of the same case gave another trace", 0.0)
    return dataclasses.replace(retold.finding, violations=(*retold.finding.violations, found))


def tried(assembly: Path, case: Case, *, in_full: bool = False) -> Told:
    """Run the case. An exception becomes a violation in its finding. `in_full` adds the timeline."""
    began = time.process_time()
    told = _followed(assembly, case, Plan(case.faults), in_full=in_full)
    told.finding = dataclasses.replace(told.finding, cpu=time.process_time() - began)
    process.tidy()
    return told


def branched(assembly: Path, cases: Sequence[Case]) -> list[Finding]:
    """Run cases of one scenario and seed, most of them as forks of their clean world, which is cheaper."""
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
    """Run cases that have little or nothing in common."""
    for scenario in {case.scenario for case in cases}:
        _load(assembly, scenario)
    return _heard(in_turn(cases, lambda case: tried(assembly, case).finding))


def _heard(answers: Mapping[Case, Finding | int]) -> list[Finding]:
    return [_died(case, answer) if isinstance(answer, int) else answer for case, answer in answers.items()]


def _died(case: Case, code: int) -> Finding:
    said = f"its process ended with exit code {code} without a result"
    return Finding(case, violations=(Violation(SIMULATOR, said, 0.0),))


@functools.cache
def _load(assembly: Path, scenario: str) -> None:
    """Load what worlds of a scenario need, so that forks do not load it again."""
    tried(assembly, Case(scenario))


def _followed(assembly: Path, case: Case, plan: Plan, *, in_full: bool = False) -> Told:
    """Run the world of a plan. Its finding lists the faults that the plan has at the end."""
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
    except (Exception, TooLong) as error:  # noqa: BLE001 - every exception is a finding
        return Told(Finding(case.only(plan.faults), violations=(_crash(error),)))


def found(case: Case, story: Story) -> Finding:
    """Return the finding of a world that has ended."""
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
    """Count the attempts that followed a state Recover."""
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
    said = f"no end after {MOST_CPU_SECONDS:.0f} s of CPU" if isinstance(error, TooLong) else repr(error)
    return Violation(SIMULATOR, f"{said} (in {where})", 0.0)
