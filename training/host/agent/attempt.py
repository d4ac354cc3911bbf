"""One program's life on this host: started, watched, asked to leave when it must."""

import os
import signal
import time
from collections.abc import Hashable
from dataclasses import replace
from datetime import UTC, datetime

from training.host.agent.closing import Closing
from training.host.agent.conclusion import Conclusion, Outcome
from training.host.agent.deadlines.notice import (
    Leaving,
    leave_for_trouble,
    leave_since_it_hangs,
)
from training.host.agent.listening import Listening
from training.host.agent.outputs import Outputs
from training.host.agent.parting import Parting
from training.host.agent.preparation import Preparation
from training.host.agent.surroundings import Surroundings
from training.host.agent.uploads import Uploads, uploads_of
from training.host.checkpoints import in_bucket
from training.host.checkpoints.catalogue import Version
from training.host.checkpoints.choice import LastCheckpoint
from training.host.checkpoints.upload import CheckpointUpload
from training.host.disk import fresh, readable_files
from training.host.errors import HostTrouble
from training.host.program import environment, exits, folders, secrets, silence
from training.host.program.ending import End
from training.host.program.exits import Exit
from training.host.program.process import Program, killed_for_memory
from training.host.program.silence import Silence
from training.host.program.tasks import TaskLimit, most_tasks
from training.host.reporting.events import EventFiles
from trainyard.protocol import signals
from trainyard.protocol.cluster import Role

TICK_SECONDS = 0.2
LOOKS_FOR_BACKGROUND = 10
GOING_DOWN_SECONDS = 2.0


