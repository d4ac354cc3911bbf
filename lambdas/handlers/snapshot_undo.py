"""Undo: an image that was not to be is gone, and its host is as it was. After a failure, and it may run twice.

The workflows call it, and a rule for executions that did not end well.
"""

from typing import Any

from lambdas import settings
from lambdas.aws import documents, images, instances
from lambdas.aws.ledger import Ledger, event_row, run_row
from lambdas.core.errors import StartFailed, StillStopping
from lambdas.core.imaging import Imaging
from lambdas.core.records import Records
from lambdas.handlers.voice import clock, logger, note
from lambdas.settings import SnapshotWakeSettings


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Raises StillStopping while the host cannot be started again yet: the workflow, or Lambda, calls again."""
    yard = settings.read(SnapshotWakeSettings)
    ledger, run = Ledger(yard.table_name), str(event["run"])
    records = ledger.read(run)
    imaging = records.run.imaging if records else None
    if records is None or imaging is None:
        return {"kind": "undone", "reason": "no host was touched"}
    woken = _wake(yard, records, imaging)
    discarded = [
        _discard(ledger, run, image.id)
        for image in images.of_yard(yard.yard)
        if image.execution == run and not image.available
    ]
    started = _start_again(imaging)
    done = "; ".join([*woken, *discarded, *started]) or "nothing was to be undone"
    ledger.write(event_row(run, note("undone", done, at=clock())))
    return {"kind": "undone", "reason": done}


def _wake(yard: SnapshotWakeSettings, records: Records, imaging: Imaging) -> list[str]:
    """A program that was paused goes on; where it cannot be told to, it does so by itself."""
    if not imaging.pauses or (records.run.attempt, "pause") not in records.waits:
        return []
    try:
        documents.send(yard.resume_document, [imaging.instance], {}, comment=f"{records.run.run} resume")
    except StartFailed as unheard:
        logger.warning("the program on %s goes on by itself: %s", imaging.instance, unheard.reason)
        return []
    return [f"the program on {imaging.instance} goes on"]


def _discard(ledger: Ledger, run: str, image: str) -> str:
    images.retire(image)
    ledger.write(run_row(run, {"image": ""}))
    return f"{image} is retired with its snapshots"


def _start_again(imaging: Imaging) -> list[str]:
    """A host that was stopped for the image alone."""
    found = instances.of_ids([imaging.instance]) if imaging.stops else ()
    state = found[0].state if found else None
    if state == "stopping":
        raise StillStopping(
            f"{imaging.instance} is on its way down and will be started again once it is stopped"
        )
    if state != "stopped":
        return []
    instances.start([imaging.instance])
    return [f"{imaging.instance} is started again"]
