"""Conclude of a snapshot: its outcome and its summary. A rule calls it for executions that never reached it."""

from typing import Any

from lambdas import settings
from lambdas.aws import images
from lambdas.aws.ledger import Ledger
from lambdas.core import conclusion, snapshot, wire
from lambdas.core.records import RunRow
from lambdas.handlers import beginning, closing
from lambdas.handlers.voice import clock
from lambdas.settings import YardSettings


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    yard = settings.read(YardSettings)
    ledger, run, now = Ledger(yard.table_name), str(event["run"]), clock()
    records = ledger.read(run)
    if event.get("cut_short") and records and records.run.ended:
        return {"kind": "concluded", "reason": f"{run} had concluded by itself"}
    concluded = closing.spoiled(conclusion.read(event["outcome"]), event, records)
    if records and not beginning.is_its_own(records.run, event):
        return {**wire.to_json(concluded), "kind": concluded.outcome.value}
    row = records.run if records else None
    image = _made(row)
    said = snapshot.summarise(run, row, concluded, bucket=yard.bucket_name, image=image, now=now)
    if records:
        closing.end(ledger, run, concluded, now)
    closing.write(yard.bucket_name, ledger, run, records, said, closing.last_entry(concluded, now))
    return {**wire.to_json(concluded), **{key: said[key] for key in ("kind", "image", "lineage", "instance")}}


def _made(row: RunRow | None) -> str | None:
    """The image, if there is one to start from: Undo retires any other, be it at this very moment."""
    found = images.find(row.image) if row and row.image else None
    return found.id if found and found.available else None
