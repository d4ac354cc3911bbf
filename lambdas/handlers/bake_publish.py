"""Bake, last steps: point the parameter at the image and retire old ones; at the very end write the outcome."""

from datetime import datetime
from typing import Any

from lambdas import settings
from lambdas.aws import documents, images
from lambdas.aws.ledger import Ledger, event_row, run_row
from lambdas.core import bake, conclusion, wire
from lambdas.core.bake import ImageFailed, Made
from lambdas.core.records import Records
from lambdas.handlers import attempts
from lambdas.handlers.voice import clock, note
from lambdas.settings import BakePublishSettings


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    yard = settings.read(BakePublishSettings)
    ledger, run, now = Ledger(yard.table_name), str(event["run"]), clock()
    records = ledger.read(run)
    if "outcome" in event:
        return _conclude(ledger, run, records, event, now)
    if records:
        attempts.refuse_denied(records, 1)
    image = records.run.image if records else None
    if image is None:
        raise ImageFailed(f"the ledger knows no image of {run}, so there is nothing to publish")
    documents.set_parameter(yard.image_parameter, image)
    reason = f"{yard.image_parameter} is {image}"
    ledger.write(run_row(run, {"state": "Publish"}), event_row(run, note("published", reason, at=now)))
    _retire(yard, ledger, run, image, now)
    return {"kind": "published", "image": image, "reason": reason}


def _retire(yard: BakePublishSettings, ledger: Ledger, run: str, current: str, now: datetime) -> None:
    listed = [
        Made(image.id, image.tags.get("trainyard:recipe", ""), image.state == "available")
        for image in images.of_yard(yard.yard)
    ]
    old = bake.retirements(listed, current=current, in_use=images.in_use(), keep=yard.keep_images)
    for each in old:
        images.retire(each.id)
        ledger.write(event_row(run, note("retired", f"{each.id}: {each.reason}", at=now, image=each.id)))


def _conclude(
    ledger: Ledger, run: str, records: Records | None, event: dict[str, Any], now: datetime
) -> dict[str, Any]:
    concluded = conclusion.read(event["outcome"])
    if event["unreleased"]:
        hosts = [host.instance for host in records.hosts.values() if host.ended is None] if records else []
        concluded = conclusion.spoiled(concluded, conclusion.unreleased(run, hosts, event["unreleased"]))
    if records:
        values = {"state": "Conclude", "outcome": concluded.outcome, "reason": concluded.reason, "ended": now}
        entry = note(concluded.outcome.value, concluded.reason, at=now)
        ledger.write(
            run_row(records.run.run, values | {"error": concluded.error}), event_row(records.run.run, entry)
        )
    image = records.run.image if records and concluded.error is None else None
    return {**wire.to_json(concluded), "kind": concluded.word, "image": image}
