"""Conclude: write summary and timeline, send the notification, decide on the outcome of the workflow.

A rule calls this function for executions that ended before their Conclude."""

import re
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from lambdas import environment
from lambdas.aws import s3
from lambdas.core.notifications import run as run_texts
from lambdas.core.run import outcome, recovery
from lambdas.core.run.conclusion import blame, summary
from lambdas.core.run.conclusion.blame import Failure
from lambdas.core.run.records import Records
from lambdas.core.run.recovery import trouble_of
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps import conclusion, dependencies, end_notification, new_versions, stored_signals
from lambdas.steps.conclusion import Concluded, NotConcluded, RunEnd
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import ConcludeInput
from lambdas.steps.observability import logger
from trainyard.core.model.ends import BUT
from trainyard.core.model.errors import ProgramFailed
from trainyard.protocol import keys
from trainyard.protocol.ledger.attempt import Ending
from trainyard.protocol.ledger.run import Outcome
from trainyard.protocol.signals import Failed, FailureKind
from trainyard.values.lazy import dataclass


class ConcludeSettings(YardSettings):
    topic_arn: str
    version_state_machine_arn: str


CHECKPOINTS = re.compile(keys.checkpoints("[^/]+"))
NEEDS = Needs(
    ConcludeSettings,
    (
        may("read and list objects", keys.RUNS),
        may("write objects", keys.RUNS),
        may("send notifications"),
        may("answer tasks", "Success"),
        may("start executions", "version"),
        may("use the ledger", "GetItem", "Query", "PutItem", "UpdateItem", "DeleteItem"),
    ),
)


@dataclass(frozen=True, kw_only=True)
class TrainConcluded(Concluded):
    """The answer of a training run."""

    ends_as: Outcome
    """The end of the execution. The execution of a trial succeeds with any outcome, because the outcome is an answer to
    its study."""

    @staticmethod
    def of(answer: Concluded, *, is_trial: bool = False) -> "TrainConcluded":
        ends_as = Outcome.SUCCEEDED if is_trial else answer.outcome
        return TrainConcluded(
            kind=answer.kind,
            outcome=answer.outcome,
            error=answer.error,
            reason=answer.reason,
            ends_as=ends_as,
        )


@entry_point
def handler(given: ConcludeInput) -> TrainConcluded | NotConcluded:
    yard = environment.read(ConcludeSettings)
    end = conclusion.end_of(yard.table_name, yard.bucket_name, given)
    if isinstance(end, NotConcluded):
        end_notification.send_late(yard.table_name, yard.bucket_name, given.run, yard.topic_arn)
        return end
    if not isinstance(end, RunEnd):
        return TrainConcluded.of(end)
    objects = s3.list_keys(end.bucket, keys.run(end.run))
    end = _add_resume_hint(_add_caveats(_refuse_version(_choose_failure(end))), objects)
    metrics, kept = _metrics(end, objects), _outputs(end, objects)
    end, version = new_versions.decide(end, metrics)
    end, agreed = end.write_summary(summary.summarise(end, objects=objects, metrics=metrics, outputs=kept))
    is_trial = end.trial is not None  # a study sends one notification for all of its trials
    notifies = not is_trial and not end.is_told
    if end.write(notifies=notifies) and notifies:
        end_notification.send(end, yard.topic_arn, run_texts.notify_end(agreed))
    new_versions.start(end, version, yard.version_state_machine_arn)
    dependencies.release(end.ledger, end.run)
    return TrainConcluded.of(end.answer, is_trial=is_trial)


def _choose_failure(end: RunEnd) -> RunEnd:
    """Choose the most telling failure if the program failed on several hosts, and list the failures of the others."""
    records, how = end.records, end.conclusion
    row = records.attempts.get(records.run.attempt) if records else None
    told = trouble_of(row) if row else None
    if records is None or row is None or told is None or how.error != ProgramFailed.__name__:
        return end
    trouble = blame.choose_reason(told, _failures(end, records, row.attempt))
    reason = recovery.why_hopeless(trouble, row.attempt)
    if trouble is told or reason is None:
        return end
    return replace(end, conclusion=replace(how, reason=reason))


