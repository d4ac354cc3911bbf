"""Quiesce: an SSM document brings a disk to rest before it is imaged."""

from collections.abc import Mapping
from enum import StrEnum
from typing import assert_never

from lambdas import environment
from lambdas.aws import s3
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.rows import run_row
from lambdas.aws.ec2 import images
from lambdas.core.run.records import Records
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps import waits
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import Nothing, WaitInput
from lambdas.steps.observability import clock
from trainyard.core.model.errors import HostLost, ImageFailed
from trainyard.core.model.images.imaging import parent_tags
from trainyard.protocol import cluster, keys
from trainyard.protocol.imaging import Imaging
from trainyard.protocol.ledger.host import HostRow
from trainyard.values.lazy import dataclass


class Quiesce(StrEnum):
    """The SSM document: pause for a snapshot, generalize after a run."""

    PAUSE = "pause"
    GENERALIZE = "generalize"


@dataclass(frozen=True, kw_only=True)
class QuiesceInput(WaitInput):
    step: Quiesce


class QuiesceSettings(YardSettings):
    generalize_document: str
    pause_document: str


DOING = {Quiesce.PAUSE: "pausing", Quiesce.GENERALIZE: "generalizing"}
NEEDS = Needs(
    QuiesceSettings,
    (
        may("read and list objects", keys.RUNS),
        may("run documents", *Quiesce),
        may("answer tasks", "Success"),
        may(
            "call",
            "ec2:DescribeInstances",
            "ec2:DescribeImages",
            "ssm:DescribeInstanceInformation",
            "ssm:ListCommandInvocations",
        ),
        may("use the ledger", "Query", "PutItem", "UpdateItem"),
    ),
)


@entry_point
def handler(given: QuiesceInput) -> Nothing:
    """Run the SSM document. Raises NotRegistered until the host is registered in Systems Manager, HostLost once EC2
    reports it as gone."""
    yard, run, attempt, step = environment.read(QuiesceSettings), given.run, given.attempt, given.step
    ledger, now = Ledger(yard.table_name), clock()
    entered = waits.enter(ledger, run, attempt, step, given.task_token, now)
    imaging = entered.records.run.imaging
    if step is Quiesce.GENERALIZE and entered.row is None:
        imaging = _imaging_of_run(yard, entered.records, attempt)
        ledger.write(run_row(run, {"imaging": imaging}))
    assert imaging is not None, "a snapshot is admitted with its host"
    gone = waits.describe_end(imaging.instance)
    if gone:
        raise HostLost(f"{gone}, before it was imaged")
    document, parameters = _document(yard, step)
    waits.await_command(entered, imaging.instance, document, parameters, doing=DOING[step])
    return Nothing()


def _document(yard: QuiesceSettings, step: Quiesce) -> tuple[str, Mapping[str, str]]:
    match step:
        case Quiesce.PAUSE:
            return yard.pause_document, {}
        case Quiesce.GENERALIZE:
            return yard.generalize_document, {"Depth": "host"}
        case _:
            assert_never(step)


def _imaging_of_run(yard: QuiesceSettings, records: Records, attempt: int) -> Imaging:
    """Return the imaging for `after.image`: the chief becomes an image of the job's family."""
    run, job, host = records.run.run, records.job, _choose_host(records, attempt)
    assert job is not None, "an admitted run has a job"
    parent = records.plan.image if records.plan else str(records.run.image_id)
    latest = s3.get_json(yard.bucket_name, keys.latest_checkpoint(run))
    checkpoint = cluster.checkpoint_of(latest)
    return Imaging(
        instance=host.instance,
        type=host.type,
        family=job.name,
        parent=parent,
        host_run=run,
        step=checkpoint.at_step if checkpoint else None,
        versions=parent_tags(images.find(parent)),
    )


def _choose_host(records: Records, attempt: int) -> HostRow:
    """Return the chief, or the first live host by role if the chief is gone."""
    living = (host for _, host in records.assigned(attempt) if host.lives)
    first = next(living, None)
    if first is None:
        raise ImageFailed("the job asks for an image, but every host of its last attempt has ended")
    return first
