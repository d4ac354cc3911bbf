"""Submit: start a run, study or bake for an uploaded job file or recipe, and for each time of a schedule.

Each object version starts one execution, and so does each time of a schedule. The file of a job with a schedule makes
the schedule instead."""

from dataclasses import field

from lambdas import environment
from lambdas.needs import Needs, may
from lambdas.steps import schedules, submission
from lambdas.steps.entry_point import entry_point
from lambdas.steps.observability import logger
from lambdas.steps.schedules import ScheduledFile, ScheduleSettings
from trainyard.core.jobfile import check, recipe
from trainyard.protocol import keys
from trainyard.protocol.requests import ScheduleRequest
from trainyard.values import serialization
from trainyard.values.lazy import dataclass


class SubmitSettings(ScheduleSettings):
    study_state_machine_arn: str
    bake_state_machine_arn: str


ENDINGS = (".yaml", ".yml", ".json")
"""The endings of job files and recipes, in upper or lower case. Other files in their folders start nothing."""
NEEDS = Needs(
    SubmitSettings,
    (
        may("read versions", keys.JOBS, keys.IMAGES),
        may("start executions", "train", "study", "bake"),
        may("keep schedules"),
        may("use the ledger", "GetItem", "PutItem", "UpdateItem", "DeleteItem"),
    ),
)


@dataclass(frozen=True, kw_only=True)
class UploadedObject:
    key: str
    version_id: str | None = field(default=None, metadata={"json_key": "version-id"})
    etag: str = ""


@dataclass(frozen=True, kw_only=True)
class UploadDetail:
    object: UploadedObject
    requester: str | None = None
    """The account that uploaded the object."""


@dataclass(frozen=True, kw_only=True)
class SubmitInput:
    """An object that was put into the bucket, a time of a schedule, or a user's request for a schedule."""

    detail: UploadDetail | None = None
    schedule: str = ""
    at: str = ""
    """The time of the schedule, in UTC."""
    request: ScheduleRequest | None = None
    by: str = ""
    """The sender of the request, as IAM has verified."""
    operator: bool = False
    """True if the user acts as an operator."""


@dataclass(frozen=True, kw_only=True)
class Submitted:
    run: str | None
    """None for an event that starts nothing."""
    started: bool


NOTHING = Submitted(run=None, started=False)


@entry_point
def handler(given: SubmitInput) -> Submitted:
    yard = environment.read(SubmitSettings)
    if given.request:
        logger.info("%s", schedules.change(yard, given.request, given.by, operator=given.operator))
        return NOTHING
    if given.schedule:
        run, started = schedules.answer(yard, given.schedule, serialization.parse_timestamp(given.at))
        return Submitted(run=run, started=started)
    return _handle_upload(yard, given.detail) if given.detail else NOTHING


def _handle_upload(yard: SubmitSettings, upload: UploadDetail) -> Submitted:
    uploaded = upload.object
    if uploaded.key == recipe.REPORT or not uploaded.key.lower().endswith(ENDINGS):
        return NOTHING
    bakes = uploaded.key.startswith(keys.IMAGES)
    found = submission.read(yard.bucket_name, uploaded.key, uploaded.version_id)
    refused = None
    if not bakes and check.has_schedule(found.text, key=uploaded.key):
        made = schedules.make(
            yard,
            found.text,
            ScheduledFile(
                key=uploaded.key,
                version_id=uploaded.version_id,
                etag=uploaded.etag,
                requester=upload.requester,
            ),
        )
        if made is None:
            return NOTHING
        refused = made.reason
    run, started = submission.start(
        yard.bake_state_machine_arn if bakes else yard.train_state_machine_arn,
        yard.study_state_machine_arn if not bakes else None,
        yard.bucket_name,
        uploaded.key,
        found,
        version=uploaded.version_id,
        etag=uploaded.etag,
        requester=None if bakes else upload.requester,
        refused=refused,
    )
    return Submitted(run=run, started=started)
