"""Submit: start a run, study or bake for an uploaded job file or recipe. Each object version starts one execution."""

from dataclasses import field

from lambdas import environment
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps import submission
from lambdas.steps.entry_point import entry_point
from trainyard.core.jobfile import recipe
from trainyard.protocol import keys
from trainyard.values.lazy import dataclass


class SubmitSettings(YardSettings):
    train_state_machine_arn: str
    study_state_machine_arn: str
    bake_state_machine_arn: str


ENDINGS = (".yaml", ".yml", ".json")
"""The endings of job files and recipes, in upper or lower case. Other files in their folders start nothing."""
NEEDS = Needs(
    SubmitSettings,
    (
        may("read versions", keys.JOBS, keys.IMAGES),
        may("start executions", "train", "study", "bake"),
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
class Upload:
    """An object that was put into the bucket."""

    detail: UploadDetail


@dataclass(frozen=True, kw_only=True)
class Submitted:
    run: str | None
    """None for an upload that starts nothing."""
    started: bool


@entry_point
def handler(upload: Upload) -> Submitted:
    yard = environment.read(SubmitSettings)
    uploaded = upload.detail.object
    if uploaded.key == recipe.REPORT or not uploaded.key.lower().endswith(ENDINGS):
        return Submitted(run=None, started=False)
    bakes = uploaded.key.startswith(keys.IMAGES)
    machine = yard.bake_state_machine_arn if bakes else yard.train_state_machine_arn
    run, started = submission.start(
        machine,
        yard.study_state_machine_arn if not bakes else None,
        yard.bucket_name,
        uploaded.key,
        version=uploaded.version_id,
        etag=uploaded.etag,
        requester=None if bakes else upload.detail.requester,
    )
    return Submitted(run=run, started=started)
