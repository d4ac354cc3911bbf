"""The files of a study in the bucket at its end. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from lambdas.core.run.conclusion.summary import EndedRun
from trainyard.core.model.job import Job
from trainyard.protocol.ledger.study import StudyRow, TrialRow
from trainyard.protocol.summary import StudySummary
from trainyard.protocol.trial import Trial
from trainyard.values import serialization


def summarise(end: EndedRun, row: StudyRow | None) -> StudySummary:
    """Return the summary. A study that was refused has no counters."""
    run, how = end.row, end.conclusion
    job = serialization.from_json(Job, run.job) if run and run.job else None
    created = run.created if run else end.now
    return StudySummary(
        run=end.run,
        outcome=how.outcome.value,
        but=[],
        reason=how.reason,
        error=how.error,
        created=serialization.timestamp(created),
        ended=serialization.timestamp(end.now),
        seconds=round((end.now - created).total_seconds(), 3),
        execution_arn=run.execution_arn if run else None,
        job=job.name if job else None,
        submitter=run.submitter if run else None,
        metric=job.study.objective.metric if job and job.study else None,
        trials=row.reported if row else 0,
        dollars=row.spent if row else 0.0,
        best=_run_of(end.run, row.best if row else None),
        value=row.value if row else None,
        retrained=_run_of(end.run, row.retrained if row else None),
    )


def _run_of(study: str, number: int | None) -> str | None:
    return Trial(study=study, number=number, submitter="").run if number else None


def trials_of(rows: Iterable[TrialRow]) -> list[Mapping[str, Any]]:
    """Return all trials as JSON, without the state of the sampler."""
    shown = (serialization.to_json(row) for row in rows)
    return [{name: value for name, value in each.items() if name != "attributes"} for each in shown]
