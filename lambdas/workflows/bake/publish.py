"""Publish: point the image parameters at the new image, or back at the previous one.

The move is written to the ledger once, before the first parameter changes. A repeated call, also after a crash in
between, repeats that move. Nothing moves after the end of the bake."""

from datetime import datetime

from lambdas import environment
from lambdas.aws import ssm
from lambdas.aws.dynamodb.ledger import AlreadyWrittenError, Ledger
from lambdas.aws.dynamodb.rows import event_row, run_row
from lambdas.aws.ec2 import images
from lambdas.core.images import bake
from lambdas.core.run.records import Records
from lambdas.environment import ImageSettings
from lambdas.needs import Needs, may
from lambdas.steps import attempts
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import Answer, AttemptInput
from lambdas.steps.observability import clock, note
from trainyard.core.model.errors import ImageFailed
from trainyard.protocol.ledger.attempt import Ending
from trainyard.protocol.ledger.run import Moved
from trainyard.values.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class Baked(Answer):
    kind = "baked"
    image: str


class RolledBack(Baked):
    kind = "rolled_back"


NEEDS = Needs(
    ImageSettings,
    (
        may("use the ledger", "Query", "PutItem", "UpdateItem"),
        may("use the image parameters", "GetParameter", "PutParameter"),
        may("call", "ec2:DescribeImages"),
    ),
)


@entry_point
def handler(given: AttemptInput) -> Baked | RolledBack:
    yard, run, attempt = environment.read(ImageSettings), given.run, given.attempt
    ledger, now = Ledger(yard.table_name), clock()
    records = ledger.require(run)
    attempts.refuse_denied(records, attempt)
    moved = records.run.published or _decide_move(yard, ledger, records, now)
    if (records.run.recipe or {}).get("current", True):
        reason = _move_parameters(yard, moved)
    else:
        reason = f"{moved.image} is available; {yard.image_parameter} stays {moved.before} (recipe with current: false)"
    ledger.write(event_row(run, note("published", reason, at=now, attempt=attempt)))
    if attempt in records.attempts:
        reached = f"{moved.image} was made"
        attempts.end_once(ledger, run, attempt, {"ending": Ending.FINISHED, "ended": now, "reason": reached})
    answer = Baked if records.run.image else RolledBack
    return answer(image=moved.image, reason=reason)


def _move_parameters(yard: ImageSettings, moved: Moved) -> str:
    if moved.before != bake.NO_IMAGE:
        ssm.set_parameter(yard.previous_image_parameter, moved.before)
    ssm.set_parameter(yard.image_parameter, moved.image)
    return f"{yard.image_parameter} is {moved.image}; it was {moved.before}"


def _decide_move(yard: ImageSettings, ledger: Ledger, records: Records, now: datetime) -> Moved:
    """Decide on the move and write it to the ledger for good. Raises ImageFailed if the image may not be published."""
    run = records.run.run
    image = records.run.image or ssm.read_parameter(yard.previous_image_parameter) or bake.NO_IMAGE
    found = images.find(image) if image != bake.NO_IMAGE else None
    if found is None or not found.available or not found.is_of(yard.yard):
        state = found.state if found else "gone"
        raise ImageFailed(
            f"the image {image} is {state}, so hosts cannot start from it; the current image stays"
        )
    moved = Moved(image, ssm.read_parameter(yard.image_parameter) or bake.NO_IMAGE)
    try:
        ledger.write(run_row(run, {"state": "Publish", "published": moved}, unless="ended"))
    except AlreadyWrittenError as over:
        raise ImageFailed(f"the bake {run} has ended, so its image {image} is not published") from over
    return moved
