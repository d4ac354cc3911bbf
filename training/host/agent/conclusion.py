"""The end of a program: decide how it ended, upload its files, and return the signal that reports it."""

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from training.host.agent.closing import Closing
from training.host.agent.context import Context
from training.host.agent.deadlines.drain import FINISHED, Drain
from training.host.agent.draining import Draining
from training.host.agent.life import StillTraining, has_ended
from training.host.agent.monitor import Monitor
from training.host.agent.outputs import Outputs
from training.host.agent.retries import (
    EXTRAS_SECONDS,
    Retries,
    patience_with_denials,
    reason_to_end,
)
from training.host.agent.tracking import Tracking
from training.host.agent.uploads import FailedUpload, Uploads
from training.host.checkpoints.upload import CheckpointUpload
from training.host.disk import SHARED_MEMORY, Room, readable_files, room_at
from training.host.keys import LeftOut
from training.host.outputs.upload import OutputsUpload
from training.host.program import ending, exports, folders, torchrun, tracebacks
from training.host.program.ending import End, Failed, Finished, Stopped
from training.host.program.exits import Exit
from training.host.program.tasks import most_tasks
from training.host.reporting import results as results_of
from training.host.reporting.outbox import failed_signal
from training.host.reporting.progress import metrics_in, not_finite
from training.host.reporting.results import FolderUpload
from trainyard.protocol import keys, signals
from trainyard.protocol.processes import RESTART
from trainyard.protocol.signals import FailureKind, Signal, StopReason
from trainyard.values import floats

WORKERS_LOOK_SECONDS = 2.0
EVALUATION_SECONDS = 60.0
"""Time that a finished chief waits for an evaluator that does not end by itself."""
RESULTS = ("model", "metrics", "checkpoint")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a program, with the signal that reports it (None if only the chief reports it)."""

    ending: Finished | Stopped | Failed
    signal: Signal | None

    @property
    def may_continue(self) -> bool:
        """Return True if this host may train in another attempt. Even a finished program may be needed again: a host
        may be lost before the chief's results are uploaded, or before its `finished` arrives."""
        match self.ending:
            case Stopped(why):
                return why is not StopReason.INTERRUPTED
            case Failed():
                return self.ending.kind is FailureKind.HOST and not self.ending.final
            case Finished():
                return True


def add_failed_uploads(
    ended: Finished | Stopped | Failed,
    code: int,
    failed_upload: FailedUpload | None,
    extras: FailedUpload | None,
) -> Finished | Stopped | Failed:
    """Return the end of a program whose work could not be uploaded. The program's own failure takes precedence. A
    finished training is never repeated for an upload: without its results it has failed for good; without its log or
    curves it has finished."""
    if isinstance(ended, Failed):
        return ended
    if isinstance(ended, Stopped):
        what = failed_upload or extras
        return Failed(what.kind, what.trouble.reason, code, what.trouble.final) if what else ended
    if failed_upload or (extras and extras.trouble.final):
        what = failed_upload or extras
        assert what is not None, "one of them is there"
        reason = f"the program finished, but its {what.what} could not be uploaded: {what.trouble.reason}"
        return Failed(what.kind, reason, code, final=True)
    if extras:
        return Finished(
            (*ended.but, f"its {extras.what} could not be uploaded whole: {extras.trouble.reason}")
        )
    return ended


