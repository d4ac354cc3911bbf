"""Conclude of study: summary, notification and outcome. A rule calls it for executions that were cut short.

Patrol stops the trials that still run."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lambdas import environment
from lambdas.aws import s3
from lambdas.aws.dynamodb.studies import Studies
from lambdas.core.models import origin
from lambdas.core.notifications import Notification
from lambdas.core.notifications import study as study_texts
from lambdas.core.study import summary
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps import conclusion, dependencies, end_notification, new_versions
from lambdas.steps.conclusion import Concluded, NotConcluded, RunEnd
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import ConcludeInput
from trainyard.protocol import keys, trial
from trainyard.protocol import summary as summaries
from trainyard.protocol.summary import StudySummary


class ConcludeSettings(YardSettings):
    topic_arn: str
    version_state_machine_arn: str


NEEDS = Needs(
    ConcludeSettings,
    (
        may("read and list objects", keys.summary(keys.ANY), keys.metrics(keys.ANY)),
        may("write objects", keys.RUNS),
        may("send notifications"),
        may("answer tasks", "Success"),
        may("start executions", "version"),
        may("use the ledger", "GetItem", "Query", "PutItem", "UpdateItem", "DeleteItem"),
    ),
)


@entry_point
def handler(given: ConcludeInput) -> Concluded | NotConcluded:
    yard = environment.read(ConcludeSettings)
    study, part = trial.part_of(given.run)
    given = replace(given, run=study, started=given.started if part == 1 else None)
    end = conclusion.end_of(yard.table_name, yard.bucket_name, given)
    if isinstance(end, NotConcluded):
        end_notification.send_late(
            yard.table_name, yard.bucket_name, given.run, yard.topic_arn, _describe_end
        )
    if not isinstance(end, RunEnd):
        return end
    rows = Studies(yard.table_name).read(end.run)
    if rows:
        s3.put_json(yard.bucket_name, keys.trials(end.run), {"trials": summary.trials_of(rows.trials)})
    metrics = _read_best_metrics(end)
    end, version = new_versions.decide(end, metrics)
    end, agreed = end.write_summary(summary.summarise(end, rows.row if rows else None))
    notifies = not end.is_told
    if end.write(notifies=notifies) and notifies:
        end_notification.send(end, yard.topic_arn, study_texts.notify_end(agreed))
    new_versions.start(end, version, yard.version_state_machine_arn)
    dependencies.release(end.ledger, end.run)
    return end.answer


def _read_best_metrics(end: RunEnd) -> Mapping[str, Any]:
    """Return the metrics of the run whose model the study leaves, if a version depends on them."""
    best = origin.find_winner(end.row) if end.row and new_versions.wanted_by(end) else None
    return (s3.get_json(end.bucket, keys.metrics(best)) or {}) if best else {}


def _describe_end(document: Mapping[str, Any]) -> Notification:
    return study_texts.notify_end(summaries.read(StudySummary, document))
