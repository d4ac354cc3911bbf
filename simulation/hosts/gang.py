"""The programs of one attempt, which train together. `pace.py` has the position of the training.

The real programs: trainyard/runtime (loops/elastic.py, loops/asynchronous.py, processes/).
"""

from collections.abc import Callable
from typing import Protocol

from simulation.hosts.pace import Pace, Phase
from simulation.hosts.work import Work
from simulation.world.world import Planned, World
from trainyard.core.model.job import Job
from trainyard.protocol.cluster import Assignment, Cluster, Role
from trainyard.protocol.processes import RESTART

FINISHED, FAILED, TERMINATED, KILLED = 0, 1, 143, 137
LEAVE_SECONDS = 0.3
CHIEF_STAYS_SECONDS = 1.0
SERVER_SEES = (3.0, 5.0)
"""The seconds until a parameter server, or a worker with one, notices that the chief's port is closed."""
CHIEF_SEES = (2.0, 4.0)
EVALUATION_SECONDS = 8.0
FORMS_SECONDS = 1.0
TAIL_LINES = 60


class Platform(Protocol):
    """The machine that a program runs on."""

    def draw(self, seconds: tuple[float, float]) -> float: ...

    @property
    def runs(self) -> bool:
        """Return True unless the machine is off or hangs."""
        ...


class Program:
    """The process of one host.

    `changed` is called when the process ends and when the training begins, `saved` when a checkpoint is on the
    disk of the host.
    """

    def __init__(
        self,
        gang: "Gang",
        assignment: Assignment,
        platform: Platform,
        *,
        changed: Callable[[], None],
        saved: Callable[[int], None],
    ) -> None:
        self.exit_code: int | None = None
        self.asked = False
        self.is_lost = False
        self.tail: list[str] = []
        self.assignment = assignment
        self.platform = platform
        self.gang = gang
        self.saved = saved
        self._changed = changed
        self._leaving: Planned | None = None

    @property
    def name(self) -> str:
        return self.assignment.name

    @property
    def trains(self) -> bool:
        """Return True if other programs wait for this one."""
        return self.assignment.role is not Role.EVALUATOR

    @property
    def lives(self) -> bool:
        return self.exit_code is None and not self.is_lost

    def end(self, code: int, *lines: str) -> None:
        if self.exit_code is not None:
            return
        self.exit_code = code
        self.print(*lines)
        self.gang.handle_end(self)
        self._changed()

    def end_after(self, seconds: float, code: int, *lines: str) -> None:
        """End the process after a while, unless it ends earlier or hangs."""

        def end() -> None:
            self._leaving = None
            if self.platform.runs:
                self.end(code, *lines)

        if self._leaving is None:
            self._leaving = self.gang.world.after(seconds, end, what=f"program {self.assignment.instance}")

    def handles_sigterm(self) -> bool:
        """Return True if the program has a handler for SIGTERM."""
        return self.gang.work.handler

    def ask_to_leave(self) -> None:
        """Send SIGTERM."""
        self.asked = True
        self.gang.handle_sigterm(self)

    def kill(self) -> None:
        self.end(KILLED)

    def print(self, *lines: str) -> None:
        self.tail = [*self.tail, *lines][-TAIL_LINES:]

    def notify(self) -> None:
        self._changed()


