"""Conclude: summary, timeline and notice; the outcome on which the workflow succeeds or fails.

A rule calls it for executions that were cut short, which never reach their own Conclude.
"""

from dataclasses import replace

from lambdas import settings
from lambdas.aws import messages, s3
from lambdas.core.edges.conclude import Concluded, ConcludedBefore, ConcludeInput
from lambdas.core.model.errors import AccessDenied
from lambdas.core.run import summary
from lambdas.core.run.summary import Outcome, RunFacts
from lambdas.settings import ConcludeSettings
from lambdas.steps import conclusion
from lambdas.steps.conclusion import RunEnd
from lambdas.steps.entry_point import entry_point


@entry_point
def handler(given: ConcludeInput) -> Concluded | ConcludedBefore:
    yard = settings.read(ConcludeSettings)
    end = conclusion.end_of(yard.table_name, yard.bucket_name, given)
    if not isinstance(end, RunEnd):
        return end
    facts = _facts(end)
    try:
        messages.publish(yard.topic_arn, *summary.notice(summary.summarise(facts)))
    except AccessDenied as denied:
        # The summary must say how the execution ends, so the notice goes first and its failure is the run's.
        end = end.spoiled(denied)
        how = end.conclusion
        facts = replace(facts, outcome=how.outcome, error=how.error, reason=how.reason)
    end.write(summary.summarise(facts))
    return end.answer


def _facts(end: RunEnd) -> RunFacts:
    """All that is known; of a run that Admit could not even write, that it failed and why."""
    run, records = end.run, end.records
    objects = s3.keys(end.bucket, f"runs/{run}/")
    facts = RunFacts(
        run=run,
        bucket=end.bucket,
        outcome=end.conclusion.outcome,
        reason=end.conclusion.reason,
        error=end.conclusion.error,
        created=records.run.created if records else end.now,
        ended=end.now,
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
        metrics=s3.get_json(end.bucket, metrics)
        if metrics in objects and end.conclusion.outcome is Outcome.SUCCEEDED
        else None,
        image=records.run.image or None,
    )
