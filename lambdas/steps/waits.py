"""Waits that a command or an image ends: sent or asked for once, then checked, wherever news of it comes from.

A state that waits is entered again whenever it has had no answer for the yard's `look_seconds`, so an event that is
lost costs that long. Each time it stores its new token first, then checks.

A good end answers the token. A bad one is the caller's to report: signal fails the task, the state itself raises.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from lambdas.aws import images, instances, ssm
from lambdas.aws.ledger import (
    Ledger,
    event_row,
    look_up_row,
    run_row,
    wait_row,
)
from lambdas.core.edges.common import Available, Done
from lambdas.core.model import errors
from lambdas.core.model.errors import (
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
from lambdas.core.model.image import Image
from lambdas.core.run import deadlines
from lambdas.core.run.records import Owner, Records, WaitRow, ended_badly
from lambdas.core.run.recovery import Trouble
from lambdas.steps import attempts
from lambdas.steps.observability import note

ENDED_BADLY = ("Failed", "TimedOut", "Cancelled", "Cancelling")
FAILS_WITH: Mapping[str, type[TrainyardError]] = {
    "install": InstallFailed,
    "test": TestFailed,
    "generalize": GeneralizeFailed,
    "pause": PauseFailed,
}
"""What a wait for a command fails with; one for an image with ImageFailed."""


@dataclass(frozen=True)
class Entered:
    """A state that waits, with its token stored."""

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
        """What it waits for; None when nothing was sent or asked for yet."""
        return self.records.waits.get((self.attempt, self.wait))


def enter(
    ledger: Ledger, run: str, attempt: int, wait: str, token: str, now: datetime, *, state: str
) -> Entered:
    records = attempts.await_news(ledger, run, attempt, wait, token, now, state=state)
    return Entered(ledger, records, attempt, wait, now)


def gone(host: str) -> str | None:
    """Why EC2 says that the host is going or gone, for a state that looks because no event came; None if it is not."""
    found = [each for each in instances.of_ids([host]) if each.gone]
    return (
        f"EC2 says {host} is {found[0].state} ({found[0].state_reason or 'no reason given'})"
        if found
        else None
    )


def raise_if_over(entered: Entered, host: str) -> None:
    """Raise what has ended the attempt while nobody waited, or that EC2 says its one host is gone."""
    row = entered.records.attempts.get(entered.attempt)
    if row and row.trouble:
        raise errors.WORDS.get(row.trouble.error, Infrastructure)(row.trouble.reason)
    why = gone(host)
    if why:
        warned = entered.records.hosts[host].warned
        raise _noted(entered, Interrupted(why) if warned else HostLost(why))


def for_command(
    entered: Entered, host: str, document: str, parameters: Mapping[str, str], *, doing: str
) -> None:
    """Wait for the document's end on this host. It is sent once, however often the state is entered.

    Raises NotRegistered, nothing sent, until Systems Manager knows the host, HostLost once it does not any more, and
    what the wait fails with when the command ended badly or takes too long. `doing` is the timeline's word."""
    here = host in ssm.online([host])
    row = entered.row
    if row is None:
        if not here:
            raise NotRegistered(
                f"Systems Manager does not know {host}: its host role lacks ssm:UpdateInstanceInformation "
                "(give it AmazonSSMManagedInstanceCore), or there is no route to Systems Manager"
            )
        row = _send(entered, host, document, parameters, doing)
    assert row.command is not None, "a wait for a command holds one"
    status = ssm.status(row.command, host)
    wrong = answer_command(
        entered.ledger, entered.records, entered.attempt, entered.wait, status, entered.now
    )
    if wrong:
        raise wrong
    if status != "Success" and not here:
        raise _noted(
            entered, HostLost(f"Systems Manager has not heard of {host} for minutes: it hangs, or is cut off")
        )
    if status != "Success":
        _raise_overdue(entered, row, f"the document {document} has not ended on {host}")


def for_image(
    entered: Entered,
    host: str,
    name: str,
    *,
    description: str,
    tags: Mapping[str, str],
    reboot: bool = False,
) -> None:
    """Wait for the image of this host under that name, which is asked for once.

    Raises ImageFailed (HostLost where the host was going) when EC2 cannot make it or it takes too long."""
    row = entered.row or _ask(entered, host, name, description, tags, reboot)
    assert row.image is not None, "a wait for an image holds one"
    found = images.find(row.image)
    wrong = answer_image(entered.ledger, entered.records, entered.attempt, entered.wait, found, entered.now)
    if wrong:
        raise wrong
    if found is None or not found.available:
        _raise_overdue(entered, row, f"EC2 has not made the image {row.image} of {host}")


