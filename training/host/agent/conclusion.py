"""The end of a program: how it is judged, what is brought away, and the signal that reports it."""

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from training.host.agent.closing import Closing
from training.host.agent.deadlines.notice import (
    FINISHED,
    Leaving,
)
from training.host.agent.insistence import (
    EXTRAS_SECONDS,
    Insistence,
    patience_with_denials,
    why_it_has_to_end,
)
from training.host.agent.life import StillTraining, has_ended
from training.host.agent.listening import Listening
from training.host.agent.outputs import Outputs
from training.host.agent.parting import Parting
from training.host.agent.surroundings import Surroundings
from training.host.agent.uploads import Lacking, Uploads
from training.host.checkpoints.upload import CheckpointUpload
from training.host.disk import SHARED_MEMORY, Room, readable_files, room_at
from training.host.keys import LeftOut
from training.host.outputs.upload import OutputsUpload
from training.host.program import ending, folders, torchrun, tracebacks
from training.host.program.ending import End, Failed, Finished, Stopped
from training.host.program.exits import Exit
from training.host.reporting import results
from training.host.reporting.outbox import failed
from training.host.reporting.progress import facts_in, not_finite
from training.host.reporting.results import FolderUpload
from trainyard.protocol import keys, signals
from trainyard.protocol.processes import RESTART
from trainyard.protocol.signals import FailureKind, Signal, StopReason
from trainyard.values import floats

WORKERS_LOOK_SECONDS = 2.0
EVALUATION_SECONDS = 60.0
"""How long a chief that has finished waits for an evaluator that does not end by itself."""
RESULTS = ("model", "metrics", "checkpoint")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended, with the signal that says so (None: nothing to say, the chief speaks)."""

    ending: Finished | Stopped | Failed
    signal: Signal | None

    @property
    def may_go_on(self) -> bool:
        """Return True if this host may train in another attempt. A program that has finished may be needed again: a
        host may be lost before the chief's results are uploaded, or before its `finished` arrives."""
        match self.ending:
            case Stopped(why):
                return why is not StopReason.INTERRUPTED
            case Failed():
                return self.ending.kind is FailureKind.HOST and not self.ending.final
            case Finished():
                return True


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


