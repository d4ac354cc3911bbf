"""The end of a run of any kind: its outcome, its last rows in the ledger, its files in the bucket."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import ClassVar, Literal, TypeVar, cast

from lambdas.aws import s3
from lambdas.aws.dynamodb.ledger import AlreadyWrittenError, Ledger
from lambdas.aws.dynamodb.rows import event_row, no_open_row, no_run_row, open_row, run_row
from lambdas.aws.dynamodb.write import Write
from lambdas.core.capacity.cost import bill
from lambdas.core.run import AttemptUpdate, RunUpdate, outcome, stopping
from lambdas.core.run.conclusion import steps
from lambdas.core.run.conclusion.summary import EndedRun
from lambdas.core.run.outcome import Conclusion
from lambdas.core.run.records import Records
from lambdas.core.run.recovery import trouble_of
from lambdas.steps import admission, attempts
from lambdas.steps.inputs import ConcludeInput
from lambdas.steps.observability import clock, logger, measure, note
from trainyard.core.model.errors import AccessDenied, Blame, Stopped, TrainyardError, blame_of
from trainyard.core.model.yard.metrics import Metric
from trainyard.protocol import keys, timeline
from trainyard.protocol.ledger.run import Outcome
from trainyard.protocol.summary import Head
from trainyard.protocol.trial import Trial
from trainyard.values import serialization
from trainyard.values.lazy import dataclass

Summary = TypeVar("Summary", bound=Head)


@dataclass(frozen=True, kw_only=True)
class Concluded(Conclusion):
    """The outcome of an execution, which is also its answer."""

    kind: str


@dataclass(frozen=True, kw_only=True)
class NotConcluded:
    """No conclusion, because the run had concluded before, or because patrol concludes it later. Only rules and patrol
    receive this answer."""

    kind: ClassVar[str] = "not concluded"
    reason: str


@dataclass(frozen=True, kw_only=True)
class RunEnd(EndedRun):
    """The end of a run before it is written."""

    ledger: Ledger
    is_told: bool = False
    """True if an earlier Conclude has sent the notification: it found no rows, because Admit wrote them after it."""

    def spoiled(self, error: TrainyardError) -> "RunEnd":
        return replace(self, conclusion=outcome.spoil(self.conclusion, error))

    @property
    def answer(self) -> Concluded:
        how = self.conclusion
        return Concluded(kind=how.outcome.value, outcome=how.outcome, error=how.error, reason=how.reason)

    @property
    def trial(self) -> Trial | None:
        return self.row.trial if self.row else None

    @property
    def ended(self) -> datetime:
        """Return the end of the run. A repeated Conclude keeps the first time."""
        return (self.row.ended if self.row else None) or self.now

    @property
    def values(self) -> RunUpdate:
        """Return the values for the row of the run."""
        how, cost = self.conclusion, bill(self.hosts, now=self.now)
        return {
            "state": "Conclude",
            "outcome": how.outcome,
            "error": how.error,
            "reason": how.reason,
            "ended": self.ended,
            "warnings": self.all_warnings,
            "dollars": cost.dollars,
            "saved_dollars": cost.saved_dollars,
        }

    def row_write(self, *, unless: Literal["ended"] | None) -> Write:
        values, added = self.values, {}
        if unless and self.row and self.row.kind == "train":  # the row may contain costs of the warm pool
            added["dollars"] = values.pop("dollars") or 0.0
        return run_row(self.run, values, unless=unless, waits=False, add=added)

    def write_summary(self, summary: Summary) -> tuple["RunEnd", Summary]:
        """Write summary.json; return the end with its summary. If another call wrote it first, that summary counts, and
        this call ends the run accordingly."""
        key = keys.summary(self.run)
        if s3.put_json_once(self.bucket, key, summary):
            return self, summary
        first = cast(Summary | None, s3.get_json(self.bucket, key))
        of_another = first is None or (first["created"], first["execution_arn"]) != (
            summary["created"],
            summary["execution_arn"],
        )
        if first is None or of_another:  # a run whose rows were deleted, or a study before it was continued
            s3.put_json(self.bucket, key, summary)
            return replace(self, is_told=first is not None and self._was_told(first)), summary
        how = Conclusion(outcome=Outcome(first["outcome"]), error=first["error"], reason=first["reason"])
        return replace(self, conclusion=how, now=datetime.fromisoformat(first["ended"])), first

    def _was_told(self, first: Head) -> bool:
        """Return True if a Conclude without rows has written the end to the timeline, and then told the user."""
        return first["execution_arn"] is None and any(
            (each.event, serialization.timestamp(each.at)) == (first["outcome"], first["ended"])
            for each in self.ledger.timeline(self.run)
        )

    def write(self, *, unless: Literal["ended"] | None = "ended", notifies: bool = False) -> bool:
        """Write timeline.jsonl, plan.json with all requests to capacity pools, the row of the run and the last entries
        of the timeline. Return False if another call has ended the run.

        A run that `notifies` stays open, without its slot, until its notification is sent."""
        run, records = self.run, self.records
        last = [note("warning", warning, at=self.now) for warning in self.warnings]
        last.append(note(self.conclusion.outcome.value, self.conclusion.reason, at=self.now))
        lines = timeline.to_jsonl([*(self.ledger.timeline(run) if records else ()), *last])
        s3.put(self.bucket, keys.timeline(run), lines.encode(), media_type="application/x-ndjson")
        if records and records.plan:
            plan = serialization.to_json(records.plan) | {"launch_requests": records.requested_candidates()}
            s3.put_json(self.bucket, keys.plan(run), plan)
        entries = [event_row(run, entry) for entry in last]
        # Admit may still run and write the run now: it stays open then, and patrol concludes it
        ended = [self.row_write(unless=unless) if records else no_run_row(run), *entries]
        row = self.row if notifies else None
        is_open = open_row(run, row.kind, row.execution_arn) if row else no_open_row(run)
        try:
            self.ledger.write(*ended, is_open)
        except AlreadyWrittenError:
            logger.info("%s was concluded meanwhile", run)
            return False
        if unless and records:
            self.count()
        return True

    def count(self) -> None:
        """Count the end in CloudWatch. Only the call that wrote the end counts it."""
        blame = blame_of(self.conclusion.error)
        failed = self.conclusion.outcome is Outcome.FAILED and blame not in (Blame.USER, Blame.CAPACITY)
        if failed and not self.trial:  # the study counts instead
            measure(Metric.RUNS_FAILED, error=self.conclusion.error or "")
        if self.row and self.row.cut_short and self.conclusion.outcome is not Outcome.STOPPED:
            measure(Metric.RUNS_CUT_SHORT)
        lost = steps.seconds_lost(self.attempts) if self.row and self.row.kind == "train" else 0.0
        if lost:
            measure(Metric.SECONDS_LOST, lost)


def has_summary(bucket: str, run: str) -> bool:
    return bool(s3.list_first_page(bucket, keys.summary(run)))


def end_of(
    table_name: str,
    bucket_name: str,
    given: ConcludeInput,
    *,
    has_concluded: Callable[[Records], bool] = lambda records: records.run.ended is not None,
) -> RunEnd | Concluded | NotConcluded:
    """Return the end of the run. Return the answer itself if the run had concluded or belongs to another execution.

    A function continues after its execution is stopped. Once `cut_short` is written, Launch sends no request. A request
    under way is awaited, so that the bill includes its hosts."""
    ledger, run = Ledger(table_name), given.run
    records = ledger.read(run)
    last = given.outcome
    how = outcome.conclude(last.kind, error=last.error, cause=last.cause, reason=last.reason)
    if given.cut_short and records and records.run.stopping:
        how = outcome.conclude("error", error=Stopped.__name__, reason=stopping.reason(records, clock()))
    end = RunEnd(
        run=run,
        bucket=bucket_name,
        records=records,
        conclusion=how,
        now=clock(),
        warnings=_image_warnings(given),
        ledger=ledger,
    )
    if records and not admission.is_its_own(records.run, given):
        return end.answer
    if given.cut_short and (has_concluded(records) if records else has_summary(bucket_name, run)):
        if records is None or not records.run.lacks_notification:
            ledger.write(no_open_row(run))
        return NotConcluded(reason=f"{run} was concluded before")
    if given.cut_short and records:
        ledger.write(run_row(run, {"cut_short": end.now}))
        records = ledger.read(run)
        if records and records.has_open_request(end.now):
            return NotConcluded(
                reason=f"a launch request for hosts of {run} is under way; patrol concludes the run later"
            )
        end = replace(end, records=records)
    for wrong in (_find_unreported_denial(how, records), _release_error(given, records), _undo_error(given)):
        end = end.spoiled(wrong) if wrong else end
    return _end_attempt(end)


def _end_attempt(end: RunEnd) -> RunEnd:
    """End the attempt of an execution that was stopped or failed in a state of its own."""
    number = end.records.run.attempt if end.records else None
    row = end.records.attempts.get(number) if end.records and number else None
    how = end.conclusion
    if row is None or number is None or row.ending or how.error is None or end.records is None:
        return end
    values: AttemptUpdate = {"ending": outcome.ending_of(how.error), "ended": end.now, "reason": how.reason}
    attempts.end_once(end.ledger, end.run, number, values)
    return replace(end, records=end.ledger.read(end.run))


def _find_unreported_denial(how: Conclusion, records: Records | None) -> AccessDenied | None:
    """Return a denial that signal recorded but could not report: it may not fail tasks, so the workflow continued."""
    row = records.attempts.get(records.run.attempt) if records else None
    trouble = trouble_of(row) if row and how.outcome is Outcome.SUCCEEDED else None
    return AccessDenied(trouble.reason) if trouble and trouble.error == AccessDenied.__name__ else None


def _release_error(given: ConcludeInput, records: Records | None) -> TrainyardError | None:
    if not given.unreleased.error:
        return None
    hosts = [host.instance for host in records.hosts.values() if host.ended is None] if records else []
    return outcome.release_error(given.run, hosts, given.unreleased.trouble)


def _undo_error(given: ConcludeInput) -> TrainyardError | None:
    """Return the error of an image that could not be removed, if the image was the purpose of the run."""
    undone = given.undone.error and not given.unimaged.error
    return outcome.undo_error(given.run, given.undone.trouble) if undone else None


def _image_warnings(given: ConcludeInput) -> tuple[str, ...]:
    """Return the warnings about the image of a training run that failed or could not be removed."""
    if not given.unimaged.error:
        return ()
    left = outcome.undo_error(given.run, given.undone.trouble).reason if given.undone.error else None
    return (outcome.image_warning(given.unimaged.trouble), *([left] if left else []))
