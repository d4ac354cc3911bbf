"""Conclude of a bake: its outcome, its summary; no image of it is left but the one that hosts start from.

A rule calls it for executions that did not reach this, or failed in it.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from lambdas import settings
from lambdas.aws import images, s3, ssm
from lambdas.aws.ledger import Ledger, event_row, run_row
from lambdas.core.images import bake, bake_summary
from lambdas.core.model import wire
from lambdas.core.model.errors import TrainyardError
from lambdas.core.run import outcome
from lambdas.core.run.outcome import Conclusion
from lambdas.core.run.records import Records
from lambdas.core.run.summary import RunFacts, ending_of
from lambdas.settings import ImageSettings
from lambdas.steps import admission, attempts, conclusion
from lambdas.steps.observability import clock, note


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    yard = settings.read(ImageSettings)
    ledger, run, now = Ledger(yard.table_name), str(event["run"]), clock()
    records = ledger.read(run)
    if records and not admission.is_its_own(records.run, event):
        ledger.give_back_bake_lock(run)
        concluded = outcome.read(event["outcome"])
        return {**wire.to_json(concluded), "kind": concluded.outcome.value}
    if event.get("cut_short") and s3.get_json(yard.bucket_name, f"runs/{run}/summary.json"):
        return {"kind": "concluded", "reason": f"{run} had concluded by itself"}
    concluded = conclusion.spoiled(outcome.read(event["outcome"]), event, records)
    _end(ledger, run, concluded, now)
    records = ledger.read(run)
    if wrong := _discard(yard, ledger, run, records, now):
        concluded = outcome.spoiled(concluded, wrong)
        _end(ledger, run, concluded, now)
    ledger.give_back_bake_lock(run)
    said = _summary(yard, run, records, concluded, event, now)
    entry = conclusion.last_entry(concluded, now)
    if records:
        ledger.write(event_row(run, entry))
    conclusion.write(yard.bucket_name, ledger, run, records, said, entry)
    return {**wire.to_json(concluded), **{key: said[key] for key in ("kind", "image", "before")}}


def _end(ledger: Ledger, run: str, concluded: Conclusion, now: datetime) -> None:
    """The run is over from here on: Publish moves nothing any more, so what is not published now never will be."""
    records = ledger.read(run)
    if records is None:
        return
    values = {"outcome": concluded.outcome, "error": concluded.error, "reason": concluded.reason}
    ledger.write(run_row(run, {"state": "Conclude", "ended": now} | values))
    attempt = records.run.attempt
    if attempt in records.attempts:
        ending = {"ending": ending_of(concluded.error or ""), "ended": now, "reason": concluded.reason}
        attempts.end_once(ledger, run, attempt, ending)


def _discard(
    yard: ImageSettings, ledger: Ledger, run: str, records: Records | None, now: datetime
) -> TrainyardError | None:
    """Retire what the bake made and nobody will use. What could not be retired is the bake's failure, with its name."""
    parameters = (yard.image_parameter, yard.previous_image_parameter)
    keep = [ssm.parameter(name) or bake.NO_IMAGE for name in parameters]
    if records and records.run.published:
        keep.append(records.run.published["image"])
    wrong: TrainyardError | None = None
    for image in bake.discarded(images.of_yard(yard.yard), run=run, keep=keep):
        try:
            images.retire(image)
        except TrainyardError as error:
            wrong = wrong or error
            continue
        if records:
            said = f"{image}: the bake ended without it"
            ledger.write(event_row(run, note("discarded", said, at=now, image=image)))
    return wrong


def _summary(
    yard: ImageSettings,
    run: str,
    records: Records | None,
    concluded: Conclusion,
    event: Mapping[str, Any],
    now: datetime,
) -> dict[str, Any]:
    """All that is known; of a bake that Admit could not even write down, that it failed and why."""
    ended, unretired = event["outcome"], event.get("unretired")
    published = records.run.published if records else None
    facts = RunFacts(
        run=run,
        bucket=yard.bucket_name,
        outcome=concluded.outcome,
        reason=concluded.reason,
        error=concluded.error,
        created=records.run.created if records else now,
        ended=now,
        execution_arn=records.run.execution_arn if records else None,
        attempts=records.attempt_facts() if records else (),
        hosts=records.billed_hosts() if records else (),
        objects=s3.keys(yard.bucket_name, f"runs/{run}/"),
        image=ended.get("image") if concluded.error is None else None,
    )
    return bake_summary.summarise(
        facts,
        kind=str(ended.get("kind")) if concluded.error is None else concluded.outcome.value,
        recipe=records.run.recipe if records else None,
        results=s3.get_json(yard.bucket_name, f"runs/{run}/tests.json") or {},
        published=published,
        retirement=str(unretired.get("cause") or unretired["error"]) if unretired else None,
    )
