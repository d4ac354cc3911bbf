"""Waits for the end of a command or an image. The request is sent once; each signal about it is checked the same way.

A waiting state is entered again after `look_seconds` without an answer, so a lost event costs that time. Each entry
stores its new task token first, then checks.

A success answers the task. The caller reports a failure: signal fails the task, and the state itself raises the
error."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from lambdas.aws import ssm
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.rows import event_row, look_up_row, run_row, wait_row
from lambdas.aws.dynamodb.write import Write
from lambdas.aws.ec2 import images, instances
from lambdas.core.run import deadlines
from lambdas.core.run.outcome import failure_update
from lambdas.core.run.records import Records
from lambdas.core.run.recovery import Trouble, trouble_of
from lambdas.steps import attempts
from lambdas.steps.attempts import Available, Done
from lambdas.steps.observability import note
from trainyard.core.model import errors
from trainyard.core.model.errors import (
    GeneralizeFailed,
    HostLost,
    ImageFailed,
    Infrastructure,
    InstallFailed,
    Interrupted,
    NotRegistered,
    PauseFailed,
    TestFailed,
    TrainyardError,
)
from trainyard.core.model.images.image import Image
from trainyard.protocol.ledger.attempt import TokenRow, WaitRow
from trainyard.protocol.ledger.lookup import Owner
from trainyard.protocol.ledger.run import Outcome
from trainyard.values.lazy import dataclass

ENDED_BADLY = ("Failed", "TimedOut", "Cancelled", "Cancelling")
FAILS_WITH: Mapping[str, type[TrainyardError]] = {
    "install": InstallFailed,
    "test": TestFailed,
    "generalize": GeneralizeFailed,
    "pause": PauseFailed,
}
"""The error of each wait for a command. A wait for an image fails with ImageFailed."""


@dataclass(frozen=True)
class Entered:
    """A waiting state with its stored task token."""

    ledger: Ledger
    records: Records
    attempt: int
    wait: str
    now: datetime

    @property
    def run(self) -> str:
        return self.records.run.run

    @property
    def row(self) -> WaitRow | None:
        """Return the command or image of the wait; None before the request was sent."""
        return self.records.waits.get((self.attempt, self.wait))

    @property
    def token(self) -> TokenRow | None:
        """Return its task token; None once it is answered."""
        return self.records.waiting(self.attempt, (self.wait,))

    def event(self, event: str, reason: str, **detail: Any) -> Write:
        return event_row(self.run, note(event, reason, at=self.now, attempt=self.attempt, **detail))


def enter(ledger: Ledger, run: str, attempt: int, wait: str, task_token: str, now: datetime) -> Entered:
    """Store the task token of a wait. The name of the state is the capitalized name of the wait."""
    records = attempts.begin_wait(ledger, run, attempt, wait, task_token, now, state=wait.capitalize())
    return Entered(ledger, records, attempt, wait, now)


def describe_end(host: str) -> str | None:
    """Return EC2's reason if the host ends or has ended; None if it runs."""
    found = [each for each in instances.find_by_id([host]) if each.gone]
    return f"EC2 reports {host} is {found[0].state_and_why}" if found else None


def raise_if_over(entered: Entered, host: str) -> None:
    """Raise the error that ended the attempt before this wait began, or the loss of its one host."""
    row = entered.records.attempts.get(entered.attempt)
    trouble = trouble_of(row) if row else None
    if trouble:
        raise errors.WORDS.get(trouble.error, Infrastructure)(trouble.reason)
    why = describe_end(host)
    if why:
        warned = entered.records.hosts[host].warned
        raise _record(entered, Interrupted(why) if warned else HostLost(why))


def await_command(
    entered: Entered, host: str, document: str, parameters: Mapping[str, str], *, doing: str
) -> None:
    """Wait for the end of the SSM document on this host. The command is sent once, even if the state is entered
    again.

    Raises NotRegistered before sending if Systems Manager does not list the host, HostLost if it no longer does, and
    the error of the wait if the command failed or is overdue. `doing` is the event in the timeline."""
    here = host in ssm.find_online([host])
    row = entered.row
    if row is None:
        if not here:
            raise NotRegistered(
                f"{host} is not registered in Systems Manager: its role lacks ssm:UpdateInstanceInformation "
                "(give it AmazonSSMManagedInstanceCore), or it has no route to Systems Manager"
            )
        row = _send(entered, host, document, parameters, doing)
    assert row.command is not None, "a wait for a command holds one"
    status = ssm.read_status(row.command, host)
    if wrong := answer_command(entered, status):
        raise wrong
    if status != "Success" and not here:
        raise _record(
            entered,
            HostLost(
                f"{host} has not answered Systems Manager for minutes: it hangs, or has lost its network"
            ),
        )
    if status != "Success":
        _raise_overdue(entered, row, f"the SSM document {document} has not ended on {host}")


