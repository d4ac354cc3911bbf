"""Run cases on all cores, with the same findings on any machine."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

from simulation.cases.case import CLEAN_SEED, Case, Finding, parse
from simulation.cases.findings import Rerun, run_branches, run_case, run_unrelated
from simulation.cases.selection import Clean, list_faults
from simulation.faults import EventFault, Kind, find_equivalent

MOST_BRANCHES = 64
"""The most branches of one world. More branches cost less, but report their first findings later."""
MOST_IN_TURN = 16
"""The most unrelated worlds of one task of a worker. More worlds report their first findings later."""
RECOVERS = {
    "train": "train: host host-1 after progress #2: dies",
    "servers": "servers: host host-2 after progress #2: dies",
}
"""For each training workflow, a world that needs a second attempt."""
Work = TypeVar("Work")
Answer = TypeVar("Answer")


def digest_of_all(findings: Iterable[Finding]) -> str:
    """Return one digest for all worlds, independent of their order."""
    lines = sorted(f"{finding.case} {finding.digest}" for finding in findings)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


class WorkerDiedError(Exception):
    """A worker process was killed. The message names the worlds that it may have been running."""


@dataclass(frozen=True)
class Branches:
    """Worlds that one worker runs: all of one scenario and seed, or unrelated ones."""

    cases: Sequence[Case]

    def __str__(self) -> str:
        return "; ".join(map(str, self.cases))


def _branches(cases: Iterable[Case]) -> Iterator[Branches]:
    by_world: dict[Case, list[Case]] = {}
    for case in cases:
        by_world.setdefault(case.only(()), []).append(case)
    single = [cases_of_world[0] for cases_of_world in by_world.values() if len(cases_of_world) == 1]
    for cases_of_world in by_world.values():
        if len(cases_of_world) > 1:
            yield from map(Branches, _parts(cases_of_world, MOST_BRANCHES))
    for part in _parts(single, MOST_IN_TURN):
        yield Branches(part)


def _parts(cases: Sequence[Case], most: int) -> Iterator[Sequence[Case]]:
    return (cases[start : start + most] for start in range(0, len(cases), most))


class Cores:
    """Worker processes that run cases; used as a context manager."""

    def __init__(self, assembly: Path, jobs: int | None = None) -> None:
        self.jobs = jobs or len(os.sched_getaffinity(0))
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["simulation.cases.campaign"])
        self._pool = ProcessPoolExecutor(
            self.jobs, mp_context=context, initializer=_initialize, initargs=(assembly,)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def clean(self, scenarios: Iterable[str]) -> dict[str, Clean]:
        """Run the clean world of each scenario."""
        names = list(scenarios)
        return dict(zip(names, self._all(_clean, names), strict=True))

    def late_signals(self, scenarios: Iterable[str]) -> list[Case]:
        """Return worlds where a signal of an ended attempt arrives during the next attempt. They need two
        faults."""
        recovered = [RECOVERS[name] for name in scenarios if name in RECOVERS]
        return [case for cases in self._all(_late_signals, recovered) for case in cases]

    def findings(self, cases: Sequence[Case], report: Callable[[Sequence[Finding]], None]) -> list[Finding]:
        """Run the cases. Return the findings in their order, and pass each to `heard` as soon as it exists."""
        parts = self._all(_find, list(_branches(cases)), report)
        by_case = {finding.case: finding for part in parts for finding in part}
        return [by_case[case] for case in cases]

    def rerun(self, findings: Sequence[Finding]) -> list[Rerun]:
        """Run the worlds of these findings again, with their timelines."""
        return self._all(_rerun, findings)

    def _all(
        self,
        function: Callable[[Work], Answer],
        works: Sequence[Work],
        report: Callable[[Answer], None] = lambda _: None,
    ) -> list[Answer]:
        futures = {self._pool.submit(function, work): number for number, work in enumerate(works)}
        answers: dict[int, Answer] = {}
        try:
            for future in as_completed(futures):
                answers[futures[future]] = future.result()
                report(answers[futures[future]])
        except BrokenProcessPool as error:
            missing = [str(work) for number, work in enumerate(works) if number not in answers]
            raise WorkerDiedError(
                f"a worker was killed; among the worlds under way: {'; '.join(missing[: self.jobs + 1])}"
            ) from error
        return [answers[number] for number in sorted(answers)]


_ASSEMBLY: list[Path] = []


def _initialize(assembly: Path) -> None:
    """Initialize a worker. It ignores Ctrl-C, since only the process with the terminal handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _ASSEMBLY[:] = [assembly]


def _find(branches: Branches) -> list[Finding]:
    worlds = {case.only(()) for case in branches.cases}
    run = run_branches if len(worlds) == 1 else run_unrelated
    return run(_ASSEMBLY[0], branches.cases)


def _clean(scenario: str) -> Clean:
    case_run = run_case(_ASSEMBLY[0], Case(scenario, seed=CLEAN_SEED))
    if case_run.result is None:
        return Clean(case_run.finding)
    return Clean(case_run.finding, list_faults(case_run.result), find_equivalent(case_run.result.points))


def _late_signals(recovers: str) -> list[Case]:
    first = parse(recovers)
    case_run = run_case(_ASSEMBLY[0], first)
    points = list_faults(case_run.result) if case_run.result else ()
    return [
        Case(first.scenario, (*first.faults, fault))
        for fault in points
        if fault.kind is Kind.EVENT and fault.what == EventFault.VERY_LATE and "HostSignal" in fault.point
    ]


def _rerun(finding: Finding) -> Rerun:
    case_run = run_case(_ASSEMBLY[0], finding.case, in_full=True)
    return Rerun(finding, case_run.lines, case_run.finding.digest == finding.digest)
