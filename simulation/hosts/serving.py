"""The program that serves a version of a model on one host (training/programs/serve.py)."""

from __future__ import annotations

from datetime import timedelta

from simulation.hosts.gang import FINISHED, LEAVE_SECONDS, TERMINATED, Gang, Program
from simulation.hosts.pace import Phase
from simulation.world.world import BEGINNING
from training.programs.serving.idle import Idle
from trainyard.protocol.serving import REFUSAL, REFUSED

LOAD_SECONDS = 8.0
"""The time to load a version and to answer its golden rows."""
SHORTEST = 0.001
"""The shortest wait. The clock of a world has microseconds, so a rounding error would be no wait at all."""
MINUTE = 60.0
WRONG = "differs"
"""The label of versions whose host finds another answer to a golden row."""


class Server(Gang):
    """The only program of an attempt that serves a version. Its steps are its reports, as of the real program."""

    idle: Idle | None = None
    _reported = 0

    @property
    def step(self) -> int:
        return self._reported

    def until_next_report(self) -> float | None:
        return None

    def answer(self) -> bool:
        """Answer a request for predictions. Return False if the program does not serve now."""
        if self.idle is None or self.phase is not Phase.TRAINING:
            return False
        self.idle.add()
        return True

    def handle_sigterm(self, program: Program) -> None:
        """Leave once the answers under way are sent."""
        if self.phase is Phase.FORMING:
            program.end_after(LEAVE_SECONDS, TERMINATED)
        elif self.phase is Phase.TRAINING:
            self._stand_still(Phase.ENDING)
            program.end_after(LEAVE_SECONDS, FINISHED)

    def _continue_from(self, step: int) -> None:
        self.phase = Phase.TRAINING
        self._plan()
        if self.chief:
            self.chief.notify()

    def _plan(self) -> None:
        self._cancel()
        seconds = LOAD_SECONDS if self.idle is None else max(min(self.idle.left, MINUTE), SHORTEST)
        what = f"{self.cluster.run} serves"
        self._next = self.world.after(seconds, self._load if self.idle is None else self._look, what=what)

    def _load(self) -> None:
        """Answer the golden rows, and serve from now on."""
        self._next, chief = None, self.chief
        if self.work.label == WRONG and chief:
            self._stand_still(Phase.OVER)
            named = f"version {self.work.version} of {self.work.model}"
            chief.end(REFUSED, f"{REFUSAL}{named} differs from TensorFlow's answers at its export")
            return
        self.idle = Idle(self.work.idle_seconds, self._seconds)
        self._report(1)
        self._plan()

    def _look(self) -> None:
        """Print a line, and end after the idle time."""
        self._next = None
        assert self.idle is not None, "it has loaded the version"
        if self.idle.left <= 0:
            self._stand_still(Phase.OVER)
            if self.chief:
                self.chief.end(FINISHED)
            return
        self.lines += 1
        if self.idle.count + 1 > self._reported:
            self._report(self.idle.count + 1)
        self._plan()

    def _report(self, step: int) -> None:
        self._reported = step
        if self.chief:
            self.chief.notify()

    def _seconds(self) -> float:
        return (self.world.now - BEGINNING) / timedelta(seconds=1)
