"""Waits that a command or an image ends: what its status means for the token, wherever it was learnt from."""

from datetime import datetime

from lambdas.aws.documents import Said
from lambdas.aws.images import Image
from lambdas.aws.ledger import Ledger, event_row
from lambdas.core.records import Records
from lambdas.core.recovery import Trouble
from lambdas.handlers import attempts
from lambdas.handlers.voice import note

ENDED_BADLY = ("Failed", "TimedOut", "Cancelled", "Cancelling")


def answer_command(
    ledger: Ledger, records: Records, attempt: int, wait: str, said: Said, now: datetime
) -> None:
    """A command that ended ends its wait; one that runs changes nothing."""
    token = records.waiting(attempt, (wait,))
    if token is None:
        return
    run = records.run.run
    if said.status == "Success":
        attempts.succeed(ledger, run, token, {"kind": "done"}, now)
    elif said.status in ENDED_BADLY:
        reason = f"the {wait} document ended with {said.status}"
        ledger.write(event_row(run, note(f"{wait} failed", reason, at=now, attempt=attempt)))
        error = "InstallFailed" if wait == "install" else "StartFailed"
        attempts.fail(ledger, run, token, Trouble(error=error, reason=reason, tail=said.tail), now)


def answer_image(
    ledger: Ledger, records: Records, attempt: int, wait: str, image: Image | None, now: datetime
) -> None:
    """An image that is available or failed ends its wait; a pending one changes nothing."""
    token = records.waiting(attempt, (wait,))
    if token is None or image is None or image.state == "pending":
        return
    run = records.run.run
    if image.state == "available":
        ledger.write(event_row(run, note("image available", image.id, at=now, attempt=attempt)))
        attempts.succeed(ledger, run, token, {"kind": "available", "image": image.id}, now)
    else:
        reason = f"EC2 could not make the image {image.id}: it is {image.state} ({image.reason or 'no reason given'})"
        ledger.write(event_row(run, note("image failed", reason, at=now, attempt=attempt)))
        attempts.fail(ledger, run, token, Trouble(error="ImageFailed", reason=reason), now)
