"""Snapshot: seal the chief's disk, then image it. Two waits of one function: `step` says which."""

from datetime import datetime
from typing import Any

from lambdas import settings
from lambdas.aws import documents, images
from lambdas.aws.ledger import Ledger, event_row, look_up_row, run_row
from lambdas.core import tokens
from lambdas.core.errors import ImageFailed
from lambdas.core.records import Records
from lambdas.handlers import attempts, waits
from lambdas.handlers.voice import attempt_of, clock, note
from lambdas.settings import SnapshotSettings


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    yard = settings.read(SnapshotSettings)
    run, attempt = attempt_of(event)
    ledger, now = Ledger(yard.table_name), clock()
    wait = "seal" if event["step"] == "seal" else "snapshot"
    records = attempts.await_news(ledger, run, attempt, wait, event["token"], now, state="Snapshot")
    if wait == "snapshot":
        attempts.refuse_denied(records, attempt)
    chief = _chief(records, attempt)
    if wait == "seal":
        _seal(yard, ledger, records, attempt, chief, now)
    else:
        _capture(yard, ledger, records, attempt, chief, now)
    return {}


def _chief(records: Records, attempt: int) -> str:
    """The chief; where it is gone, the first by its role that lives."""
    living = (host.instance for _, host in records.seated(attempt) if host.lives)
    first = next(living, None)
    if first is None:
        raise ImageFailed("the job asks for an image, but no host of its last attempt lives to make one of")
    return first


def _seal(
    yard: SnapshotSettings, ledger: Ledger, records: Records, attempt: int, chief: str, now: datetime
) -> None:
    run = records.run.run
    (command,) = documents.send(yard.seal_document, [chief], {}, comment=f"{run} seal")
    ledger.write(
        look_up_row("command", command, run, now=now, attempt=attempt, wait="seal"),
        event_row(run, note("sealing", f"{chief} becomes an image", at=now, attempt=attempt)),
    )
    wrong = waits.answer_command(ledger, records, attempt, "seal", documents.status(command, chief), now)
    if wrong:
        raise wrong


def _capture(
    yard: SnapshotSettings, ledger: Ledger, records: Records, attempt: int, chief: str, now: datetime
) -> None:
    run = records.run.run
    name = tokens.image_name(run, attempt=attempt)
    tags = {"trainyard:yard": yard.yard, "trainyard:run": run, "Name": name}
    image = images.create(chief, name, description=f"Trainyard: {chief} after the run {run}", tags=tags)
    ledger.write(
        look_up_row("image", image, run, now=now, attempt=attempt, wait="snapshot"),
        run_row(run, {"image": image}),
        event_row(run, note("imaging", f"{image} of {chief}", at=now, attempt=attempt)),
    )
    wrong = waits.answer_image(ledger, records, attempt, "snapshot", images.find(image), now)
    if wrong:
        raise wrong
