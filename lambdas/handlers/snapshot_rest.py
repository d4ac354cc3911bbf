"""Rest: a document brings a host's disk to rest before it is imaged: pause for a snapshot, seal at the end of a run."""

from typing import Any

from lambdas import settings
from lambdas.aws import bucket, images
from lambdas.aws.ledger import Ledger, run_row
from lambdas.core import gang
from lambdas.core.errors import HostLost, ImageFailed
from lambdas.core.imaging import Imaging, inherited
from lambdas.core.records import HostRow, Records
from lambdas.handlers import waits
from lambdas.handlers.voice import attempt_of, clock
from lambdas.settings import SnapshotRestSettings

DOING = {"pause": "pausing", "seal": "sealing"}


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Raises NotRegistered until Systems Manager knows the host, HostLost once EC2 says that it is gone."""
    yard = settings.read(SnapshotRestSettings)
    run, attempt, step = *attempt_of(event), str(event["step"])
    ledger, now = Ledger(yard.table_name), clock()
    entered = waits.enter(ledger, run, attempt, step, event["token"], now, state=step.capitalize())
    imaging = entered.records.run.imaging
    if step == "seal" and entered.row is None:
        imaging = _of_run(yard, entered.records, attempt)
        ledger.write(run_row(run, {"imaging": imaging}))
    assert imaging is not None, "a snapshot is admitted with its host"
    gone = waits.gone(imaging.instance)
    if gone:
        raise HostLost(f"{gone}, before it was imaged")
    document = yard.seal_document if step == "seal" else yard.pause_document
    parameters = {"Depth": "host"} if step == "seal" else {}
    waits.for_command(entered, imaging.instance, document, parameters, doing=DOING[step])
    return {}


def _of_run(yard: SnapshotRestSettings, records: Records, attempt: int) -> Imaging:
    """What `after.image` asks for: the chief becomes an image of its job's lineage."""
    run, job, host = records.run.run, records.run.job, _chief(records, attempt)
    assert job is not None, "an admitted run has a job"
    parent = records.plan.image if records.plan else str(records.run.image_id)
    latest = bucket.read_json(yard.bucket_name, f"runs/{run}/checkpoints/latest.json")
    checkpoint = gang.checkpoint_of(latest)
    return Imaging(
        instance=host.instance,
        type=host.type,
        lineage=job.name,
        parent=parent,
        host_run=run,
        step=checkpoint.step if checkpoint else None,
        versions=inherited(images.find(parent)),
    )


def _chief(records: Records, attempt: int) -> HostRow:
    """The chief; where it is gone, the first by its role that lives."""
    living = (host for _, host in records.seated(attempt) if host.lives)
    first = next(living, None)
    if first is None:
        raise ImageFailed("the job asks for an image, but no host of its last attempt lives to make one of")
    return first
