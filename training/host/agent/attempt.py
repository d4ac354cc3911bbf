"""One attempt on this host: start the program, watch it, and ask it to leave if it must."""

import os
import signal
import time
from collections.abc import Hashable
from dataclasses import replace
from datetime import UTC, datetime

from training.host.agent.closing import Closing
from training.host.agent.collectives import Collectives
from training.host.agent.conclusion import Conclusion, Outcome
from training.host.agent.context import Context
from training.host.agent.deadlines.drain import (
    Drain,
    drain_for_trouble,
    drain_hanging,
)
from training.host.agent.draining import Draining
from training.host.agent.monitor import Monitor
from training.host.agent.mounts import Mounts
from training.host.agent.outputs import Outputs
from training.host.agent.preparation import Preparation
from training.host.agent.tracking import Tracking
from training.host.agent.uploads import Uploads, uploads_of
from training.host.agent.usage import Usage
from training.host.checkpoints import in_bucket
from training.host.checkpoints.catalogue import Version
from training.host.checkpoints.choice import LastCheckpoint
from training.host.checkpoints.upload import CheckpointUpload
from training.host.container.inside import clear_changes
from training.host.disk import fresh, readable_files
from training.host.errors import HostTrouble
from training.host.health import BrokenHardware, Health
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
    """One attempt. `last` is the last whole checkpoint of the run in the bucket."""

    def __init__(self, context: Context, last: LastCheckpoint) -> None:
        self._context = context
        self._monitor = monitor = Monitor(context)
        self._silence = Silence()
        self._tasks = TaskLimit(most_tasks())
        self._checkpoints = CheckpointUpload(
            context.bucket,
            context.cluster.run,
            context.paths,
            context.account,
            keep=context.job.checkpoints.keep,
            last=last,
            reported=lambda: monitor.progress.step,
            uploaded=self._record_checkpoint,
            note=monitor.log.note,
        )
        self._closing = Closing(context.cluster, context.assignment, context.peers, monitor.note_at_once)
        self._outputs = Outputs(
            context.cluster,
            context.assignment,
            context.job,
            account=context.account,
            paths=context.paths,
            bucket=context.bucket,
            note=monitor.log.note,
        )
        self._mounts = Mounts(context)
        self._health = Health()
        self._preparation = Preparation(context, monitor, self._checkpoints, self._outputs, self._mounts)
        self._tracking = Tracking(context, monitor.progress.scalars.points, monitor.note_at_once)
        self._conclusion = Conclusion(
            context, monitor, self._checkpoints, self._outputs, self._closing, self._tracking
        )

    def start(self) -> Program:
        """Remove files of an earlier attempt, restore the checkpoint, and start the program. Raises LeftUnstarted if
        the attempt has to leave before that, BrokenHardware, and the troubles of a host."""
        self._health.check()
        self._context.account.end_all()
        fresh(self._context.paths.attempt(self._context.cluster.attempt))
        with self._context.account.act():
            fresh(self._context.paths.progress(self._context.cluster.attempt).parent)
        with self._monitor.heartbeat():
            instead = self._preparation.prepare()
            values = self._preparation.get("fetching its secrets", self._preparation.fetch_secrets)
            self._monitor.log.hide(values)
            note, check_hardware = self._monitor.log.note, self._health.check
            checked = Collectives(self._context, note, check_hardware, self._tasks.most).check()
        inside = self._context.inside
        if inside:
            clear_changes(self._context.paths, self._context.account)
        program = Program.start(
            environment.command_line(
                self._context.cluster,
                self._context.assignment,
                self._context.job,
                self._context.paths,
                inside,
            ),
            account=self._context.account,
            folder=self._context.paths.program,
            env=environment.environment(
                self._context.cluster,
                self._context.assignment,
                self._context.job,
                self._context.paths,
                region=self._context.identity.region,
                image=self._context.identity.image,
                base=os.environ,
                secrets=values,
                inside=inside,
            ),
            log=self._monitor.log.path,
            exit_file=self._context.paths.exit_code(self._context.cluster.attempt),
            most_tasks=self._tasks.most,
            entrance=inside.entrance(
                self._context.paths,
                self._context.account,
                has_source=self._context.job.program.source is not None,
                most_tasks=self._tasks.most,
            )
            if inside
            else None,
        )
        program.remember(self._context.paths.process(self._context.cluster.attempt))
        self._tracking.start(values)
        self._context.send(
            signals.Started(
                role=self._context.assignment.role,
                index=self._context.assignment.index,
                instead=instead or None,
                checked=checked,
            )
        )
        return program

    def recall(self) -> Program | None:
        """Return the program that an earlier agent has started for this attempt; None if there is none."""
        program = Program.recall(self._context.paths.process(self._context.cluster.attempt))
        if program is None:
            return None
        held = (
            secrets.secrets_of(program.itself(), self._context.job.program.secrets)
            if program.is_alive()
            else {}
        )
        with self._monitor.heartbeat():
            retries = self._conclusion.retries(None, finished=False)
            values = held or retries.get("fetching its secrets", self._preparation.fetch_secrets)
            self._monitor.log.hide(values)
            self._tracking.start(values)
            if self._context.assignment.is_chief:
                retries.get("reading its curve", self._monitor.begin)
        return program

    def watch(self, program: Program) -> Outcome:
        """Upload the program's work until it ends, then decide how it ended and return that outcome."""
        started = self._context.paths.process(self._context.cluster.attempt).stat().st_mtime
        with self._monitor.heartbeat():
            retries = self._conclusion.retries(None, finished=False)
            outputs = retries.get(
                "reading the list of its outputs", lambda: self._outputs.upload(program.runs)
            )
        events = (
            EventFiles(
                lambda: readable_files(self._context.paths.tensorboard),
                self._context.paths.tensorboard,
                started,
            ),
            EventFiles(lambda: outputs.event_files, self._context.paths.program, started),
        )
        uploads = uploads_of(
            self._context.cluster,
            self._context.assignment,
            keep=self._context.job.checkpoints.keep,
            account=self._context.account,
            bucket=self._context.bucket,
            paths=self._context.paths,
            log=self._monitor.log,
            metrics=self._monitor.metrics,
            checkpoints=self._checkpoints,
            outputs=outputs,
            look=lambda last: self._monitor.look_at(*events, last=last),
        )
        self._checkpoints.runs = program.runs
        uploads.start()
        self._closing.begin()
        self._mounts.watch()
        usage = Usage(
            self._context,
            self._monitor.progress,
            program.find_pids,
            self._health.report,
            self._tracking.add_use,
        )
        usage.begin()
        killed_before = killed_for_memory()
        draining: Draining | None = None
        itself: int | None = None
        while (code := program.exit_code()) is None:
            itself = itself or program.itself()
            self._monitor.listen(sparingly=True)
            self._monitor.report()
            if self._tasks.look(
                time.monotonic(), lambda: program.count_tasks(self._context.account, self._mark)
            ):
                program.kill()
                program.kill_remaining(self._context.account, self._mark)
                self._context.account.end_all()
            self._mounts.report(time.monotonic())
            leaves = draining is None and (
                self._broken_hardware()
                or self._reason_to_leave(uploads)
                or self._lost_mount()
                or self._hang(program)
            )
            if leaves:
                draining = self._drain(program, leaves)
            if draining:
                draining.turn(datetime.now(UTC))
            time.sleep(TICK_SECONDS)
        usage.end()
        background = self._find_running(program) if code == 0 else ()
        program.kill()  # processes that it left behind, in its group and elsewhere
        program.kill_remaining(self._context.account, self._mark)
        self._context.account.end_all()
        with self._context.account.act():
            rights_taken = folders.give_back_rights(
                folders.list_program_folders(self._context.paths, self._context.cluster.attempt)
            )
        self._broken_hardware()
        lost_mount, changed_object = self._mounts.conclude(code=code)
        with self._monitor.heartbeat():
            starved = killed_before is None or killed_for_memory() != killed_before
            end = End(
                code=code,
                tail="",
                with_keeper=program.was_killed_whole(),
                starved=starved,
                exited=self._read_exit(program, itself),
                background=background,
                at_task_limit=self._tasks.is_exceeded,
                broken_hardware=self._health.fatal,
                folders_without_rights=rights_taken,
                lost_mount=lost_mount,
                changed_object=changed_object,
            )
            return self._conclusion.conclude(
                end, draining or self._drain_of_shutdown(program, code), uploads, outputs
            )

    @property
    def _mark(self) -> str:
        """The variable that identifies this attempt's processes."""
        return f"TRAINYARD_PROGRESS={self._context.paths.progress(self._context.cluster.attempt)}"

    def _find_running(self, program: Program) -> tuple[str, ...]:
        """Return the processes that still run after the program's end. Helper processes end within moments."""
        for _ in range(LOOKS_FOR_BACKGROUND):
            if not program.find_running(self._context.account, self._mark):
                return ()
            time.sleep(TICK_SECONDS)
        return program.find_running(self._context.account, self._mark)

    def _read_exit(self, program: Program, itself: int | None) -> Exit | None:
        with self._context.account.act():
            noted = exits.read(self._context.paths.exits(self._context.cluster.attempt))
        return exits.find_exit(noted, keeper=program.pid, pid=itself)

    def _drain_of_shutdown(self, program: Program, code: int) -> Draining | None:
        """Return the draining that a shutdown of the machine has begun; None without a shutdown within moments. A
        shutdown sends SIGTERM to all processes at once, so the program may end before the agent notices."""
        if code != 128 + signal.SIGTERM or not self._context.watchdog.going_down.wait(GOING_DOWN_SECONDS):
            return None
        drain = self._context.order_to_leave()
        return replace(self._drain(program, drain), asked_at=datetime.now(UTC)) if drain else None

    def _drain(self, program: Program, drain: Drain) -> Draining:
        return Draining(
            program,
            drain,
            saves=self._run_has_saved(),
            saved=lambda: self._checkpoints.last,
            chief_has_left=self._chief_has_left,
            note=self._monitor.log.note,
        )

    def _run_has_saved(self) -> bool:
        """Return True if the run has a checkpoint. Hosts other than the chief's look into the bucket, and return False
        if they cannot reach it. An evaluator never waits for a checkpoint."""
        if self._context.assignment.is_chief:
            return self._checkpoints.last.step >= 0
        if self._context.assignment.role is Role.EVALUATOR:
            return False
        try:
            return in_bucket.catalogue_of(self._context.bucket, self._context.cluster.run) is not None
        except HostTrouble as trouble:
            self._monitor.log.note(f"cannot find out if the run has a checkpoint: {trouble.reason}")
            return False

    def _chief_has_left(self) -> bool:
        if self._context.assignment.is_chief:
            return False
        state = self._context.peers.state_of(self._context.cluster.chief)
        return state is not None and state.ended is not None

    def _reason_to_leave(self, uploads: Uploads) -> Drain | None:
        trouble = uploads.trouble
        troubled = drain_for_trouble(trouble, datetime.now(UTC)) if trouble else None
        return self._context.order_to_leave() or troubled or self._closing.drain()

    def _broken_hardware(self) -> Drain | None:
        """Write new faults of the hardware into the program's log. Return the reason to leave after a fatal one."""
        for fault in self._health.look():
            self._monitor.log.note(fault)
        broken = BrokenHardware(self._health.fatal) if self._health.fatal else None
        return drain_for_trouble(broken, datetime.now(UTC)) if broken else None

    def _lost_mount(self) -> Drain | None:
        """Return the reason to leave if a mounted file system with data does not answer any more."""
        if not (lost := self._mounts.lost):
            return None
        self._monitor.log.note(f"{lost}. The program will be ended, and started again")
        return drain_hanging(datetime.now(UTC))

    def _hang(self, program: Program) -> Drain | None:
        """Return the reason to leave if the program hangs. Only the chief's host decides: if another host's program
        hangs, the chief's waits for it. The other hosts report that their program works, except an evaluator, whose
        work does not show that the run trains."""
        hangs = self._silence.hangs(time.monotonic(), lambda: self._signs_of_life(program))
        speaks = not self._context.assignment.is_chief and self._context.assignment.role is not Role.EVALUATOR
        if speaks and self._silence.works:
            self._context.peers.report_working(time.monotonic(), datetime.now(UTC))
        if not (hangs and self._context.assignment.is_chief):
            return None
        self._monitor.log.note(silence.HANGS)
        return drain_hanging(datetime.now(UTC))

    def _signs_of_life(self, program: Program) -> Hashable:
        """Return the signs of life of this host's program. If the chief reports no progress, include its peers' signs,
        because it may wait for their results."""
        own = self._monitor.life.signs(program)
        asks = (
            self._context.assignment.is_chief
            and self._context.peers.are_there
            and not self._monitor.progress.reports
        )
        return (own, self._context.peers.signs(time.monotonic())) if asks else own

    def _record_checkpoint(self, last: LastCheckpoint, version: Version) -> None:
        step = version.step if last.tells_step else self._monitor.progress.step
        self._context.send(signals.Checkpointed(step=step, key=version.key))
        self._context.note_checkpoint(last)