class Conclusion:
    """Decides how an attempt has ended, and brings away what its program has left."""

    def __init__(
        self,
        around: Surroundings,
        listening: Listening,
        checkpoints: CheckpointUpload,
        outputs: Outputs,
        closing: Closing,
    ) -> None:
        self._around, self._listening = around, listening
        self._checkpoints, self._outputs, self._closing = checkpoints, outputs, closing

    def conclude(
        self, end: End, parting: Parting | None, uploads: Uploads, outputs: OutputsUpload
    ) -> Outcome:
        leaving, code = parting.leaving if parting else None, end.code
        room = self._around.disk.room()
        if room.is_full:
            self._around.disk.release()
        self._listening.log.note(f"the program ended with exit code {code}")
        self._listening.listen()
        code, tail = torchrun.seen_through(code, self._listening.log.tail)
        end = replace(
            end,
            code=code,
            tail=ending.up_to_its_cell(tail),
            asked=leaving.reported if leaving else None,
            hears=bool(parting and parting.asked_at and parting.heard),
            at_end=self._is_at_its_end(parting.asked_at if parting else None),
            killed=bool(parting and parting.killed),
            gang=len(self._around.cluster.assignments),
            serves=self._around.cluster.serves(self._around.assignment),
            room=room,
            exited=self._hidden(end.exited),
            strict=self._around.job.program.strict,
        )
        end = replace(end, lacked=self._place_without_room(end))
        self._around.peers.say_ended(RESTART if end.left_early else code, datetime.now(UTC))
        if code == 0 and not leaving:
            self._wait_for_workers()
            self._closing.say_closing()
        self._checkpoints.ends_well, self._checkpoints.has_finished = end.is_whole, code == 0
        outputs.ends_well = end.is_whole
        insistence = self.insistence(leaving, finished=code == 0 and not leaving)
        has_failed = isinstance(ending.decide(end), Failed)
        lacking = uploads.finish(
            "checkpoints",
            "events",
            insistence=insistence,
            most_seconds=EXTRAS_SECONDS if has_failed else None,
        )
        self._listening.listen()  # also to what these have noted and seen
        ended = ending.decide(
            replace(end, missing=self._missing() if self._around.assignment.is_chief else ())
        )
        if isinstance(ended, Failed | Stopped) and self._is_no_news(leaving):
            self._listening.log.note("the chief has finished, so that this program did not is no news")
            self._listening.listen()
            ended = Finished()
        results: dict[str, Any] = {}
        left: dict[str, str] = {}
        if isinstance(ended, Finished) and self._around.assignment.is_chief:
            lacking = lacking or self._bring_results(insistence, results)
            self._wait_for_evaluator()
        extras = uploads.finish("tensorboard", "notebook", insistence=insistence, most_seconds=EXTRAS_SECONDS)
        lost = self._outputs.lost_outside()
        self._outputs.hurry(outputs, leaving)
        # outputs may be all that a finished program left
        most_seconds = None if isinstance(ended, Finished) else EXTRAS_SECONDS
        outputs_lack = uploads.finish("outputs", insistence=insistence, most_seconds=most_seconds)
        if isinstance(ended, Finished) and self._around.assignment.is_chief:
            self._closing.wait(insistence.has_to_end)
            left = self._left_nothing(outputs)
        self._listening.listen()  # also to what these have left out
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
                facts = {**results, "step": step, **left, **self._listening.progress.restored}
                if (loss := not_finite(results.get("loss"))) is not None:
                    facts |= self._listening.progress.not_finite
                    but = (
                        *but,
                        f"its loss has been {floats.text_of(loss)} since step {self._listening.nan_since(step)}",
                    )
                finished = signals.Finished(but=tuple(but), **facts)
                return Outcome(ended, finished if self._around.assignment.is_chief else None)
            case Stopped(why, words):
                return Outcome(ended, signals.Stopped(why=why, reason=words or None, **self._how_far))
            case Failed():
                if ending.waits_for_the_chief(ended, is_chief=self._around.assignment.is_chief):
                    time.sleep(ending.CHIEF_FIRST_SECONDS)
                    if self._closing.has_finished():
                        return Outcome(Finished(), None)
                tail = ending.last_lines(end.tail.encode())
                return Outcome(ended, failed(ended, tail, how_far=self._how_far))

    def insistence(self, leaving: Leaving | None, *, finished: bool) -> Insistence:
        """How long the host tries to upload what the program has left."""
        asked_at = datetime.now(UTC) if leaving and leaving.why is StopReason.ASKED else None

        def until() -> datetime:
            return min(self._around.cluster.deadline, self._around.watchdog.lease.until)

        def has_to_end() -> str | None:
            nonlocal asked_at
            now, order = datetime.now(UTC), self._around.order_to_leave()
            if order and order.why is StopReason.ASKED:
                asked_at = asked_at or now
            notice = self._around.watchdog.notice
            return why_it_has_to_end(
                notice_at=notice.at if notice else None,
                going_down=self._around.watchdog.going_down.is_set(),
                asked_at=asked_at,
                until=until(),
                now=now,
            )

        return Insistence(
            has_to_end=has_to_end,
            until=until,
            note=self._listening.note_at_once,
            disk_trouble=self._around.disk.trouble,
            denied_seconds=patience_with_denials(self._ran_seconds()) if finished else None,
        )

    def _is_at_its_end(self, asked_at: datetime | None) -> bool:
        """Return True if the program has come to its last step, or, if its steps are unknown, has written metrics.json
        since it was asked to leave."""
        if "steps" in self._listening.progress.known:
            return self._listening.progress.is_at_its_end
        with self._around.account.acting():
            try:
                written = self._around.paths.metrics.stat().st_mtime
            except OSError:
                return False
        return asked_at is not None and written >= asked_at.timestamp()

    def _hidden(self, exited: Exit | None) -> Exit | None:
        """The exit without the values of secrets."""
        return exited and replace(
            exited, exception=exited.exception and self._listening.log.without_secrets(exited.exception)
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
        others = self._around.cluster.trains_beside(self._around.assignment)
        still = StillTraining(time.monotonic())
        said: tuple[str, ...] = ()
        while others and (trains := still.among(self._around.peers.states_of(others), time.monotonic())):
            if self._around.order_to_leave():
                return
            if trains != said:
                self._listening.log.note(
                    f"the chief has finished; waiting for those that still train: {', '.join(trains)}"
                )
                said = trains
            time.sleep(WORKERS_LOOK_SECONDS)

    def _wait_for_evaluator(self) -> None:
        """It has the last checkpoint only now; the end of the attempt would end it at once."""
        end = time.monotonic() + EVALUATION_SECONDS
        evaluators = self._around.cluster.evaluators if self._checkpoints.last.step >= 0 else ()
        while any(not has_ended(state) for state in self._around.peers.states_of(evaluators).values()):
            if self._around.order_to_leave():
                return
            if time.monotonic() >= end:
                self._listening.log.note(
                    f"the evaluator has not ended {EVALUATION_SECONDS:g} seconds after the last checkpoint"
                )
                self._listening.listen()
                return
            time.sleep(WORKERS_LOOK_SECONDS)

    def _is_no_news(self, leaving: Leaving | None) -> bool:
        """Return True if the chief has finished without this host's program."""
        if leaving:
            return leaving.why == FINISHED
        return self._chief_has_finished() or self._closing.has_finished()

    def _chief_has_finished(self) -> bool:
        """On a host whose program the chief can do without."""
        if not self._around.cluster.is_done_without(self._around.assignment):
            return False
        state = self._around.peers.state_of(self._around.cluster.chief)
        return state is not None and state.finished

    def _missing(self) -> tuple[str, ...]:
        with self._around.account.acting():
            return results.missing(
                self._around.job.program.expect,
                self._around.paths,
                has_checkpoint=self._checkpoints.last.step >= 0,
            )

    def _left_nothing(self, outputs: OutputsUpload) -> dict[str, str]:
        """Return a sentence for the signal if the program has left nothing at all."""
        with self._around.account.acting():
            saved = self._checkpoints.last.step >= 0
            missing = results.missing(RESULTS, self._around.paths, has_checkpoint=saved)
            found = len(missing) < len(RESULTS) or any(readable_files(self._around.paths.notebook))
        if found or outputs.index.count:
            return {}
        said = results.nothing_left(keeps_outputs=outputs.keeps)
        self._listening.log.note(said)
        return {"left": said}

    def _bring_results(self, insistence: Insistence, results: dict[str, Any]) -> Lacking | None:
        """Model and metrics.json into the bucket, and into `results` how far the program came, as metrics.json says it
        where it does; what could not be uploaded."""
        left_out = LeftOut(self._listening.log.note, "${model}")
        model = FolderUpload(
            self._around.bucket, self._around.paths.model, keys.model(self._around.cluster.run), left_out
        )

        def send_model() -> None:
            with self._around.account.acting():
                model.send(last=True)

        def send_metrics() -> None:
            with self._around.account.acting():
                document = self._listening.metrics.conclude(self._around.paths.metrics)
            if document is None and self._around.paths.metrics.is_file():
                self._listening.log.note("metrics.json holds no JSON object and is left out")
                self._listening.listen()
            results.update(facts_in(document) if document else self._listening.progress.known)

        for what, send in (("model", send_model), ("metrics.json", send_metrics)):
            if trouble := insistence.bring(what, send):
                return Lacking(what, trouble)
        return None

    def _ran_seconds(self) -> float:
        return max(
            0.0, time.time() - self._around.paths.process(self._around.cluster.attempt).stat().st_mtime
        )

    def _step(self, written: int | None = None) -> int | None:
        """The last step this host knows of: what is saved, where that tells, what was reported, or `written` by the
        program into metrics.json."""
        last = self._checkpoints.last
        told = (last.step if last.tells_step else None, self._listening.progress.step, written)
        return max((step for step in told if step is not None), default=None)

    @property
    def _how_far(self) -> dict[str, Any]:
        """How far the program came, for the last signal of an attempt that did not finish."""
        return {**self._listening.progress.all, "step": self._step()}
