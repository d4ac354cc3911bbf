"""Capture: an image of a quiesced host, for a snapshot or at the end of a run. A paused program then continues."""

from lambdas import environment
from lambdas.aws import ssm
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.rows import event_row
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps import attempts, waits
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import Nothing, WaitInput
from lambdas.steps.observability import clock, note
from lambdas.steps.waits import Entered
from trainyard.core.model.errors import HostLost, StartFailed
from trainyard.core.model.images import imaging as core


class CaptureSettings(YardSettings):
    resume_document: str


NEEDS = Needs(
    CaptureSettings,
    (
        may("image hosts"),
        may("retire images"),
        may("run documents", "resume"),
        may("answer tasks", "Success"),
        may("call", "ec2:DescribeImages", "ec2:DescribeInstances"),
        may("use the ledger", "Query", "PutItem", "UpdateItem"),
    ),
)


@entry_point
def handler(given: WaitInput) -> Nothing:
    yard, run, attempt = environment.read(CaptureSettings), given.run, given.attempt
    entered = waits.enter(Ledger(yard.table_name), run, attempt, "capture", given.task_token, clock())
    attempts.refuse_denied(entered.records, attempt)
    imaging, asks = entered.records.run.imaging, entered.row is None
    assert imaging is not None, "Admit or Generalize has chosen the host"
    gone = (
        waits.describe_end(imaging.instance) if asks and imaging.was_running and not imaging.stops else None
    )
    if gone:
        raise HostLost(f"{gone}, before it was imaged")
    name = core.image_name(imaging.family, imaging.instance, run)
    waits.await_image(
        entered,
        imaging.instance,
        name,
        description=f"Trainyard: {imaging.instance}, imaged by {run}",
        tags=core.tags(imaging, yard=yard.yard, run=run, name=name),
        reboot=imaging.reboots,
    )
    if asks and imaging.pauses:
        _wake(yard, entered, imaging.instance)
    if asks:
        waits.retire_if_over(entered)
    return Nothing()


def _wake(yard: CaptureSettings, entered: Entered, host: str) -> None:
    """Resume the program once EC2 has started the image. A program that cannot be resumed from here continues by
    itself."""
    try:
        ssm.send(yard.resume_document, [host], {}, comment=f"{entered.run} resume")
        reason = f"the program on {host} continues"
    except StartFailed as unreached:
        reason = f"the program on {host} could not be resumed and will continue by itself: {unreached.reason}"
    entered.ledger.write(event_row(entered.run, note("resumed", reason, at=clock(), attempt=entered.attempt)))
