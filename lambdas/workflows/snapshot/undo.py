"""Undo: remove the image of a failed execution and restore its host. The call may be repeated.

The workflows call this function, and a rule calls it for executions that did not succeed."""

from lambdas import environment
from lambdas.aws import ssm
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.rows import event_row, run_row
from lambdas.aws.ec2 import images, instances
from lambdas.core.run.records import Records
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import Answer, RunInput
from lambdas.steps.observability import clock, logger, note
from trainyard.core.model.errors import StartFailed, StillStopping, TrainyardError
from trainyard.protocol.imaging import Imaging
from trainyard.values.lazy import dataclass


class UndoSettings(YardSettings):
    resume_document: str


@dataclass(frozen=True, kw_only=True)
class UndoInput(RunInput):
    """The run whose image is undone."""

    execution: str | None = None
    """The execution, in calls by a rule. Only images of that execution are undone."""


class Undone(Answer):
    kind = "undone"


NEEDS = Needs(
    UndoSettings,
    (
        may("retire images"),
        may("run documents", "resume"),
        may("start hosts"),
        may("call", "ec2:DescribeImages", "ec2:DescribeInstances"),
        may("use the ledger", "Query", "PutItem", "UpdateItem"),
    ),
)


@entry_point
def handler(given: UndoInput) -> Undone:
    """Undo the imaging. Raises StillStopping while the host cannot be started yet; the workflow or Lambda then
    retries."""
    yard = environment.read(UndoSettings)
    ledger, run = Ledger(yard.table_name), given.run
    records = ledger.read(run)
    imaging = records.run.imaging if records else None
    if records is None or imaging is None or not records.run.is_of(given.execution):
        return Undone(reason="no host was touched")
    done, wrong = [], []
    for undo in (_wake, _discard, _restart):
        try:
            done += undo(yard, ledger, records, imaging)
        except TrainyardError as error:  # continue with the rest, and raise the first error at the end
            wrong.append(error)
    ledger.write(event_row(run, note("undone", "; ".join(done) or "nothing had to be undone", at=clock())))
    if wrong:
        raise wrong[0]
    return Undone(reason="; ".join(done))


def _discard(yard: UndoSettings, ledger: Ledger, records: Records, imaging: Imaging) -> list[str]:
    """Retire each image of this execution that is not available, even if EC2 does not list it yet."""
    run, done, shown = records.run.run, [], images.find_in_yard(yard.yard)
    asked = [image.id for image in shown if image.execution == run and not image.available]
    if records.run.image and records.run.image not in {image.id for image in shown}:
        asked.append(records.run.image)
    for image in asked:
        images.retire(image)
        ledger.write(run_row(run, {"image": ""}))
        done.append(f"{image} is retired with its snapshots")
    return done


def _wake(yard: UndoSettings, ledger: Ledger, records: Records, imaging: Imaging) -> list[str]:
    """Resume a paused program. A program that cannot be resumed from here continues by itself."""
    if not imaging.pauses or (records.run.attempt, "pause") not in records.waits:
        return []
    try:
        ssm.send(yard.resume_document, [imaging.instance], {}, comment=f"{records.run.run} resume")
    except StartFailed as unreached:
        logger.warning("the program on %s continues by itself: %s", imaging.instance, unreached.reason)
        return []
    return [f"the program on {imaging.instance} continues"]


def _restart(yard: UndoSettings, ledger: Ledger, records: Records, imaging: Imaging) -> list[str]:
    """Start a host that was stopped only for the image."""
    found = instances.find_by_id([imaging.instance]) if imaging.stops else ()
    state = found[0].state if found else None
    if state == "stopping":
        raise StillStopping(f"{imaging.instance} is still stopping; it is started again once it is stopped")
    if state != "stopped":
        return []
    instances.check_refusals(instances.start([imaging.instance]))
    return [f"{imaging.instance} is started again"]
