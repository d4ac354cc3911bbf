"""Worlds of one scenario and seed are one world until the first of their faults strikes: there its process forks."""

from __future__ import annotations

import dataclasses
import os
import random
import time
from collections.abc import Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import NoReturn

from simulation.faults import Fault, Kind, Plan
from simulation.trials import process
from simulation.trials.trial import SIMULATOR, Finding, Trial, Violation


class AllTold(BaseException):
    """Nobody needs the rest of this world. No `except Exception` on the way holds it."""


class Forks(Plan):
    """Nothing goes wrong here; where it would in the world of a trial, a child goes on as that world.

    The process waits for each child: of its worlds one runs at a time.
    """

    def __init__(self, trials: Sequence[Trial]) -> None:
        super().__init__()
        self.left = list(trials)
        """This world has not come to any of their faults yet."""
        self.findings: list[Finding] = []
        """Of the children."""
        self.asked: Connection | None = None
        """Of a child: where its finding is waited for."""

    def at(self, kind: Kind, place: str) -> list[Fault]:
        here = [
            trial
            for trial in self.left
            if any((each.kind, each.place) == (kind, place) for each in trial.faults)
        ]
        for trial in here:
            self.left.remove(trial)
            if self._forks(trial):
                return super().at(kind, place)
        if here and not self.left:
            raise AllTold
        return super().at(kind, place)

    def answer(self, finding: Finding | None) -> NoReturn:
        """The last that a child does."""
        try:
            if self.asked and finding:
                self.asked.send(dataclasses.replace(finding, cpu=time.process_time()))
        finally:
            os._exit(0)

    def _forks(self, trial: Trial) -> bool:
        """Whether this is the child."""
        reads, writes = Pipe(duplex=False)
        chance = random.getstate()
        child = os.fork()
        if child == 0:
            reads.close()
            random.setstate(chance)  # of a fork it is another one
            process.limit()
            self.left, self.asked = [], writes
            self.take(trial.faults)
            return True
        writes.close()
        try:
            finding = reads.recv()
        except EOFError:
            finding = None
        _, status = os.waitpid(child, 0)
        self.findings.append(finding or _died(trial, os.waitstatus_to_exitcode(status)))
        return False


def _died(trial: Trial, code: int) -> Finding:
    return Finding(
        trial, violations=(Violation(SIMULATOR, f"its process ended with {code} and said nothing", 0.0),)
    )
