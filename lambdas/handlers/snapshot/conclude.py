"""Conclude of a snapshot: its outcome and its summary. A rule calls it for executions that never reached it."""

from typing import Any

from lambdas import settings
from lambdas.aws import images
from lambdas.aws.ledger import Ledger
from lambdas.core.images import snapshot
from lambdas.core.model import wire
from lambdas.core.run import outcome
from lambdas.core.run.records import RunRow
from lambdas.settings import YardSettings
from lambdas.steps import admission, conclusion
from lambdas.steps.observability import clock


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    yard = settings.read(YardSettings)
    ledger, run, now = Ledger(yard.table_name), str(event["run"]), clock()
    records = ledger.read(run)
    if event.get("cut_short") and records and records.run.ended:
        return {"kind": "concluded", "reason": f"{run} had concluded by itself"}
    concluded = conclusion.spoiled(outcome.read(event["outcome"]), event, records)
    if records and not admission.is_its_own(records.run, event):
        return {**wire.to_json(concluded), "kind": concluded.outcome.value}
    row = records.run if records else None
    image = _made(row)
    said = snapshot.summarise(run, row, concluded, bucket=yard.bucket_name, image=image, now=now)
    if records:
        conclusion.end(ledger, run, concluded, now)
    conclusion.write(yard.bucket_name, ledger, run, records, said, conclusion.last_entry(concluded, now))
    return {**wire.to_json(concluded), **{key: said[key] for key in ("kind", "image", "family", "instance")}}


def _made(row: RunRow | None) -> str | None:
    """The image, if there is one to start from: Undo retires any other, be it at this very moment."""
    found = images.find(row.image) if row and row.image else None
    return found.id if found and found.available else None
