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
from simulation.cases.forks import AllAnswered, Forks, run_in_turn
from simulation.cases.process import MOST_CPU_SECONDS, TooLong
from simulation.cases.traces import digest
from simulation.faults import Plan
from simulation.scenarios import NAMED
from simulation.simulate import Result, simulate_plan
from simulation.timeline import Line
from simulation.world.world import BEGINNING, Entry

WORTH_A_FORK = 90
"""The number of fault points that a world passes in the time of a fork (25 ms, mostly copying pages). Worlds that
share less with others run from their beginning."""


@dataclass
class CaseRun:
    finding: Finding
    result: Result | None = None
    lines: list[Line] = field(default_factory=list)


@dataclass(frozen=True)
class Rerun:
    """A case that was run twice."""

    finding: Finding
    lines: Sequence[Line]
    same: bool
    """True if both traces are equal byte for byte, as they must be."""


def add_difference(rerun: Rerun) -> Finding:
    """Return the finding with a violation: the second run of the world was different."""
    found = Violation(SIMULATOR, "the second run of the same case gave another trace", 0.0)
    return dataclasses.replace(rerun.finding, violations=(*rerun.finding.violations, found))


def run_case(assembly: Path, case: Case, *, in_full: bool = False) -> CaseRun:
    """Run the case. An exception becomes a violation in its finding. `in_full` adds the timeline."""
    began = time.process_time()
    case_run = _run_plan(assembly, case, Plan(case.faults), in_full=in_full)
    case_run.finding = dataclasses.replace(case_run.finding, cpu=time.process_time() - began)
    process.clean_up()
    return case_run


def run_branches(assembly: Path, cases: Sequence[Case]) -> list[Finding]:
    """Run cases of one scenario and seed, most of them as forks of their clean world, which is cheaper."""
    _load(assembly, cases[0].scenario)
    forks = Forks[Finding](cases, WORTH_A_FORK)
    case_run: CaseRun | None = None
    try:
        case_run = _run_plan(assembly, cases[0].only(()), forks)
    except AllAnswered:
        pass
    finally:
        if forks.reply:
            forks.answer(dataclasses.replace(case_run.finding, cpu=time.process_time()) if case_run else None)
    process.clean_up()
    return [*_collect_findings(forks.answers), *run_unrelated(assembly, (*forks.early, *forks.pending))]


def run_unrelated(assembly: Path, cases: Sequence[Case]) -> list[Finding]:
    """Run cases that have little or nothing in common."""
    for scenario in {case.scenario for case in cases}:
        _load(assembly, scenario)
    return _collect_findings(run_in_turn(cases, lambda case: run_case(assembly, case).finding))


def _collect_findings(answers: Mapping[Case, Finding | int]) -> list[Finding]:
    return [
        _make_crash(case, answer) if isinstance(answer, int) else answer for case, answer in answers.items()
    ]


def _make_crash(case: Case, code: int) -> Finding:
    message = f"its process ended with exit code {code} without a result"
    return Finding(case, violations=(Violation(SIMULATOR, message, 0.0),))


@functools.cache
def _load(assembly: Path, scenario: str) -> None:
    """Load what worlds of a scenario need, so that forks do not load it again."""
    run_case(assembly, Case(scenario))


def _run_plan(assembly: Path, case: Case, plan: Plan, *, in_full: bool = False) -> CaseRun:
    """Run the world of a plan. Its finding lists the faults that the plan has at the end."""
    template = process.prepare(assembly)
    decided: list[timeline.Decision] = []
    try:
        with process.limit_cpu(NAMED[case.scenario].cpu_seconds or MOST_CPU_SECONDS):
            result = simulate_plan(
                template,
                NAMED[case.scenario],
                plan,
                seed=case.seed,
                at_end=lambda yard: decided.extend(timeline.decisions(yard) if in_full else ()),
            )
        finding = make_finding(case.only(plan.faults), result)
        return CaseRun(finding, result, timeline.build_lines(result.trace, decided) if in_full else [])
    except (Exception, TooLong) as error:  # noqa: BLE001 - every exception is a finding
        return CaseRun(Finding(case.only(plan.faults), violations=(_crash(error),)))


def make_finding(case: Case, result: Result) -> Finding:
    """Return the finding of a world that has ended."""
    broken = [
        Violation(str(each.invariant), each.what, (each.at - BEGINNING).total_seconds())
        for each in result.broken
    ]
    only = case.faults[0] if len(case.faults) == 1 else None
    detected = detection.measure_detection(only, result.trace) if only else None
    if detected and detected.late and case.scenario in detection.TRAINING:
        broken.append(Violation(detection.DETECTED_IN_TIME, detected.describe_delay, detected.requested))
    return Finding(
        case,
        injected=result.injected,
        violations=tuple(broken),
        outcome=result.outcome,
        recoveries=_recoveries(result.trace),
        seconds=result.virtual_seconds,
        detection=detected,
        digest=digest(result.trace),
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
    message = f"no end after {MOST_CPU_SECONDS:.0f} s of CPU" if isinstance(error, TooLong) else repr(error)
    return Violation(SIMULATOR, f"{message} (in {where})", 0.0)