class Gang:
    """The programs of one attempt. `step` is where the attempt starts."""

    def __init__(
        self, world: World, cluster: Cluster, job: Job, *, step: int, peer_gone: tuple[float, float]
    ) -> None:
        self.world = world
        self.work = Work.of(job)
        self.cluster = cluster
        self.phase = Phase.FORMING
        self.others_hang = False
        self.restored = step
        self.lines = 0
        self._peer_gone = peer_gone
        self._programs: dict[str, Program] = {}
        self._pace = Pace(self.work, step, world.now)
        self._is_leaving = False
        self._next: Planned | None = None
        self._pause: Planned | None = None

    @property
    def is_alone(self) -> bool:
        return len(self.cluster.assignments) == 1

    @property
    def in_step(self) -> bool:
        return not self.cluster.strategy.is_asynchronous

    @property
    def chief(self) -> Program | None:
        return self._programs.get(self.cluster.chief.instance)

    @property
    def step(self) -> int:
        """Return the last completed step."""
        if self.phase is not Phase.TRAINING or self._pause:
            return self._pace.base
        return self._pace.step(self.world.now)

    def until_next_report(self) -> float | None:
        """Return the seconds until the next report; None if no report will come."""
        if self.work.silent or self.phase is not Phase.TRAINING or self._pause:
            return None
        return self._pace.until_next_step(self.world.now)

    def join(self, program: Program) -> None:
        """Let the program look for its peers."""
        if not program.lives:
            return
        self._programs[program.assignment.instance] = program
        if self.phase is not Phase.FORMING:
            self._misses_a_peer(program)
            return
        seconds = self.work.form_seconds
        if not self.is_alone and program.trains:
            line = f"the cluster did not form in {seconds:g} seconds"
            self.world.after(seconds, lambda: self._give_up_forming(program, line), what="forming")
        self._form()

    def handle_sigterm(self, program: Program) -> None:
        if self.work.deaf or self.phase is Phase.HUNG:
            return
        if not self.work.handler:
            program.end_after(LEAVE_SECONDS, TERMINATED)
        elif not program.trains:
            program.end_after(LEAVE_SECONDS, RESTART, "asked to leave")
        elif self.phase is Phase.FORMING:
            program.end_after(LEAVE_SECONDS, TERMINATED)
        elif self.cluster.serves(program.assignment):
            pass  # the process ignores SIGTERM: the chief gets the interruption too
        elif self.phase is Phase.TRAINING:
            self._is_leaving = True
            self._plan()

    def handle_end(self, program: Program) -> None:
        self._react_to_loss(program)

    def lose(self, program: Program) -> None:
        """Handle that the program's host is gone, hangs, or is unreachable."""
        if not program.is_lost and program.exit_code is None:
            program.is_lost = True
            self._react_to_loss(program)
            if not (self.in_step or self.phase is Phase.FORMING):
                program.end_after(program.platform.draw(SERVER_SEES), RESTART, "no peer answers anymore")

    def find(self, program: Program) -> None:
        """Handle that the program's host is reachable again."""
        if not program.is_lost:
            return
        program.is_lost = False
        if self.phase is Phase.FORMING:
            self._form()
        elif self.is_alone and self.phase is Phase.STALLED and program.lives:
            self._continue_from(self._pace.base)
        elif program.exit_code is None and not self.is_alone:
            self._misses_a_peer(program)

    def hang(self) -> None:
        if self.phase in (Phase.FORMING, Phase.TRAINING, Phase.ENDING):
            self._stand_still(Phase.HUNG)

    def pause(self, seconds: float) -> None:
        """Pause one program (SIGSTOP). The others wait for it."""
        if self.phase is Phase.TRAINING and not self._pause:
            self._pace.base = self.step
            self._cancel()
            self._pause = self.world.after(seconds, self.resume, what="a paused program continues")

    def resume(self) -> None:
        if self._pause:
            self._pause.cancel()
            self._pause = None
            if self.phase is Phase.TRAINING:
                self._continue_from(self._pace.base)

    def _is_complete(self) -> bool:
        there = {instance for instance, program in self._programs.items() if program.lives}
        return all(
            assignment.instance in there
            for assignment in self.cluster.assignments
            if assignment.role is not Role.EVALUATOR
        )

    def _form(self) -> None:
        if self._is_complete():
            self.world.after(FORMS_SECONDS, self._begin, what=f"gang of {self.cluster.run} forms")

    def _begin(self) -> None:
        if self.phase is Phase.FORMING and self._is_complete():
            began = f"resumed from step {self._pace.base}" if self._pace.base else "starting at step 0"
            for program in self._programs.values():
                program.print(began)
            self._pace.saved_at = self.world.now
            self._continue_from(self._pace.base)

    def _continue_from(self, step: int) -> None:
        self.phase = Phase.TRAINING
        self._pace.continue_from(step, self.world.now)
        self._plan()
        if self.chief:
            self.chief.notify()

    def _plan(self) -> None:
        """Plan the next step at which something happens."""
        self._cancel()
        step = min(self._pace.next_steps(self.step, leaves=self._is_leaving))
        self._next = self.world.at(
            self._pace.when(step), lambda: self._reach_step(step), what=f"{self.cluster.run} step {step}"
        )

    def _reach_step(self, step: int) -> None:
        self._next = None
        work, is_last = self.work, step >= self.work.steps
        if step == work.hang_at:
            self._stand_still(Phase.HUNG)
            return
        if step == work.error_at and self._err(step):
            return
        if is_last or self._is_leaving or self._pace.is_to_save(step, self.world.now):
            self._save(step)
        if is_last:
            self._export()
        elif self._is_leaving:
            self._leave(step)
        else:
            self._plan()

    def _save(self, step: int) -> None:
        if self._pace.save(step, self.world.now) and self.chief and self.chief.lives:
            self.chief.saved(step)

    def _err(self, step: int) -> bool:
        """End the programs that fail at this step. Return True if there are any."""
        failing = [
            program
            for program in self._programs.values()
            if program.lives
            and (
                program.name == self.work.error_on
                or not (self.work.error_on or self.cluster.serves(program.assignment))
            )
        ]
        if failing:
            self._stand_still(Phase.STALLED)
        lines = ("Traceback (most recent call last):", f"ValueError: a fault of the program at step {step}")
        for program in failing:
            program.end(self.work.exit_code, *lines)
        return bool(failing)

    def _export(self) -> None:
        self._stand_still(Phase.ENDING)
        self.world.after(self.work.export_seconds, self._finish, what=f"{self.cluster.run} exports")

    def _finish(self) -> None:
        chief = self.chief
        if self.phase is not Phase.ENDING or chief is None or not chief.lives:
            return
        self._stand_still(Phase.OVER)
        chief.end(FINISHED)
        if self.others_hang:
            return
        for program in self._others(chief):
            if not program.trains:
                program.end_after(EVALUATION_SECONDS, FINISHED, "evaluated to the last step")
            elif self.in_step:
                program.end_after(CHIEF_STAYS_SECONDS, FINISHED)
            else:
                program.end_after(program.platform.draw(SERVER_SEES), FINISHED, "is not needed anymore")

    def _leave(self, step: int) -> None:
        line = f"step {step} of {self.work.steps} is saved; stopping for a restart"
        self._stand_still(Phase.STALLED)
        going = [p for p in self._programs.values() if p is self.chief or (self.in_step and p.trains)]
        for program in going:
            program.end_after(LEAVE_SECONDS, RESTART, line)

    def _react_to_loss(self, gone: Program) -> None:
        if self.phase in (Phase.FORMING, Phase.HUNG, Phase.OVER) or not gone.trains:
            return  # waiting or hanging programs notice nothing
        if self.is_alone:
            self._stand_still(Phase.STALLED)
        elif self.in_step:
            self._all_miss_a_peer(gone)
        elif gone is self.chief:
            self._servers_miss_the_chief(gone)
        else:
            self._chief_misses(gone)

    def _all_miss_a_peer(self, gone: Program) -> None:
        self._stand_still(Phase.STALLED)
        for program in self._others(gone):
            self._misses_a_peer(program)
        self._misses_a_peer(gone)

    def _servers_miss_the_chief(self, chief: Program) -> None:
        self._stand_still(Phase.OVER)
        for program in self._others(chief):
            if program.trains:
                line = "a peer is gone (no answer from the chief); stopping for a restart"
                program.end_after(program.platform.draw(SERVER_SEES), RESTART, line)

    def _chief_misses(self, gone: Program) -> None:
        chief = self.chief
        if chief is None or not chief.lives or self.phase is not Phase.TRAINING:
            return
        line = f"a peer is gone (no answer from {gone.name}); stopping for a restart"
        saves = gone.assignment.role is Role.WORKER
        step = self.step
        self._stand_still(Phase.STALLED)

        def leave() -> None:
            if chief.lives and self.phase is Phase.STALLED:
                if saves:
                    self._save(step)
                chief.end(RESTART, line)

        self.world.after(chief.platform.draw(CHIEF_SEES), leave, what=f"{chief.name} misses {gone.name}")

    def _misses_a_peer(self, program: Program) -> None:
        if not program.trains:
            return
        program.end_after(
            program.platform.draw(self._peer_gone), RESTART, "a peer is gone; stopping for a restart"
        )

    def _give_up_forming(self, program: Program, line: str) -> None:
        if self.phase is Phase.FORMING and program.lives and program.platform.runs:
            program.end(RESTART, line)

    def _others(self, program: Program) -> list[Program]:
        return [other for other in self._programs.values() if other is not program and other.lives]

    def _stand_still(self, phase: Phase) -> None:
        self._pace.base = self.step
        if self._pause:
            self._pause.cancel()
            self._pause = None
        self.phase = phase
        self._cancel()

    def _cancel(self) -> None:
        if self._next:
            self._next.cancel()
            self._next = None