class Attempt:
    """`last` is the last whole checkpoint of the run in the bucket."""

    def __init__(self, around: Surroundings, last: LastCheckpoint) -> None:
        self._around = around
        self._listening = listening = Listening(around)
        self._silence = Silence()
        self._tasks = TaskLimit(most_tasks())
        self._checkpoints = CheckpointUpload(
            around.bucket,
            around.cluster.run,
            around.paths,
            around.account,
            keep=around.job.checkpoints.keep,
            last=last,
            reported=lambda: listening.progress.step,
            uploaded=self._checkpointed,
            note=listening.log.note,
        )
        self._closing = Closing(around.cluster, around.assignment, around.peers, listening.note_at_once)
        self._outputs = Outputs(
            around.cluster,
            around.assignment,
            around.job,
            account=around.account,
            paths=around.paths,
            bucket=around.bucket,
            note=listening.log.note,
        )
        self._preparation = Preparation(around, listening, self._checkpoints, self._outputs)
        self._conclusion = Conclusion(around, listening, self._checkpoints, self._outputs, self._closing)

    def start(self) -> Program:
        """Restore what the attempt restores, clear what an earlier one left, and start the program. Raises
        LeftUnstarted if the attempt has to leave while a service cannot be reached."""
        self._around.account.end_all()
        fresh(self._around.paths.attempt(self._around.cluster.attempt))
        with self._around.account.acting():
            fresh(self._around.paths.progress(self._around.cluster.attempt).parent)
        with self._listening.heartbeat():
            instead = self._preparation.prepare()
            values = self._preparation.get("fetching its secrets", self._preparation.fetch_secrets)
            self._listening.log.hide(values)
        program = Program.start(
            environment.command_line(
                self._around.cluster, self._around.assignment, self._around.job, self._around.paths
            ),
            account=self._around.account,
            folder=self._around.paths.program,
            env=environment.environment(
                self._around.cluster,
                self._around.assignment,
                self._around.job,
                self._around.paths,
                region=self._around.identity.region,
                image=self._around.identity.image,
                base=os.environ,
                secrets=values,
            ),
            log=self._listening.log.path,
            exit_file=self._around.paths.exit_code(self._around.cluster.attempt),
            most_tasks=self._tasks.most,
        )
        program.remember(self._around.paths.process(self._around.cluster.attempt))
        self._around.say(
            signals.Started(
                role=self._around.assignment.role,
                index=self._around.assignment.index,
                instead=instead or None,
            )
        )
        return program

    def recall(self) -> Program | None:
        """The program that an earlier agent started for this attempt."""
        program = Program.recall(self._around.paths.process(self._around.cluster.attempt))
        if program is None:
            return None
        held = (
            secrets.held_by(program.itself(), self._around.job.program.secrets) if program.is_alive() else {}
        )
        with self._listening.heartbeat():
            insistence = self._conclusion.insistence(None, finished=False)
            self._listening.log.hide(
                held or insistence.get("fetching its secrets", self._preparation.fetch_secrets)
            )
            if self._around.assignment.is_chief:
                insistence.get("reading its curve", self._listening.metrics.begin)
        return program

    def watch(self, program: Program) -> Outcome:
        """Wait for the program's end, carrying its work away meanwhile; judge the end and say so."""
        started = self._around.paths.process(self._around.cluster.attempt).stat().st_mtime
        with self._listening.heartbeat():
            insistence = self._conclusion.insistence(None, finished=False)
            outputs = insistence.get(
                "reading the list of its outputs", lambda: self._outputs.upload(program.runs)
            )
        events = (
            EventFiles(
                lambda: readable_files(self._around.paths.tensorboard),
                self._around.paths.tensorboard,
                started,
            ),
            EventFiles(lambda: outputs.event_files, self._around.paths.program, started),
        )
        uploads = uploads_of(
            self._around.cluster,
            self._around.assignment,
            keep=self._around.job.checkpoints.keep,
            account=self._around.account,
            bucket=self._around.bucket,
            paths=self._around.paths,
            log=self._listening.log,
            metrics=self._listening.metrics,
            checkpoints=self._checkpoints,
            outputs=outputs,
            look=lambda: self._listening.look_at(*events),
        )
        self._checkpoints.runs = program.runs
        uploads.start()
        self._closing.begin()
        killed_before = killed_for_memory()
        parting: Parting | None = None
        itself: int | None = None
        while (code := program.exit_code()) is None:
            itself = itself or program.itself()
            self._listening.listen()
            self._listening.report()
            if self._tasks.look(
                time.monotonic(), lambda: program.count_tasks(self._around.account, self._mark)
            ):
                program.kill()
                program.kill_left(self._around.account, self._mark)
                self._around.account.end_all()
            if parting is None and (leaving := self._reason_to_leave(uploads) or self._hang(program)):
                parting = self._parting(program, leaving)
            if parting:
                parting.turn(datetime.now(UTC))
            time.sleep(TICK_SECONDS)
        background = self._left_running(program) if code == 0 else ()
        program.kill()  # whatever it left behind in its group, and anywhere else
        program.kill_left(self._around.account, self._mark)
        self._around.account.end_all()
        with self._around.account.acting():
            rights_taken = folders.give_back_rights(
                folders.given_to_program(self._around.paths, self._around.cluster.attempt)
            )
        with self._listening.heartbeat():
            starved = killed_before is None or killed_for_memory() != killed_before
            end = End(
                code=code,
                tail="",
                with_keeper=program.was_killed_whole(),
                starved=starved,
                exited=self._exited(program, itself),
                background=background,
                at_task_limit=self._tasks.is_exceeded,
                rights_taken=rights_taken,
            )
            return self._conclusion.conclude(
                end, parting or self._parting_of_the_machine(program, code), uploads, outputs
            )

    @property
    def _mark(self) -> str:
        """The variable by which this attempt's processes are known."""
        return f"TRAINYARD_PROGRESS={self._around.paths.progress(self._around.cluster.attempt)}"

    def _left_running(self, program: Program) -> tuple[str, ...]:
        """What the program leaves running when it ends. Its helpers end within moments, once they see that."""
        for _ in range(LOOKS_FOR_BACKGROUND):
            if not program.left_running(self._around.account, self._mark):
                return ()
            time.sleep(TICK_SECONDS)
        return program.left_running(self._around.account, self._mark)

    def _exited(self, program: Program, itself: int | None) -> Exit | None:
        with self._around.account.acting():
            noted = exits.read(self._around.paths.exits(self._around.cluster.attempt))
        return exits.of_program(noted, keeper=program.pid, pid=itself)

    def _parting_of_the_machine(self, program: Program, code: int) -> Parting | None:
        """A machine that goes down sends SIGTERM to all processes at once, so that the program may end before the agent
        has seen why. None unless that comes out within moments."""
        if code != 128 + signal.SIGTERM or not self._around.watchdog.going_down.wait(GOING_DOWN_SECONDS):
            return None
        leaving = self._around.order_to_leave()
        return replace(self._parting(program, leaving), asked_at=datetime.now(UTC)) if leaving else None

    def _parting(self, program: Program, leaving: Leaving) -> Parting:
        return Parting(
            program,
            leaving,
            saves=self._run_has_saved(),
            saved=lambda: self._checkpoints.last,
            chief_has_left=self._chief_has_left,
            note=self._listening.log.note,
        )

    def _run_has_saved(self) -> bool:
        """Of other hosts than the chief's the bucket knows. Whoever cannot ask it waits for nothing, and so does an
        evaluator, which has no part in what is saved."""
        if self._around.assignment.is_chief:
            return self._checkpoints.last.step >= 0
        if self._around.assignment.role is Role.EVALUATOR:
            return False
        try:
            return in_bucket.catalogue_of(self._around.bucket, self._around.cluster.run) is not None
        except HostTrouble as trouble:
            self._listening.log.note(f"whether the run has saved is unknown: {trouble.reason}")
            return False

    def _chief_has_left(self) -> bool:
        if self._around.assignment.is_chief:
            return False
        state = self._around.peers.state_of(self._around.cluster.chief)
        return state is not None and state.ended is not None

    def _reason_to_leave(self, uploads: Uploads) -> Leaving | None:
        trouble = uploads.trouble
        troubled = leave_for_trouble(trouble, datetime.now(UTC)) if trouble else None
        return self._around.order_to_leave() or troubled or self._closing.leaving()

    def _hang(self, program: Program) -> Leaving | None:
        """The chief's host alone judges: where another's program hangs, the chief's waits for it in vain. The others
        say whether theirs works, but for an evaluator: that it works is no sign that anybody trains."""
        hangs = self._silence.hangs(time.monotonic(), lambda: self._signs_of_life(program))
        speaks = not self._around.assignment.is_chief and self._around.assignment.role is not Role.EVALUATOR
        if speaks and self._silence.works:
            self._around.peers.say_works(time.monotonic(), datetime.now(UTC))
        if not (hangs and self._around.assignment.is_chief):
            return None
        self._listening.log.note(silence.SAID)
        return leave_since_it_hangs(datetime.now(UTC))

    def _signs_of_life(self, program: Program) -> Hashable:
        """Those of this host's program and, where the chief reports nothing itself, of its peers': it may wait for what
        they compute."""
        own = self._listening.life.signs(program)
        asks = (
            self._around.assignment.is_chief
            and self._around.peers.are_there
            and not self._listening.progress.reports
        )
        return (own, self._around.peers.signs(time.monotonic())) if asks else own

    def _checkpointed(self, last: LastCheckpoint, version: Version) -> None:
        step = version.step if last.tells_step else self._listening.progress.step
        self._around.say(signals.Checkpointed(step=step, key=version.key))
        self._around.note_checkpoint(last)
