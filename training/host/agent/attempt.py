"""One program's life on this host: started, watched, asked to leave when it must, its results brought away."""

import logging
import math
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from training.host import orders
from training.host.account import NOBODY_ELSE, Account
from training.host.agent.closing import Closing
from training.host.agent.deadlines.notice import (
    FINISHED,
    Leaving,
    leave_for_trouble,
    leave_since_it_hangs,
    order_to_leave,
)
from training.host.agent.insistence import (
    EXTRAS_SECONDS,
    Insistence,
    is_unreachable,
    patience_with_denials,
    why_it_has_to_end,
)
from training.host.agent.life import Life, Peers, StillTraining, has_ended, has_gpus
from training.host.agent.outputs import Outputs
from training.host.agent.parting import Parting
from training.host.agent.uploads import Lacking, Uploads, uploads_of
from training.host.agent.watchdog import Watchdog
from training.host.bucket import Bucket
from training.host.checkpoints import in_bucket
from training.host.checkpoints.catalogue import Version
from training.host.checkpoints.choice import LastCheckpoint
from training.host.checkpoints.restore import Restored, restore
from training.host.checkpoints.upload import CheckpointUpload
from training.host.data import keras_home
from training.host.data.fetch import fetch_shares
from training.host.disk import SHARED_MEMORY, Disk, Room, fresh, readable_files, room_at
from training.host.errors import HostTrouble
from training.host.keys import LeftOut
from training.host.metadata import Identity
from training.host.outputs.upload import OutputsUpload
from training.host.periodic import Repeat
from training.host.places import Places
from training.host.program import ending, environment, exits, folders, secrets, silence, torchrun, tracebacks
from training.host.program.ending import End, Failed, Finished, Stopped
from training.host.program.exits import Exit
from training.host.program.process import Program, killed_for_memory
from training.host.program.silence import Silence
from training.host.program.tasks import TaskLimit, most_tasks
from training.host.reporting import history, results
from training.host.reporting.events import EventFiles
from training.host.reporting.metrics import Metrics
from training.host.reporting.observed import PrintedProgress
from training.host.reporting.outbox import failed
from training.host.reporting.printed import PrintedLines
from training.host.reporting.program_log import ProgramLog
from training.host.reporting.progress import ALIVE_SECONDS, Progress, Source, facts_in, not_finite
from training.host.reporting.reading import may_say
from training.host.reporting.results import FolderUpload
from trainyard.command_line import command_line
from trainyard.core.model.job import Job
from trainyard.protocol import keys, signals
from trainyard.protocol.cluster import Assignment, Cluster, Role
from trainyard.protocol.orders import OrderKind
from trainyard.protocol.signals import FailureKind, Signal, StopReason
from trainyard.protocol.tags import Tag
from trainyard.values import floats

TICK_SECONDS = 0.2
LOOKS_FOR_BACKGROUND = 10
GOING_DOWN_SECONDS = 2.0
WORKERS_LOOK_SECONDS = 2.0
EVALUATION_SECONDS = 60.0
"""How long a chief that has finished waits for an evaluator that does not end by itself."""
LINES_AT_ONCE = 20
"""Lines that are read for progress every TICK_SECONDS: 100 lines a second take 2 % of a processor."""
logger = logging.getLogger(__name__)
Value = TypeVar("Value")