def _refuse_version(end: RunEnd) -> RunEnd:
    if end.row is None or end.row.serves is None:
        return end
    from lambdas.steps import (
        refused_versions,  # most runs serve no version, and Conclude starts faster without it
    )

    return refused_versions.refuse(end)


def _add_caveats(end: RunEnd) -> RunEnd:
    """Return the end with its caveats in the reason, which every list shows."""
    if not end.but:
        return end
    return replace(end, conclusion=replace(end.conclusion, reason=f"{BUT}{'; '.join(end.but)}"))


def _failures(end: RunEnd, records: Records, attempt: int) -> list[Failure]:
    names = {assignment.instance: assignment.name for assignment in records.assignments(attempt)}
    failed = [
        (names[left.sent.instance], left.sent.signal)
        for left in stored_signals.endings_of(end.bucket, end.run, attempt)
        if left.sent.instance in names and isinstance(left.sent.signal, Failed)
    ]
    return [
        Failure(
            host=host,
            reason=signal.reason,
            tail=signal.tail,
            exit_code=signal.exit_code,
            advised=signal.advised,
        )
        for host, signal in failed
        if signal.kind is FailureKind.PROGRAM
    ]


def _add_resume_hint(end: RunEnd, objects: Collection[str]) -> RunEnd:
    """Add to the reason of a failed run how to continue from its checkpoint or outputs."""
    job, prefix = end.records.job if end.records else None, keys.outputs(end.run)
    conclusion = outcome.add_resume(
        end.conclusion,
        end.run,
        has_checkpoint=_has_checkpoint(end, objects),
        has_outputs=job is not None
        and job.outputs.are_restored()
        and any(key.startswith(prefix) for key in objects),
    )
    return replace(end, conclusion=conclusion)


def _has_checkpoint(end: RunEnd, objects: Collection[str]) -> bool:
    """Return True if every file of the run's last checkpoint is in the bucket. The checkpoint may belong to another
    run, and a program may have written malformed files."""
    latest = keys.latest_checkpoint(end.run)
    if latest not in objects:
        return False
    try:
        key = str((s3.get_json(end.bucket, latest) or {})["key"]).rstrip("/")
        folder = f"{key.rpartition('/')[0]}/"
        if not CHECKPOINTS.fullmatch(folder):
            return False
        files = (s3.get_json(end.bucket, f"{key}.json") or {})["files"].values()
        needed = {f"{folder}{stored[3]}" for stored in files}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        logger.warning("%s is not a valid checkpoint: %s", latest, error)
        return False
    own = folder.startswith(keys.run(end.run))
    return needed <= set(objects if own else s3.list_keys(end.bucket, folder))


def _outputs(end: RunEnd, objects: Collection[str]) -> list[dict[str, Any]]:
    """Read the report of each host about the outputs that it kept. Malformed reports are skipped."""
    prefix = keys.outputs_of(end.run)
    reports = []
    for key in objects:
        if key.startswith(prefix) and key.endswith("/report.json"):
            try:
                report = s3.get_json(end.bucket, key)
            except ValueError as error:
                logger.warning("the summary lacks %s: %s", key, error)
                continue
            if report:
                reports.append(report)
    return reports


def _metrics(end: RunEnd, objects: Collection[str]) -> dict[str, Any] | None:
    """Read the metrics of a program that finished, whatever happened afterwards. Malformed metrics are skipped."""
    key = keys.metrics(end.run)
    finished = any(attempt.ending is Ending.FINISHED for attempt in end.attempts)
    try:
        return s3.get_json(end.bucket, key) if finished and key in objects else None
    except ValueError as error:
        logger.warning("the summary lacks %s: %s", key, error)
        return None
