"""Conclude of a bake: the outcome and summary. Only the published image of the bake remains.

A rule calls this function for executions that ended before their Conclude or failed in it."""

from dataclasses import replace

from lambdas import environment
from lambdas.aws import s3, ssm
from lambdas.aws.dynamodb.ledger import AlreadyWrittenError, Ledger
from lambdas.aws.dynamodb.rows import event_row
from lambdas.aws.ec2 import images
from lambdas.core.images import bake, bake_summary
from lambdas.core.run import AttemptUpdate
from lambdas.core.run.outcome import ending_of
from lambdas.environment import ImageSettings
from lambdas.needs import Needs, may
from lambdas.steps import attempts, conclusion
from lambdas.steps.conclusion import Concluded, NotConcluded, RunEnd
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import ConcludeInput
from lambdas.steps.observability import note
from trainyard.core.model.errors import TrainyardError
from trainyard.protocol import keys
from trainyard.protocol.summary import BakeSummary
from trainyard.values import serialization
from trainyard.values.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class BakeConcluded(Concluded):
    """The answer of the bake."""

    image: str | None = None
    """The current image of the yard."""
    before: str | None = None
    """The current image before this bake."""


NEEDS = Needs(
    ImageSettings,
    (
        may("use the ledger", "Query", "PutItem", "UpdateItem", "DeleteItem"),
        may("read and list objects", keys.RUNS),
        may("write objects", keys.RUNS),
        may("use the image parameters", "GetParameter"),
        may("retire images"),
        may("call", "ec2:DescribeImages"),
    ),
    minutes=2,
)


@entry_point
def handler(given: ConcludeInput) -> BakeConcluded | Concluded | NotConcluded:
    yard, run = environment.read(ImageSettings), given.run
    end = conclusion.end_of(
        yard.table_name,
        yard.bucket_name,
        given,
        has_concluded=lambda _: conclusion.has_summary(yard.bucket_name, run),
    )
    if isinstance(end, NotConcluded):
        return end
    if isinstance(end, Concluded):
        Ledger(yard.table_name).give_back_bake_lock(run)
        return end
    end = _write_end(end)
    if wrong := _discard(yard, end):
        end = _write_end(end.spoiled(wrong))
    end.ledger.give_back_bake_lock(run)
    end, summary = end.write_summary(_summary(end, given))
    end.write(unless=None)  # the end was written above, before the discarding of images
    return serialization.from_json(BakeConcluded, summary)


def _write_end(end: RunEnd) -> RunEnd:
    """Write the end of the run. Publish checks this row, so that an image is never published after the end. A
    concurrent Conclude may have written the end already."""
    if end.records is None:
        return end
    try:
        end.ledger.write(end.row_write(unless="ended"))
        end.count()
    except AlreadyWrittenError:
        end = replace(end, records=end.ledger.read(end.run))
        end.ledger.write(end.row_write(unless=None))
    if end.records is None:
        return end
    attempt = end.records.run.attempt
    if attempt in end.records.attempts:
        values: AttemptUpdate = {
            "ending": ending_of(end.conclusion.error or ""),
            "ended": end.now,
            "reason": end.conclusion.reason,
        }
        attempts.end_once(end.ledger, end.run, attempt, values)
    return end


def _discard(yard: ImageSettings, end: RunEnd) -> TrainyardError | None:
    """Retire the images of the bake that are not in use. A failure to retire one fails the bake and names the image."""
    run, records = end.run, end.ledger.read(end.run)
    parameters = (yard.image_parameter, yard.previous_image_parameter)
    keep = [ssm.read_parameter(name) or bake.NO_IMAGE for name in parameters]
    if records and records.run.published:
        keep.append(records.run.published.image)
    wrong: TrainyardError | None = None
    for image in bake.find_discarded(images.find_in_yard(yard.yard), run=run, keep=keep):
        try:
            images.retire(image)
        except TrainyardError as error:
            wrong = wrong or error
            continue
        if records:
            reason = f"{image}: the bake ended without it"
            end.ledger.write(event_row(run, note("discarded", reason, at=end.now, image=image)))
    return wrong


def _summary(end: RunEnd, given: ConcludeInput) -> BakeSummary:
    """Return the summary. If Admit could not write the run, the summary contains only the failure."""
    how, last, unretired = end.conclusion, given.outcome, given.unretired
    return bake_summary.summarise(
        replace(end, records=end.ledger.read(end.run)),
        kind=last.kind if how.error is None else how.outcome.value,
        image=last.image if how.error is None else None,
        objects=s3.list_keys(end.bucket, keys.run(end.run)),
        results=s3.get_json(end.bucket, keys.tests(end.run)) or {},
        retirement=(unretired.cause or unretired.error) if unretired.error else None,
    )
