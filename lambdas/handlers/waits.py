"""Waits that a command or an image ends: what its status means for the token, wherever it was learnt from.

A good end answers the token. A bad one is the caller's to tell: signal fails the task, the state itself raises.
"""

from datetime import datetime

from lambdas.aws.ledger import Ledger, event_row
from lambdas.core.bake import ImageFailed, InstallFailed
from lambdas.core.errors import StartFailed, TrainyardError
from lambdas.core.image import Image
from lambdas.core.records import Records
from lambdas.handlers import attempts
from lambdas.handlers.voice import note

ENDED_BADLY = ("Failed", "TimedOut", "Cancelled", "Cancelling")


def answer_command(
    ledger: Ledger, records: Records, attempt: int, wait: str, status: str, now: datetime
) -> TrainyardError | None:
    """A command that ended well ends its wait, one that runs changes nothing; else what the wait must fail with."""
    token = records.waiting(attempt, (wait,))
    if token is None:
        return None
    run = records.run.run
    if status == "Success":
        attempts.succeed(ledger, run, token, {"kind": "done"}, now)
    elif status in ENDED_BADLY:
        where = "its output: aws ssm list-command-invocations --details"
        reason = f"the {wait} document ended with {status}; {where}"
        ledger.write(event_row(run, note(f"{wait} failed", reason, at=now, attempt=attempt)))
        return InstallFailed(reason) if wait == "install" else StartFailed(reason)
    return None


def answer_image(
    ledger: Ledger, records: Records, attempt: int, wait: str, image: Image | None, now: datetime
) -> TrainyardError | None:
    """An image that is available ends its wait, a pending one changes nothing; else what the wait must fail with."""
    token = records.waiting(attempt, (wait,))
    if token is None or image is None or image.state == "pending":
        return None
    run = records.run.run
    if image.state == "available":
        ledger.write(event_row(run, note("image available", image.id, at=now, attempt=attempt)))
        attempts.succeed(ledger, run, token, {"kind": "available", "image": image.id}, now)
        return None
    reason = (
        f"EC2 could not make the image {image.id}: it is {image.state} ({image.reason or 'no reason given'})"
    )
    ledger.write(event_row(run, note("image failed", reason, at=now, attempt=attempt)))
    return ImageFailed(reason)