class Conclusion:
    """Decides how an attempt has ended, and uploads the files of its program."""

    def __init__(
        self,
        context: Context,
        monitor: Monitor,
        checkpoints: CheckpointUpload,
        outputs: Outputs,
        closing: Closing,
        tracking: Tracking,
    ) -> None:
        self._context, self._monitor = context, monitor
        self._checkpoints, self._outputs = checkpoints, outputs
        self._closing, self._tracking = closing, tracking

    def conclude(
        self, end: End, draining: Draining | None, uploads: Uploads, outputs: OutputsUpload
    ) -> Outcome:
        drain, code = draining.drain if draining else None, end.code
        unprepared: str | None = None
        room = self._context.disk.room()
        if room.is_full:
            self._context.disk.release()
        self._monitor.log.note(f"the program ended with exit code {code}")
        self._monitor.listen()
        code, tail = torchrun.unwrap(code, self._monitor.log.tail)
        end = replace(
            end,
            code=code,
            tail=ending.up_to_its_cell(tail),
            asked=drain.stop_reason if drain else None,
            handled_sigterm=bool(draining and draining.asked_at and draining.had_handler),
            at_end=self._is_at_its_end(draining.asked_at if draining else None),
            killed=bool(draining and draining.killed),
            gang=len(self._context.cluster.assignments),
            serves=self._context.cluster.serves(self._context.assignment),
            room=room,
            exited=self._without_secrets(end.exited),
            strict=self._context.job.program.strict,
        )
        end = replace(end, lacked=self._full_file_system(end))
        self._context.peers.report_ended(RESTART if end.left_early else code, datetime.now(UTC))
        if code == 0 and not drain:
            self._wait_for_workers()
            self._closing.report_closing()
            unprepared = self._prepare_models()
        self._checkpoints.ends_well, self._checkpoints.has_finished = end.is_whole, code == 0
        outputs.ends_well = end.is_whole
        retries = self.retries(drain, finished=code == 0 and not drain)
        has_failed = isinstance(ending.decide(end), Failed)
        failed_upload = uploads.finish(
            "checkpoints",
            "events",
            retries=retries,
            most_seconds=EXTRAS_SECONDS if has_failed else None,
        )
        self._monitor.listen()  # the uploads may have added lines and values
        ended = ending.decide(
            replace(end, missing=self._missing() if self._context.assignment.is_chief else ())
        )
        if isinstance(ended, Failed | Stopped) and self._is_superseded_by_chief(drain):
            self._monitor.log.note("the chief has finished, so this program's failure does not matter")
            self._monitor.listen()
            ended = Finished()
        results: dict[str, Any] = {}
        working_folder = None
        if isinstance(ended, Finished) and self._context.assignment.is_chief:
            failed_upload = failed_upload or self._upload_results(retries, results)
            self._wait_for_evaluator()
        extras = uploads.finish("tensorboard", "notebook", retries=retries, most_seconds=EXTRAS_SECONDS)
        lost = self._outputs.lost_outside()
        self._outputs.hurry(outputs, drain)
        # the outputs may be all that a finished program has left
        most_seconds = None if isinstance(ended, Finished) else EXTRAS_SECONDS
        failed_outputs = uploads.finish("outputs", retries=retries, most_seconds=most_seconds)
        if isinstance(ended, Finished) and self._context.assignment.is_chief:
            self._closing.wait(retries.has_to_end)
            working_folder = self._note_missing_results(outputs)
        self._tracking.end(ended, retries.has_to_end)
        self._monitor.listen()  # the uploads may have noted files that they left out
        last = uploads.finish("log", "metrics", retries=retries, most_seconds=EXTRAS_SECONDS)
        self._closing.report_uploaded()
        extras = extras or last
        if drain and drain.trouble and isinstance(ended, Stopped):
            failed_upload = FailedUpload("work", drain.trouble)
        ended = add_failed_uploads(ended, code, failed_upload, extras)
        if end.folders_without_rights and isinstance(ended, Finished):
            ended = Failed(
                FailureKind.PROGRAM, folders.why_failed(end.folders_without_rights), code, final=True
            )
        if failed_outputs and isinstance(ended, Finished):
            trouble = failed_outputs.trouble.reason
            ended = Finished((*ended.but, f"its outputs could not be uploaded whole: {trouble}"))
        if isinstance(ended, Finished):
            ended = Finished((*ended.but, *lost, *((unprepared,) if unprepared else ())))
        match ended:
            case Finished(but):
                step = self._step(results.get("step"))
                progress = self._monitor.progress
                values = {**results, "step": step, **progress.restored, **progress.observed}
                if (loss := not_finite(results.get("loss"))) is not None:
                    values |= self._monitor.progress.not_finite
                    but = (
                        *but,
                        f"its loss has been {floats.text_of(loss)} since step {self._monitor.nan_since(step)}",
                    )
                finished = signals.Finished(but=tuple(but), working_folder=working_folder, **values)
                return Outcome(ended, finished if self._context.assignment.is_chief else None)
            case Stopped(why, words):
                return Outcome(ended, signals.Stopped(why=why, reason=words or None, **self._last_progress))
            case Failed():
                if ending.waits_for_the_chief(ended, is_chief=self._context.assignment.is_chief):
                    time.sleep(ending.CHIEF_FIRST_SECONDS)
                    if self._closing.has_finished():
                        return Outcome(Finished(), None)
                tail = ending.last_lines(end.tail.encode())
                return Outcome(ended, failed_signal(ended, tail, progress=self._last_progress))

    def retries(self, drain: Drain | None, *, finished: bool) -> Retries:
        """Return the rules for retries of uploads after the program's end."""
        asked_at = datetime.now(UTC) if drain and drain.why is StopReason.ASKED else None

        def until() -> datetime:
            return min(self._context.cluster.deadline, self._context.watchdog.lease.until)

        def has_to_end() -> str | None:
            nonlocal asked_at
            now, order = datetime.now(UTC), self._context.order_to_leave()
            if order and order.why is StopReason.ASKED:
                asked_at = asked_at or now
            notice = self._context.watchdog.notice
            return reason_to_end(
                notice_at=notice.at if notice else None,
                going_down=self._context.watchdog.going_down.is_set(),
                asked_at=asked_at,
                until=until(),
                now=now,
            )

        return Retries(
            has_to_end=has_to_end,
            until=until,
            note=self._monitor.note_at_once,
            disk_trouble=self._context.disk.trouble,
            denied_seconds=patience_with_denials(self._ran_seconds()) if finished else None,
        )

    def _is_at_its_end(self, asked_at: datetime | None) -> bool:
        """Return True if the program has reached its last step. If its steps are unknown, return True if it has written
        metrics.json since it was asked to leave."""
        if "steps" in self._monitor.progress.latest:
            return self._monitor.progress.is_at_its_end
        with self._context.account.act():
            try:
                written = self._context.paths.metrics.stat().st_mtime
            except OSError:
                return False
        return asked_at is not None and written >= asked_at.timestamp()

    def _without_secrets(self, exited: Exit | None) -> Exit | None:
        """Return the exit without the values of secrets."""
        return exited and replace(
            exited, exception=exited.exception and self._monitor.log.without_secrets(exited.exception)
        )

    def _full_file_system(self, end: End) -> Room | None:
        """Return the room on the file system that was full according to the program's error."""
        named = tracebacks.full_path(end.shown)
        if named:
            return room_at(Path(named))
        if named == "" and not (end.room and end.room.is_full) and room_at(SHARED_MEMORY).is_full:
            return room_at(SHARED_MEMORY)  # a semaphore's error names no path
        return None

    def _wait_for_workers(self) -> None:
        """Wait for workers that train without the chief, while they work and no order to leave exists. The end of the
        chief's program would end their attempt."""
        others = self._context.cluster.trains_beside(self._context.assignment)
        still = StillTraining(time.monotonic())
        said: tuple[str, ...] = ()
        while others and (trains := still.among(self._context.peers.states_of(others), time.monotonic())):
            if self._context.order_to_leave():
                return
            if trains != said:
                self._monitor.log.note(
                    f"the chief has finished; waiting for those that still train: {', '.join(trains)}"
                )
                said = trains
            time.sleep(WORKERS_LOOK_SECONDS)

    def _prepare_models(self) -> str | None:
        """Prepare the models that the chief's program has left for predictions. Return a sentence if that fails."""
        context = self._context
        if not context.assignment.is_chief:
            return None
        with context.account.act():
            models = exports.find_unprepared((context.paths.model, context.paths.program))
        if not models:
            return None
        said = exports.prepare(
            models,
            context.account,
            context.paths,
            most_tasks=most_tasks(),
            has_to_end=context.order_to_leave,
        )
        self._monitor.log.note(
            said or f"the model is prepared for predictions: {', '.join(map(str, models))}"
        )
        self._monitor.listen()
        return said

    def _wait_for_evaluator(self) -> None:
        """Wait until the evaluator has evaluated the last checkpoint. The end of the attempt would end it at once."""
        end = time.monotonic() + EVALUATION_SECONDS
        evaluators = self._context.cluster.evaluators if self._checkpoints.last.step >= 0 else ()
        while any(not has_ended(state) for state in self._context.peers.states_of(evaluators).values()):
            if self._context.order_to_leave():
                return
            if time.monotonic() >= end:
                self._monitor.log.note(
                    f"the evaluator has not ended {EVALUATION_SECONDS:g} seconds after the last checkpoint"
                )
                self._monitor.listen()
                return
            time.sleep(WORKERS_LOOK_SECONDS)

    def _is_superseded_by_chief(self, drain: Drain | None) -> bool:
        """Return True if the chief has finished without this host's program."""
        if drain:
            return drain.why == FINISHED
        return self._chief_has_finished() or self._closing.has_finished()

    def _chief_has_finished(self) -> bool:
        """Return True if the chief does not need this host's program and has finished."""
        if not self._context.cluster.is_done_without(self._context.assignment):
            return False
        state = self._context.peers.state_of(self._context.cluster.chief)
        return state is not None and state.finished

    def _missing(self) -> tuple[str, ...]:
        with self._context.account.act():
            return results_of.missing(
                self._context.job.program.expect,
                self._context.paths,
                has_checkpoint=self._checkpoints.last.step >= 0,
            )

    def _note_missing_results(self, outputs: OutputsUpload) -> str | None:
        """Note it and return a sentence for the signal if the program has left no files at all."""
        with self._context.account.act():
            saved = self._checkpoints.last.step >= 0
            missing = results_of.missing(RESULTS, self._context.paths, has_checkpoint=saved)
            found = len(missing) < len(RESULTS) or any(readable_files(self._context.paths.notebook))
        if found or outputs.index.count:
            return None
        said = results_of.describe_missing_results(keeps_outputs=outputs.keeps)
        self._monitor.log.note(said)
        return said

    def _upload_results(self, retries: Retries, results: dict[str, Any]) -> FailedUpload | None:
        """Upload model and metrics.json. Add the program's last progress to `results`, from metrics.json if possible.
        Return the upload that failed, if one did."""
        left_out = LeftOut(self._monitor.log.note, "${model}")
        model = FolderUpload(
            self._context.bucket, self._context.paths.model, keys.model(self._context.cluster.run), left_out
        )

        def send_model() -> None:
            with self._context.account.act():
                model.send(last=True)

        def send_metrics() -> None:
            with self._context.account.act():
                name = self._monitor.progress.scalars.objective
                found = results_of.find_objective(name, self._context.paths, self._ran_seconds())
                document = self._monitor.metrics.conclude(self._context.paths.metrics, found)
            if document is None and self._context.paths.metrics.is_file():
                self._monitor.log.note("metrics.json holds no JSON object and is left out")
                self._monitor.listen()
            progress = self._monitor.progress
            results.update(metrics_in(document) if document else progress.latest)
            progress.scalars.conclude(document or {}, self._step(results.get("step")))
            results.update(progress.scalars.in_signal)
            self._monitor.metrics.send(last=True)

        for what, send in (("model", send_model), ("metrics.json", send_metrics)):
            if trouble := retries.upload(what, send):
                return FailedUpload(what, trouble)
        return None

    def _ran_seconds(self) -> float:
        started = self._context.paths.process(self._context.cluster.attempt).stat().st_mtime
        return max(0.0, time.time() - started)

    def _step(self, written: int | None = None) -> int | None:
        """Return the highest step that is known: of the checkpoint (if it has a step), of the reported progress, or
        `written` by the program into metrics.json."""
        last = self._checkpoints.last
        told = (last.step if last.tells_step else None, self._monitor.progress.step, written)
        return max((step for step in told if step is not None), default=None)

    @property
    def _last_progress(self) -> dict[str, Any]:
        """The program's last progress, for the final signal of an attempt that did not finish."""
        return {**self._monitor.progress.all, "step": self._step()}