def await_image(
    entered: Entered,
    host: str,
    name: str,
    *,
    description: str,
    tags: Mapping[str, str],
    reboot: bool = False,
) -> None:
    """Wait for the image of this host. The image is requested once.

    Raises ImageFailed (HostLost if the host was ending) if EC2 cannot make the image or it is overdue."""
    row = entered.row or _request_image(entered, host, name, description, tags, reboot)
    assert row.image is not None, "a wait for an image holds one"
    found = images.find(row.image)
    if wrong := answer_image(entered, found):
        raise wrong
    if found is None or not found.available:
        _raise_overdue(entered, row, f"EC2 has not made the image {row.image} of {host}")


def retire_if_over(entered: Entered) -> None:
    """Retire the image of a run that ended before EC2 answered the request for it, since the cleanup could not see it.
    The image of a successful run stays."""
    row = entered.ledger.require(entered.run).run
    if row.ended is not None and row.outcome is not Outcome.SUCCEEDED and row.image:
        images.retire(row.image)
        entered.ledger.write(run_row(entered.run, {"image": ""}))
        raise ImageFailed(f"{entered.run} ended before its image {row.image} was made; the image was retired")


def answer_command(entered: Entered, status: str) -> TrainyardError | None:
    """Answer the task if the command succeeded; return the error if it failed. A running command changes nothing."""
    if entered.token is None:
        return None
    if status == "Success":
        attempts.succeed(entered.ledger, entered.run, entered.token, Done(), entered.now)
    elif status in ENDED_BADLY:
        return _record(entered, _explain_failure(entered, status))
    return None


def _explain_failure(entered: Entered, status: str) -> TrainyardError:
    """Return the error of a failed command. If the host reported no end, the host counts as lost."""
    row = entered.row
    assert row is not None, "what ended had begun"
    assert row.command is not None, "a wait for a command holds one"
    if silent := ssm.find_silent_hosts(row.command):
        hosts = ", ".join(sorted(silent))
        return HostLost(
            f"{hosts} did not report the end of the {entered.wait} SSM document ({status}): the host hangs, or has "
            "lost its network"
        )
    where = "its output: aws ssm list-command-invocations --details"
    return FAILS_WITH[entered.wait](f"the {entered.wait} SSM document ended with {status}; {where}")


def answer_image(entered: Entered, image: Image | None) -> TrainyardError | None:
    """Answer the task if the image is available; return the error if it failed. A pending image changes nothing."""
    if entered.token is None or image is None or image.state == "pending":
        return None
    if image.available:
        entered.ledger.write(entered.event("image available", image.id))
        attempts.succeed(entered.ledger, entered.run, entered.token, Available(image=image.id), entered.now)
        return None
    reason = (
        f"EC2 could not make the image {image.id}: it is {image.state} ({image.reason or 'no reason given'})"
    )
    members = entered.records.members(entered.attempt)
    going = [f"{host.instance}: {host.ending_reason}" for host in members if host.ending_reason]
    wrong = HostLost(f"{reason}; its host was ending ({'; '.join(going)})") if going else ImageFailed(reason)
    return _record(entered, wrong, "image failed")


def _send(entered: Entered, host: str, document: str, parameters: Mapping[str, str], doing: str) -> WaitRow:
    (command,) = ssm.send(document, [host], parameters, comment=f"{entered.run} {entered.wait}")
    row = WaitRow(attempt=entered.attempt, wait=entered.wait, since=entered.now, command=command)
    owner = Owner(run=entered.run, attempt=entered.attempt, wait=entered.wait)
    entered.ledger.write(
        look_up_row("command", command, owner, entered.now),
        wait_row(entered.run, row),
        entered.event(doing, f"{document} on {host}", command=command),
    )
    return row


def _request_image(
    entered: Entered, host: str, name: str, description: str, tags: Mapping[str, str], reboot: bool
) -> WaitRow:
    image = images.create(host, name, description=description, tags=tags, reboot=reboot)
    row = WaitRow(attempt=entered.attempt, wait=entered.wait, since=entered.now, image=image)
    owner = Owner(run=entered.run, attempt=entered.attempt, wait=entered.wait)
    entered.ledger.write(
        look_up_row("image", image, owner, entered.now),
        wait_row(entered.run, row),
        run_row(entered.run, {"image": image}),
        entered.event("imaging", f"{image} of {host}"),
    )
    return row


def _raise_overdue(entered: Entered, row: WaitRow, what: str) -> None:
    most = deadlines.PATIENCE[entered.wait]
    if entered.now - row.since > most:
        error = FAILS_WITH.get(entered.wait, ImageFailed)
        raise _record(
            entered, error(f"{what} within {most.total_seconds() / 3600:g} hours, which is the limit")
        )


def _record(entered: Entered, wrong: TrainyardError, event: str = "") -> TrainyardError:
    """Record the error in the timeline, and as the end of the attempt unless it has ended before."""
    entered.ledger.write(entered.event(event or f"{entered.wait} failed", wrong.reason))
    if entered.attempt in entered.records.attempts:
        trouble = Trouble(error=type(wrong).__name__, reason=wrong.reason)
        ended = failure_update(trouble, entered.now)
        attempts.end_once(entered.ledger, entered.run, entered.attempt, ended)
    return wrong