def retire_if_over(entered: Entered) -> None:
    """The execution was stopped while EC2 was asked, so that nobody clearing up after it could see its image."""
    row = entered.ledger.known(entered.run).run
    if row.ended is not None and row.image:
        images.retire(row.image)
        raise ImageFailed(f"{entered.run} was over before its image {row.image} was made; it is retired")


def answer_command(
    ledger: Ledger, records: Records, attempt: int, wait: str, status: str, now: datetime
) -> TrainyardError | None:
    """A command that ended well ends its wait, one that runs changes nothing; else what the wait must fail with."""
    token = records.waiting(attempt, (wait,))
    if token is None:
        return None
    run = records.run.run
    if status == "Success":
        attempts.succeed(ledger, run, token, Done(), now)
    elif status in ENDED_BADLY:
        where = "its output: aws ssm list-command-invocations --details"
        wrong = FAILS_WITH[wait](f"the {wait} document ended with {status}; {where}")
        _write_down(ledger, records, attempt, f"{wait} failed", wrong, now)
        return wrong
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
        attempts.succeed(ledger, run, token, Available(image=image.id), now)
        return None
    reason = (
        f"EC2 could not make the image {image.id}: it is {image.state} ({image.reason or 'no reason given'})"
    )
    going = [f"{host.instance}: {host.going}" for host in records.members(attempt) if host.going]
    wrong = HostLost(f"{reason}; its host was going ({'; '.join(going)})") if going else ImageFailed(reason)
    _write_down(ledger, records, attempt, "image failed", wrong, now)
    return wrong


def _send(entered: Entered, host: str, document: str, parameters: Mapping[str, str], doing: str) -> WaitRow:
    run, attempt, wait, now = entered.run, entered.attempt, entered.wait, entered.now
    (command,) = ssm.send(document, [host], parameters, comment=f"{run} {wait}")
    row = WaitRow(attempt=attempt, wait=wait, since=now, command=command)
    entered.ledger.write(
        look_up_row("command", command, Owner(run=run, attempt=attempt, wait=wait), now),
        wait_row(run, row),
        event_row(run, note(doing, f"{document} on {host}", at=now, attempt=attempt, command=command)),
    )
    return row


def _ask(
    entered: Entered, host: str, name: str, description: str, tags: Mapping[str, str], reboot: bool
) -> WaitRow:
    run, attempt, wait, now = entered.run, entered.attempt, entered.wait, entered.now
    image = images.create(host, name, description=description, tags=tags, reboot=reboot)
    row = WaitRow(attempt=attempt, wait=wait, since=now, image=image)
    entered.ledger.write(
        look_up_row("image", image, Owner(run=run, attempt=attempt, wait=wait), now),
        wait_row(run, row),
        run_row(run, {"image": image}),
        event_row(run, note("imaging", f"{image} of {host}", at=now, attempt=attempt)),
    )
    return row


def _raise_overdue(entered: Entered, row: WaitRow, what: str) -> None:
    most = deadlines.PATIENCE[entered.wait]
    if entered.now - row.since > most:
        error = FAILS_WITH.get(entered.wait, ImageFailed)
        raise _noted(
            entered, error(f"{what} within {most.total_seconds() / 3600:g} hours, so nobody waits any longer")
        )


def _noted(entered: Entered, wrong: TrainyardError) -> TrainyardError:
    _write_down(
        entered.ledger, entered.records, entered.attempt, f"{entered.wait} failed", wrong, entered.now
    )
    return wrong


def _write_down(
    ledger: Ledger, records: Records, attempt: int, event: str, wrong: TrainyardError, now: datetime
) -> None:
    """On the timeline, and as the attempt's end where it has one and nothing ended it before."""
    run, error = records.run.run, type(wrong).__name__
    ledger.write(event_row(run, note(event, wrong.reason, at=now, attempt=attempt)))
    if attempt in records.attempts:
        trouble = Trouble(error=error, reason=wrong.reason)
        attempts.end_once(ledger, run, attempt, ended_badly(trouble, now))