RESULTS = ("model", "metrics", "checkpoint")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended, with the signal that says so (None: nothing to say, the chief speaks)."""

    ending: Finished | Stopped | Failed
    signal: Signal | None


def with_what_lacks(
    ended: Finished | Stopped | Failed, code: int, lacking: Lacking | None, extras: Lacking | None
) -> Finished | Stopped | Failed:
    """Return the end with what could not be uploaded. Nothing must hide what the program itself said. A training that
    has finished is not repeated for an upload: without its results it has failed for good, without its log or curves it
    has finished."""
    if isinstance(ended, Failed):
        return ended
    if isinstance(ended, Stopped):
        what = lacking or extras
        return Failed(what.kind, what.trouble.reason, code, what.trouble.final) if what else ended
    if lacking or (extras and extras.trouble.final):
        what = lacking or extras
        assert what is not None, "one of them is there"
        reason = f"the program finished, but its {what.what} could not be uploaded: {what.trouble.reason}"
        return Failed(what.kind, reason, code, final=True)
    if extras:
        return Finished(
            (*ended.but, f"its {extras.what} could not be uploaded whole: {extras.trouble.reason}")
        )
    return ended


class LeftUnstarted(Exception):  # noqa: N818 - no error: the attempt was to leave before its program ran
    """The attempt has to leave while a service that its program needs cannot be reached."""

    def __init__(self, leaving: Leaving) -> None:
        super().__init__(leaving.in_words)
        self.leaving = leaving


class Attempt:
    """`say` puts a signal; `peers` is what the hosts of the gang tell each other; `ssm` makes a client with the run's
    credentials; `last` is the last whole checkpoint in the bucket, `note_checkpoint` remembers the next."""

    def __init__(
        self,
        cluster: Cluster,
        assignment: Assignment,
        job: Job,
        *,
        account: Account,
        places: Places,
        bucket: Bucket,
        peers: Peers,
        identity: Identity,
        watchdog: Watchdog,
        disk: Disk,
        say: Callable[[Signal], None],
        last: LastCheckpoint,
        note_checkpoint: Callable[[LastCheckpoint], None],
        ssm: Callable[[], Any],
    ) -> None:
        self._cluster = cluster
        self._assignment = assignment
        self._job = job
        self._account = account
        self._places = places
        self._bucket = bucket
        self._peers = peers
        self._identity = identity
        self._watchdog = watchdog
        self._disk = disk
        self._say = say
        self._note_checkpoint = note_checkpoint
        self._ssm = ssm
        self._seen: SimpleQueue[tuple[Source, dict[str, Any]]] = SimpleQueue()
        pattern = job.program.progress if assignment.is_chief else None
        self._printed = PrintedProgress(pattern) if pattern else None
        self._lines = PrintedLines()
        self._heard: deque[str] = deque(maxlen=LINES_AT_ONCE if assignment.is_chief and not pattern else 0)
        self._log = ProgramLog(
            cluster, assignment, places=places, bucket=bucket, hear=self._hear, hear_open=self._hear_open
        )
        self._progress = Progress(places.progress(cluster.attempt), started=time.monotonic())
        self._silence = Silence()
        self._tasks = TaskLimit(most_tasks())
        self._life = Life(places, account, self._progress, has_gpus(identity.tags))
        self._warned_of_nan = False
        self._metrics = Metrics(bucket, keys.metrics(cluster.run))
        self._checkpoints = CheckpointUpload(
            bucket,
            cluster.run,
            places,
            account,
            keep=job.checkpoints.keep,
            last=last,
            reported=lambda: self._progress.step,
            uploaded=self._checkpointed,
            note=self._log.note,
        )
        self._closing = Closing(cluster, assignment, peers, self._note_at_once)
        self._outputs = Outputs(
            cluster, assignment, job, account=account, places=places, bucket=bucket, note=self._log.note
        )

    def start(self) -> Program:
        """Restore what the attempt restores, clear what an earlier one left, and start the program. Raises
        LeftUnstarted if the attempt has to leave while a service cannot be reached."""
        self._account.end_all()
        fresh(self._places.attempt(self._cluster.attempt))
        with self._account.acting():
            fresh(self._places.progress(self._cluster.attempt).parent)
        with self._heartbeat():
            instead = self._prepare()
            values = self._get("fetching its secrets", self._fetch_secrets)
            self._log.hide(values)
        program = Program.start(
            environment.command_line(self._cluster, self._assignment, self._job, self._places),
            account=self._account,
            folder=self._places.program,
            env=environment.environment(
                self._cluster,
                self._assignment,
                self._job,
                self._places,
                region=self._identity.region,
                image=self._identity.image,
                base=os.environ,
                secrets=values,
            ),
            log=self._log.path,
            exit_file=self._places.exit_code(self._cluster.attempt),
            most_tasks=self._tasks.most,
        )
        program.remember(self._places.process(self._cluster.attempt))
        self._say(
            signals.Started(role=self._assignment.role, index=self._assignment.index, instead=instead or None)
        )
        return program

    def recall(self) -> Program | None:
        """The program that an earlier agent started for this attempt."""
        program = Program.recall(self._places.process(self._cluster.attempt))
        if program is None:
            return None
        held = secrets.held_by(program.itself(), self._job.program.secrets) if program.is_alive() else {}
        with self._heartbeat():
            insistence = self._insistence(None, finished=False)
            self._log.hide(held or insistence.get("fetching its secrets", self._fetch_secrets))
            if self._assignment.is_chief:
                insistence.get("reading its curve", self._metrics.begin)
        return program

    def watch(self, program: Program) -> Outcome:
        """Wait for the program's end, carrying its work away meanwhile; judge the end and say so."""
        started = self._places.process(self._cluster.attempt).stat().st_mtime
        with self._heartbeat():
            insistence = self._insistence(None, finished=False)
            outputs = insistence.get(
                "reading the list of its outputs", lambda: self._outputs.upload(program.runs)
            )
        events = (
            EventFiles(lambda: readable_files(self._places.tensorboard), self._places.tensorboard, started),
            EventFiles(lambda: outputs.event_files, self._places.program, started),
        )
        uploads = uploads_of(
            self._cluster,
            self._assignment,
            keep=self._job.checkpoints.keep,
            account=self._account,
            bucket=self._bucket,
            places=self._places,
            log=self._log,
            metrics=self._metrics,
            checkpoints=self._checkpoints,
            outputs=outputs,
            look=lambda: self._look_at(*events),
        )
        self._checkpoints.runs = program.runs
        uploads.start()
        self._closing.begin()
        killed_before = killed_for_memory()
        parting: Parting | None = None
        itself: int | None = None
        while (code := program.exit_code()) is None:
            itself = itself or program.itself()
            self._listen()
            self._report()
            if self._tasks.look(time.monotonic(), lambda: program.count_tasks(self._account, self._mark)):
                program.kill()
                program.kill_left(self._account, self._mark)
                self._account.end_all()
            if parting is None and (leaving := self._reason_to_leave(uploads) or self._hang(program)):
                parting = self._parting(program, leaving)
            if parting:
                parting.turn(datetime.now(UTC))
            time.sleep(TICK_SECONDS)
        background = self._left_running(program) if code == 0 else ()
        program.kill()  # whatever it left behind in its group, and anywhere else
        program.kill_left(self._account, self._mark)
        self._account.end_all()
        with self._account.acting():
            rights_taken = folders.give_back_rights(
                folders.given_to_program(self._places, self._cluster.attempt)
            )
        with self._heartbeat():
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
            return self._conclude(
                end, parting or self._parting_of_the_machine(program, code), uploads, outputs
            )

    @property
    def _mark(self) -> str:
        """The variable by which this attempt's processes are known."""
        return f"TRAINYARD_PROGRESS={self._places.progress(self._cluster.attempt)}"

    def _left_running(self, program: Program) -> tuple[str, ...]:
        """What the program leaves running when it ends. Its helpers end within moments, once they see that."""
        for _ in range(LOOKS_FOR_BACKGROUND):
            if not program.left_running(self._account, self._mark):
                return ()
            time.sleep(TICK_SECONDS)
        return program.left_running(self._account, self._mark)

    def _exited(self, program: Program, itself: int | None) -> Exit | None:
        with self._account.acting():
            noted = exits.read(self._places.exits(self._cluster.attempt))
        return exits.of_program(noted, keeper=program.pid, pid=itself)

    def _parting_of_the_machine(self, program: Program, code: int) -> Parting | None:
        """A machine that goes down sends SIGTERM to all processes at once, so that the program may end before the agent
        has seen why. None unless that comes out within moments."""
        if code != 128 + signal.SIGTERM or not self._watchdog.going_down.wait(GOING_DOWN_SECONDS):
            return None
        leaving = self._order_to_leave()
        return replace(self._parting(program, leaving), asked_at=datetime.now(UTC)) if leaving else None

    def _parting(self, program: Program, leaving: Leaving) -> Parting:
        return Parting(
            program,
            leaving,
            saves=self._run_has_saved(),
            saved=lambda: self._checkpoints.last,
            chief_has_left=self._chief_has_left,
            note=self._log.note,
        )

    def _run_has_saved(self) -> bool:
        """Of other hosts than the chief's the bucket knows. Whoever cannot ask it waits for nothing, and so does an
        evaluator, which has no part in what is saved."""
        if self._assignment.is_chief:
            return self._checkpoints.last.step >= 0
        if self._assignment.role is Role.EVALUATOR:
            return False
        try:
            return in_bucket.catalogue_of(self._bucket, self._cluster.run) is not None
        except HostTrouble as trouble:
            self._log.note(f"whether the run has saved is unknown: {trouble.reason}")
            return False

    def _chief_has_left(self) -> bool:
        if self._assignment.is_chief:
            return False
        state = self._peers.state_of(self._cluster.chief)
        return state is not None and state.ended is not None

    def _fetch_secrets(self) -> dict[str, str]:
        return secrets.fetch(self._job.program.secrets, yard=self._identity.tags[Tag.YARD], client=self._ssm)

    def _prepare(self) -> str | None:
        """What must be on the disk before the program starts; why another checkpoint than the one named, if so."""
        asked = self._cluster.checkpoint
        alone = self._cluster.restores_alone(self._assignment)

        def restore_checkpoint() -> Restored:
            with self._account.acting():
                return restore(self._bucket, self._cluster.run, asked, self._places, alone=alone)

        def fetch_data() -> None:
            with self._account.acting():
                fetch_shares(
                    self._bucket,
                    self._cluster,
                    self._assignment,
                    self._job,
                    self._places,
                    given_up=lambda: bool(self._order_to_leave()),
                )

        restored = self._get("restoring its checkpoint", restore_checkpoint)
        self._checkpoints.last = restored.checkpoint
        self._note_checkpoint(restored.checkpoint)
        self._get("fetching its data", fetch_data)
        with self._account.acting():
            self._places.results.mkdir(exist_ok=True)
            keras_home.link(self._places)
        self._get("restoring its outputs", self._outputs.begin)
        if self._assignment.is_chief:
            self._restore_history()
            # the number of a counted checkpoint is no step of the program's, and outputs have none
            counted = bool(restored.checkpoint.folder) or self._outputs.restored > 0
            up_to = math.inf if counted else restored.checkpoint.step
            self._get("reading its curve", lambda: self._metrics.begin(up_to=up_to, begins=counted))
        fresh_start = "no checkpoint to restore" if self._outputs.restored else "a fresh start"
        what = f"restore {restored.called}" if asked else fresh_start
        if restored.instead:
            self._log.note(restored.instead)
        if not self._account.is_another:
            logger.info(NOBODY_ELSE)
        self._log.note(f"attempt {self._cluster.attempt} on {self._assignment.instance}: {what}")
        return restored.instead

    def _restore_history(self) -> None:
        """A run does without the logs of its earlier attempts if they cannot be fetched."""
        if self._cluster.attempt == 1:
            return

        def fetch_history() -> None:
            with self._account.acting():
                history.restore(self._bucket, keys.tensorboard(self._cluster.run), self._places.tensorboard)

        try:
            self._get("fetching the logs of earlier attempts", fetch_history)
        except (HostTrouble, OSError) as trouble:
            self._log.note(f"what earlier attempts left in ${{tensorboard}} is not restored: {trouble}")

    def _get(self, what: str, act: Callable[[], Value]) -> Value:
        """Return what `act` returns, and try again while a service cannot be reached. Raises its other troubles, and
        LeftUnstarted once the attempt has to leave."""
        insistence = Insistence(
            has_to_end=lambda: leaving.in_words if (leaving := self._order_to_leave()) else None,
            until=lambda: min(self._cluster.deadline, self._watchdog.lease.until),
            note=self._log.note,
            disk_trouble=self._disk.trouble,
            passes=is_unreachable,
        )
        try:
            return insistence.get(what, act)
        except HostTrouble as trouble:
            if not trouble.final and (leaving := self._order_to_leave()):
                raise LeftUnstarted(leaving) from trouble
            raise

    def _reason_to_leave(self, uploads: Uploads) -> Leaving | None:
        trouble = uploads.trouble
        troubled = leave_for_trouble(trouble, datetime.now(UTC)) if trouble else None
        return self._order_to_leave() or troubled or self._closing.leaving()

    def _hang(self, program: Program) -> Leaving | None:
        """The chief's host alone judges: where another's program hangs, the chief's waits for it in vain. The others
        say whether theirs works, but for an evaluator: that it works is no sign that anybody trains."""
        hangs = self._silence.hangs(time.monotonic(), lambda: self._signs_of_life(program))
        speaks = not self._assignment.is_chief and self._assignment.role is not Role.EVALUATOR
        if speaks and self._silence.works:
            self._peers.say_works(time.monotonic(), datetime.now(UTC))
        if not (hangs and self._assignment.is_chief):
            return None
        self._log.note(silence.SAID)
        return leave_since_it_hangs(datetime.now(UTC))

    def _order_to_leave(self) -> Leaving | None:
        stop = orders.latest(OrderKind.STOP, self._places)
        return order_to_leave(
            notice=self._watchdog.notice,
            going_down=self._watchdog.going_down.is_set(),
            stop_ordered=self._watchdog.pooled
            or bool(stop and stop.run == self._cluster.run and stop.attempt >= self._cluster.attempt),
            deadline=self._cluster.deadline,
            lease=self._watchdog.lease,
            now=datetime.now(UTC),
        )

    def _conclude(
        self, end: End, parting: Parting | None, uploads: Uploads, outputs: OutputsUpload
    ) -> Outcome:
        leaving, code = parting.leaving if parting else None, end.code
        room = self._disk.room()
        if room.is_full:
            self._disk.release()
        self._log.note(f"the program ended with exit code {code}")
        self._listen()
        code, tail = torchrun.seen_through(code, self._log.tail)
        end = replace(
            end,
            code=code,
            tail=ending.up_to_its_cell(tail),
            asked=leaving.reported if leaving else None,
            hears=bool(parting and parting.asked_at and parting.heard),
            at_end=self._is_at_its_end(parting.asked_at if parting else None),
            killed=bool(parting and parting.killed),
            gang=len(self._cluster.assignments),
            serves=self._cluster.serves(self._assignment),
            room=room,
            exited=self._hidden(end.exited),
            strict=self._job.program.strict,
        )
        end = replace(end, lacked=self._place_without_room(end))
        self._peers.say_ended(ending.RESTART if end.left_early else code, datetime.now(UTC))
        if code == 0 and not leaving:
            self._wait_for_workers()
            self._closing.say_closing()
        self._checkpoints.ends_well, self._checkpoints.has_finished = end.is_whole, code == 0
        outputs.ends_well = end.is_whole
        insistence = self._insistence(leaving, finished=code == 0 and not leaving)
        has_failed = isinstance(ending.decide(end), Failed)
        lacking = uploads.finish(
            "checkpoints",
            "events",
            insistence=insistence,
            most_seconds=EXTRAS_SECONDS if has_failed else None,
        )
        self._listen()  # also to what these have noted and seen
        ended = ending.decide(replace(end, missing=self._missing() if self._assignment.is_chief else ()))
        if isinstance(ended, Failed | Stopped) and self._is_no_news(leaving):
            self._log.note("the chief has finished, so that this program did not is no news")
            self._listen()
            ended = Finished()
        results: dict[str, Any] = {}
        left: dict[str, str] = {}
        if isinstance(ended, Finished) and self._assignment.is_chief:
            lacking = lacking or self._bring_results(insistence, results)
            self._wait_for_evaluator()
        extras = uploads.finish("tensorboard", "notebook", insistence=insistence, most_seconds=EXTRAS_SECONDS)
        lost = self._outputs.lost_outside()
        self._outputs.hurry(outputs, leaving)
        # outputs may be all that a finished program left
        most_seconds = None if isinstance(ended, Finished) else EXTRAS_SECONDS
        outputs_lack = uploads.finish("outputs", insistence=insistence, most_seconds=most_seconds)
        if isinstance(ended, Finished) and self._assignment.is_chief:
            self._closing.wait(insistence.has_to_end)
            left = self._left_nothing(outputs)
        self._listen()  # also to what these have left out
        last = uploads.finish("log", "metrics", insistence=insistence, most_seconds=EXTRAS_SECONDS)
        self._closing.say_uploaded()
        extras = extras or last
        if leaving and leaving.trouble and isinstance(ended, Stopped):
            lacking = Lacking("work", leaving.trouble)
        ended = with_what_lacks(ended, code, lacking, extras)
        if end.rights_taken and isinstance(ended, Finished):
            ended = Failed(FailureKind.PROGRAM, folders.why_failed(end.rights_taken), code, final=True)
        if outputs_lack and isinstance(ended, Finished):
            trouble = outputs_lack.trouble.reason
            ended = Finished((*ended.but, f"its outputs could not be uploaded whole: {trouble}"))
        if isinstance(ended, Finished):
            ended = Finished((*ended.but, *lost))
        match ended:
            case Finished(but):
                step = self._step(results.get("step"))
                facts = {**results, "step": step, **left, **self._progress.restored}
                if (loss := not_finite(results.get("loss"))) is not None:
                    facts |= self._progress.not_finite
                    but = (
                        *but,
                        f"its loss has been {floats.text_of(loss)} since step {self._nan_since(step)}",
                    )
                finished = signals.Finished(but=tuple(but), **facts)
                return Outcome(ended, finished if self._assignment.is_chief else None)
            case Stopped(why, words):
                return Outcome(ended, signals.Stopped(why=why, reason=words or None, **self._how_far))
            case Failed():
                if ending.waits_for_the_chief(ended, is_chief=self._assignment.is_chief):
                    time.sleep(ending.CHIEF_FIRST_SECONDS)
                    if self._closing.has_finished():
                        return Outcome(Finished(), None)
                tail = ending.last_lines(end.tail.encode())
                return Outcome(ended, failed(ended, tail, how_far=self._how_far))

    def _nan_since(self, step: int | None) -> int:
        """The step since which the loss has been no number, at the latest the last one."""
        since = self._progress.nan_since
        return since if since is not None else step or 0

    def _is_at_its_end(self, asked_at: datetime | None) -> bool:
        """Return True if the program has come to its last step, or, if its steps are unknown, has written metrics.json
        since it was asked to leave."""
        if "steps" in self._progress.known:
            return self._progress.is_at_its_end
        with self._account.acting():
            try:
                written = self._places.metrics.stat().st_mtime
            except OSError:
                return False
        return asked_at is not None and written >= asked_at.timestamp()

    def _hidden(self, exited: Exit | None) -> Exit | None:
        """The exit without the values of secrets."""
        return exited and replace(
            exited, exception=exited.exception and self._log.without_secrets(exited.exception)
        )

    def _place_without_room(self, end: End) -> Room | None:
        """The room on the file system of which the program's error says that it had none."""
        named = tracebacks.place_without_room(end.shown)
        if named:
            return room_at(Path(named))
        if named == "" and not (end.room and end.room.is_full) and room_at(SHARED_MEMORY).is_full:
            return room_at(SHARED_MEMORY)  # a semaphore's error names no path
        return None

    def _wait_for_workers(self) -> None:
        """The end of the chief's program ends the attempt: those that train on by themselves are waited for, as long as
        they work and nobody wants the gang to leave."""
        others = self._cluster.trains_beside(self._assignment)
        still = StillTraining(time.monotonic())
        said: tuple[str, ...] = ()
        while others and (trains := still.among(self._peers.states_of(others), time.monotonic())):
            if self._order_to_leave():
                return
            if trains != said:
                self._log.note(
                    f"the chief has finished; waiting for those that still train: {', '.join(trains)}"
                )
                said = trains
            time.sleep(WORKERS_LOOK_SECONDS)

    def _wait_for_evaluator(self) -> None:
        """It has the last checkpoint only now; the end of the attempt would end it at once."""
        end = time.monotonic() + EVALUATION_SECONDS
        evaluators = self._cluster.evaluators if self._checkpoints.last.step >= 0 else ()
        while any(not has_ended(state) for state in self._peers.states_of(evaluators).values()):
            if self._order_to_leave():
                return
            if time.monotonic() >= end:
                self._log.note(
                    f"the evaluator has not ended {EVALUATION_SECONDS:g} seconds after the last checkpoint"
                )
                self._listen()
                return
            time.sleep(WORKERS_LOOK_SECONDS)

    def _is_no_news(self, leaving: Leaving | None) -> bool:
        """Return True if the chief has finished without this host's program."""
        if leaving:
            return leaving.why == FINISHED
        return self._chief_has_finished() or self._closing.has_finished()

    def _chief_has_finished(self) -> bool:
        """On a host whose program the chief can do without."""
        if not self._cluster.is_done_without(self._assignment):
            return False
        state = self._peers.state_of(self._cluster.chief)
        return state is not None and state.finished

    def _listen(self) -> None:
        """Take in what the program has printed and reported since the last time."""
        now = datetime.now(UTC)
        with self._account.acting():
            reported = self._progress.update()
        for facts in reported:
            self._metrics.add(facts, now)
        self._log.stamp(now)
        if not self._progress.reports:
            self._read_heard()
        while not self._seen.empty():
            source, seen = self._seen.get()
            facts = self._progress.see(seen, source)
            if facts:
                self._metrics.add(facts, now)
        self._warn_of_nan()

    def _warn_of_nan(self) -> None:
        """Once an attempt: a loss that is NaN seldom becomes a number again, and every further hour is billed."""
        since = self._progress.nan_since
        if since is None or self._warned_of_nan:
            return
        self._warned_of_nan = True
        loss = floats.text_of(self._progress.known.get("loss", math.nan))
        self._log.note(
            f"the loss has been {loss} since step {since}. The program goes on, and its hosts are billed. "
            f"To stop it: {command_line('stop', self._cluster.run)}"
        )

    def _hear(self, line: str) -> None:
        self._life.hear(line)
        if self._heard.maxlen and may_say(line):
            self._heard.append(line)
        facts = self._printed.facts(line) if self._printed else {}
        if facts:
            self._seen.put((Source.PATTERN, facts))

    def _hear_open(self, line: str) -> None:
        self._life.hear(line)

    def _read_heard(self) -> None:
        """Read progress from the newest lines: reading every line of a program that prints very many would be slow."""
        for line in self._heard:
            if facts := self._lines.facts(line):
                counts_steps = self._lines.counts_steps
                self._seen.put((Source.PRINTED_STEPS if counts_steps else Source.PRINTED_EPOCHS, facts))
        self._heard.clear()

    def _look_at(self, *events: EventFiles) -> None:
        """From a thread of its own: TensorBoard's scalars, unless the program or the job's pattern tells more."""
        if self._progress.reports or self._printed:
            return
        with self._account.acting():
            found = [(each, facts) for each in events for facts in each.look()]
        for each, facts in found:
            self._seen.put((Source.EVENT_STEPS if each.counts_steps else Source.EVENT_EPOCHS, facts))

    def _report(self) -> None:
        """As long as this loop turns, whether or not the program does anything: the run's heartbeat is the host's."""
        if not self._assignment.is_chief:
            return
        facts = self._progress.due(time.monotonic())
        if facts is not None:
            self._say(signals.Progress(**facts))

    def _signs_of_life(self, program: Program) -> Hashable:
        """Those of this host's program and, where the chief reports nothing itself, of its peers': it may wait for what
        they compute."""
        own = self._life.signs(program)
        asks = self._assignment.is_chief and self._peers.are_there and not self._progress.reports
        return (own, self._peers.signs(time.monotonic())) if asks else own

    @contextmanager
    def _heartbeat(self) -> Iterator[None]:
        """Inside, the agent itself works, and its heartbeat comes from a thread of its own."""
        beat = Repeat(
            "heartbeat",
            lambda _: self._say(signals.Progress(**self._progress.all)),
            every=ALIVE_SECONDS,
        )
        if self._assignment.is_chief:
            beat.start()
        try:
            yield
        finally:
            if self._assignment.is_chief:
                beat.end()

    def _checkpointed(self, last: LastCheckpoint, version: Version) -> None:
        step = version.step if last.tells_step else self._progress.step
        self._say(signals.Checkpointed(step=step, key=version.key))
        self._note_checkpoint(last)

    def _missing(self) -> tuple[str, ...]:
        with self._account.acting():
            return results.missing(
                self._job.program.expect, self._places, has_checkpoint=self._checkpoints.last.step >= 0
            )

    def _left_nothing(self, outputs: OutputsUpload) -> dict[str, str]:
        """Return a sentence for the signal if the program has left nothing at all."""
        with self._account.acting():
            saved = self._checkpoints.last.step >= 0
            missing = results.missing(RESULTS, self._places, has_checkpoint=saved)
            found = len(missing) < len(RESULTS) or any(readable_files(self._places.notebook))
        if found or outputs.index.count:
            return {}
        said = results.nothing_left(keeps_outputs=outputs.keeps)
        self._log.note(said)
        return {"left": said}

    def _bring_results(self, insistence: Insistence, results: dict[str, Any]) -> Lacking | None:
        """Model and metrics.json into the bucket, and into `results` how far the program came, as metrics.json says it
        where it does; what could not be uploaded."""
        left_out = LeftOut(self._log.note, "${model}")
        model = FolderUpload(self._bucket, self._places.model, keys.model(self._cluster.run), left_out)

        def send_model() -> None:
            with self._account.acting():
                model.send(last=True)

        def send_metrics() -> None:
            with self._account.acting():
                document = self._metrics.conclude(self._places.metrics)
            if document is None and self._places.metrics.is_file():
                self._log.note("metrics.json holds no JSON object and is left out")
                self._listen()
            results.update(facts_in(document) if document else self._progress.known)

        for what, send in (("model", send_model), ("metrics.json", send_metrics)):
            if trouble := insistence.bring(what, send):
                return Lacking(what, trouble)
        return None

    def _insistence(self, leaving: Leaving | None, *, finished: bool) -> Insistence:
        """How long the host tries to upload what the program has left."""
        asked_at = datetime.now(UTC) if leaving and leaving.why is StopReason.ASKED else None

        def until() -> datetime:
            return min(self._cluster.deadline, self._watchdog.lease.until)

        def has_to_end() -> str | None:
            nonlocal asked_at
            now, order = datetime.now(UTC), self._order_to_leave()
            if order and order.why is StopReason.ASKED:
                asked_at = asked_at or now
            notice = self._watchdog.notice
            return why_it_has_to_end(
                notice_at=notice.at if notice else None,
                going_down=self._watchdog.going_down.is_set(),
                asked_at=asked_at,
                until=until(),
                now=now,
            )

        return Insistence(
            has_to_end=has_to_end,
            until=until,
            note=self._note_at_once,
            disk_trouble=self._disk.trouble,
            denied_seconds=patience_with_denials(self._ran_seconds()) if finished else None,
        )

    def _ran_seconds(self) -> float:
        return max(0.0, time.time() - self._places.process(self._cluster.attempt).stat().st_mtime)

    def _note_at_once(self, text: str) -> None:
        """Write a line into the program's log and let it be sent, also after the program's end."""
        self._log.note(text)
        self._listen()

    def _step(self, written: int | None = None) -> int | None:
        """The last step this host knows of: what is saved, where that tells, what was reported, or `written` by the
        program into metrics.json."""
        last = self._checkpoints.last
        told = (last.step if last.tells_step else None, self._progress.step, written)
        return max((step for step in told if step is not None), default=None)

    @property
    def _how_far(self) -> dict[str, Any]:
        """How far the program came, for the last signal of an attempt that did not finish."""
        return {**self._progress.all, "step": self._step()}
