"""Worlds of one scenario and seed are one world until the first of their faults strikes: there its process forks, and
the child tells what came of its own."""

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
from simulation.faults import Fault, Kind, Passed, Plan
from simulation.scenarios import Scenario
from simulation.story import Story, follow
from simulation.template import YardTemplate
from simulation.yard import Yard

Answer = TypeVar("Answer")


class AllTold(BaseException):
    """Nobody needs the rest of this world. No `except Exception` on the way holds it."""


class Forks(Plan, Generic[Answer]):
    """Nothing goes wrong here; where it would in the world of a case, a child goes on as that world.

    The process waits for each child: of its worlds one runs at a time. For faults that strike before the world has
    passed `since` places nothing forks.
    """

    def __init__(self, cases: Sequence[Case], since: int = 0) -> None:
        super().__init__()
        self.left = list(cases)
        """This world has not come to any of their faults yet."""
        self.early: list[Case] = []
        """It has come to theirs before it had passed so many places."""
        self._since, self._passed = since, 0
        self.answers: dict[Case, Answer | int] = {}
        """Of the children; the exit code of one that said nothing."""
        self.asked: Connection | None = None
        """Of a child: where its answer is waited for."""

    def at(self, kind: Kind, place: str, passed: Passed | None = None) -> list[Fault]:
        self._passed += 1
        here = [
            case
            for case in self.left
            if any((each.kind, each.place) == (kind, place) for each in case.faults)
        ]
        for case in here:
            self.left.remove(case)
            if self._passed <= self._since:
                self.early.append(case)
            elif self._forks(case):
                return super().at(kind, place, passed)
        if here and not self.left:
            raise AllTold
        return super().at(kind, place, passed)

    def answer(self, answer: Answer | None) -> NoReturn:
        """The last that a child does."""
        try:
            if self.asked and answer is not None:
                self.asked.send(answer)
        finally:
            os._exit(0)

    def _forks(self, case: Case) -> bool:
        """Whether this is the child."""
        reads, writes = Pipe(duplex=False)
        chance = random.getstate()
        child = os.fork()
        if child == 0:
            reads.close()
            random.setstate(chance)  # of a fork it is another one
            process.limit()
            self.left, self.asked = [], writes
            self.take(case.faults)
            return True
        writes.close()
        answer: Answer | None = None
        with contextlib.suppress(EOFError):
            answer = reads.recv()
        _, status = os.waitpid(child, 0)
        self.answers[case] = os.waitstatus_to_exitcode(status) if answer is None else answer
        return False


def in_turn(cases: Iterable[Case], tell: Callable[[Case], Answer]) -> dict[Case, Answer | int]:
    """What it tells of each, all in one child; where that ends, its exit code, and another child for the rest."""
    left = list(cases)
    answers: dict[Case, Answer | int] = {}
    while left:
        reads, writes = Pipe(duplex=False)
        child = os.fork()
        if child == 0:
            try:
                for case in left:
                    writes.send(tell(case))
            finally:
                os._exit(0)
        writes.close()
        with contextlib.suppress(EOFError):
            while left:
                answers[left[0]] = reads.recv()
                left.pop(0)
        _, status = os.waitpid(child, 0)
        if left:
            answers[left.pop(0)] = os.waitstatus_to_exitcode(status)
    return answers


def told(
    template: YardTemplate,
    scenario: Scenario,
    faults: Iterable[Fault],
    look: Callable[[Story], Answer],
    *,
    at_end: Callable[[Yard], object] = lambda yard: None,
) -> dict[Fault, Answer]:
    """What `look` finds in the story of each of these faults alone. Raises RuntimeError for a world that told none."""
    cases = {Case(scenario.name, (fault,)): fault for fault in faults}
    forks = Forks[Answer](list(cases))
    found: Answer | None = None
    try:
        found = look(follow(template, scenario, forks, seed=CLEAN_SEED, at_end=at_end))
    except AllTold:
        pass
    except Exception:
        if forks.asked:
            traceback.print_exc()
        else:
            raise
    finally:
        if forks.asked:
            forks.answer(found)
    silent = [str(case) for case in cases if isinstance(forks.answers.get(case), int | None)]
    if silent:
        raise RuntimeError(f"nothing was heard of {'; '.join(silent)}")
    return {fault: cast(Answer, forks.answers[case]) for case, fault in cases.items()}
