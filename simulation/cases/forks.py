"""Run worlds of one scenario and seed as forks: the process forks at the fault point where a world differs."""

from __future__ import annotations

import contextlib
import os
import random
import traceback
from collections.abc import Callable, Iterable, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Generic, NoReturn, TypeVar, cast

from simulation.cases import process
from simulation.cases.case import CLEAN_SEED, Case
from simulation.faults import Fault, Kind, Plan, Visit
from simulation.scenario import Scenario
from simulation.simulate import Result, simulate_plan
from simulation.template import YardTemplate
from simulation.yard import Yard

Answer = TypeVar("Answer")


class AllAnswered(BaseException):
    """All cases have answered, so the rest of this world is not needed. `except Exception` does not catch it."""


class Forks(Plan, Generic[Answer]):
    """A plan without faults. At the first fault of a case it forks a child, which continues as the world of that
    case.

    The process waits for each child, so one world runs at a time. It does not fork before the world has passed
    `since` fault points.
    """

    def __init__(self, cases: Sequence[Case], since: int = 0) -> None:
        super().__init__()
        self.pending = list(cases)
        """Cases whose fault points the world has not reached."""
        self.early: list[Case] = []
        """Cases whose fault point came before the world had passed `since` fault points."""
        self._since, self._passed = since, 0
        self.answers: dict[Case, Answer | int] = {}
        """The answers of the children, or the exit code of a child without an answer."""
        self.reply: Connection | None = None
        """In a child, the pipe for its answer."""

    def at(self, kind: Kind, point: str, visit: Visit | None = None) -> list[Fault]:
        self._passed += 1
        here = [
            case
            for case in self.pending
            if any((each.kind, each.point) == (kind, point) for each in case.faults)
        ]
        for case in here:
            self.pending.remove(case)
            if self._passed <= self._since:
                self.early.append(case)
            elif self._fork(case):
                return super().at(kind, point, visit)
        if here and not self.pending:
            raise AllAnswered
        return super().at(kind, point, visit)

    def answer(self, answer: Answer | None) -> NoReturn:
        """Send the answer and end the child process."""
        try:
            if self.reply and answer is not None:
                self.reply.send(answer)
        finally:
            os._exit(0)

    def _fork(self, case: Case) -> bool:
        """Fork. Return True in the child."""
        reads, writes = Pipe(duplex=False)
        chance = random.getstate()
        child = os.fork()
        if child == 0:
            reads.close()
            random.setstate(chance)  # os.fork() makes Python reseed it
            process.start_timer()
            self.pending, self.reply = [], writes
            self.take(case.faults)
            return True
        writes.close()
        answer: Answer | None = None
        with contextlib.suppress(EOFError):
            answer = reads.recv()
        _, status = os.waitpid(child, 0)
        self.answers[case] = os.waitstatus_to_exitcode(status) if answer is None else answer
        return False


def run_in_turn(cases: Iterable[Case], run: Callable[[Case], Answer]) -> dict[Case, Answer | int]:
    """Return the result of each case, run in a child. If the child dies, record its exit code and continue with
    another."""
    pending = list(cases)
    answers: dict[Case, Answer | int] = {}
    while pending:
        reads, writes = Pipe(duplex=False)
        child = os.fork()
        if child == 0:
            try:
                for case in pending:
                    writes.send(run(case))
            finally:
                os._exit(0)
        writes.close()
        with contextlib.suppress(EOFError):
            while pending:
                answers[pending[0]] = reads.recv()
                pending.pop(0)
        _, status = os.waitpid(child, 0)
        if pending:
            answers[pending.pop(0)] = os.waitstatus_to_exitcode(status)
    return answers


def run_forks(
    template: YardTemplate,
    scenario: Scenario,
    faults: Iterable[Fault],
    look: Callable[[Result], Answer],
    *,
    at_end: Callable[[Yard], object] = lambda yard: None,
) -> dict[Fault, Answer]:
    """Return what `look` finds in the world of each single fault. Raises RuntimeError if a world has no result."""
    cases = {Case(scenario.name, (fault,)): fault for fault in faults}
    forks = Forks[Answer](list(cases))
    found: Answer | None = None
    try:
        found = look(simulate_plan(template, scenario, forks, seed=CLEAN_SEED, at_end=at_end))
    except AllAnswered:
        pass
    except Exception:
        if forks.reply:
            traceback.print_exc()
        else:
            raise
    finally:
        if forks.reply:
            forks.answer(found)
    missing = [str(case) for case in cases if isinstance(forks.answers.get(case), int | None)]
    if missing:
        raise RuntimeError(f"no result for {'; '.join(missing)}")
    return {fault: cast(Answer, forks.answers[case]) for case, fault in cases.items()}
