"""Conclude: summary, timeline and notice; the word on which the workflow succeeds or fails.

A rule calls it for executions that were cut short, which never reach their own Conclude.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any

from lambdas import settings
from lambdas.aws import messages, s3
from lambdas.aws.ledger import Ledger
from lambdas.core.model import wire
from lambdas.core.model.errors import AccessDenied
from lambdas.core.run import outcome, summary
from lambdas.core.run.outcome import Conclusion
from lambdas.core.run.records import Records
from lambdas.core.run.summary import Outcome, RunFacts
from lambdas.settings import ConcludeSettings
from lambdas.steps import admission, conclusion
from lambdas.steps.observability import clock


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    yard = settings.read(ConcludeSettings)
    ledger, run, now = Ledger(yard.table_name), str(event["run"]), clock()
    concluded, records = outcome.read(event["outcome"]), ledger.read(run)
    if records and not admission.is_its_own(records.run, event):
        return {**wire.to_json(concluded), "kind": concluded.word}
    if event.get("cut_short") and records and records.run.ended:
        return {"kind": "concluded", "reason": f"{run} had concluded by itself"}
    unnoticed = _denied_unnoticed(concluded, records)
    if unnoticed:
        concluded = outcome.spoiled(concluded, unnoticed)
    concluded = conclusion.spoiled(concluded, event, records)
    facts = _facts(yard, records, run, concluded, now)
    try:
        messages.publish(yard.topic_arn, *summary.notice(summary.summarise(facts)))
    except AccessDenied as denied:
        # The summary must say how the execution ends, so the notice goes first and its failure is the run's.
        concluded = outcome.spoiled(concluded, denied)
        facts = replace(facts, outcome=concluded.outcome, error=concluded.error, reason=concluded.reason)
    entry = conclusion.last_entry(concluded, now)
    conclusion.write(yard.bucket_name, ledger, run, records, summary.summarise(facts), entry)
    if records:
        conclusion.end(ledger, run, concluded, now)
    return {**wire.to_json(concluded), "kind": concluded.word}


def _denied_unnoticed(concluded: Conclusion, records: Records | None) -> AccessDenied | None:
    """A denial that signal could only write down: it may not fail tasks, so the workflow went on."""
    row = records.attempts.get(records.run.attempt) if records else None
    trouble = row.trouble if row and concluded.outcome is Outcome.SUCCEEDED else None
    return AccessDenied(trouble.reason) if trouble and trouble.error == AccessDenied.__name__ else None


def _facts(
    yard: ConcludeSettings, records: Records | None, run: str, concluded: Conclusion, now: datetime
) -> RunFacts:
    """All that is known; of a run that Admit could not even write down, that it failed and why."""
    objects = s3.keys(yard.bucket_name, f"runs/{run}/")
    facts = RunFacts(
        run=run,
        bucket=yard.bucket_name,
        outcome=concluded.outcome,
        reason=concluded.reason,
        error=concluded.error,
        created=records.run.created if records else now,
        ended=now,
        objects=objects,
    )
    if records is None:
        return facts
    metrics = f"runs/{run}/metrics.json"
    return replace(
        facts,
        job=records.run.job.to_json() if records.run.job else None,
        job_key=records.run.job_key,
        warnings=records.run.warnings,
        execution_arn=records.run.execution_arn,
        attempts=records.attempt_facts(),
        hosts=records.billed_hosts(),
        progress=records.run.progress,
        metrics=s3.get_json(yard.bucket_name, metrics)
        if metrics in objects and concluded.outcome is Outcome.SUCCEEDED
        else None,
        image=records.run.image or None,
    )
