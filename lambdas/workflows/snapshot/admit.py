"""Admit of a snapshot: find the host, and check that it can be imaged as requested."""

from enum import StrEnum

from lambdas import environment
from lambdas.aws import s3, ssm
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.rows import attempt_row
from lambdas.aws.ec2 import images, instances
from lambdas.aws.ec2.instances import Instance
from lambdas.core.images import snapshot
from lambdas.core.images.snapshot import SnapshotHost, SnapshotRequest
from lambdas.core.run import AttemptUpdate
from lambdas.core.run.records import Records
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps import admission
from lambdas.steps.admission import Admission
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import AdmitInput, Admitted
from trainyard.core.model import gang
from trainyard.core.model.errors import Refused, SnapshotRefused
from trainyard.core.model.yard.warm import warm_until
from trainyard.protocol import cluster, keys
from trainyard.protocol.imaging import Imaging
from trainyard.protocol.tags import Tag
from trainyard.values.lazy import dataclass
from trainyard.values.validation import Fault, InputFaults


class Rest(StrEnum):
    """The action before CreateImage."""

    PAUSE = "pause"
    STOP = "stop"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class SnapshotAdmitted(Admitted):
    rest: Rest
    instance: str


NEEDS = Needs(
    YardSettings,
    (
        may("read and list objects", keys.RUNS),
        may("call", "ec2:DescribeInstances", "ec2:DescribeImages", "ssm:DescribeInstanceInformation"),
        may("use the ledger", "GetItem", "Query", "PutItem", "UpdateItem"),
    ),
)


@entry_point
def handler(given: AdmitInput) -> SnapshotAdmitted | Refused:
    yard, run = environment.read(YardSettings), given.run
    ledger = Ledger(yard.table_name)
    admitting = Admission(ledger, given, SnapshotRefused)
    if taken := admitting.refuse_used_name():
        return taken
    admitted = ledger.run(run)
    if admitted and admitted.imaging:  # a repeated call: the host may be paused or stopped by now
        return _answer(admitted.imaging)
    found = (
        admission.forwarded_refusal(given)
        or admitting.refuse_misnamed()
        or _read_request(yard, ledger, given)
    )
    if isinstance(found, InputFaults | str):
        return admitting.refuse(found, {"kind": "snapshot"})
    imaging, host = found
    answer, attempt = _answer(imaging), attempt_row(run, 1, _attempt(host))
    return (
        admitting.write(answer, {"kind": "snapshot", "name": imaging.family, "imaging": imaging}, attempt)
        or answer
    )


def _answer(imaging: Imaging) -> SnapshotAdmitted:
    return SnapshotAdmitted(reason="no fault found", rest=Rest(imaging.rest), instance=imaging.instance)


def _attempt(host: Instance) -> AttemptUpdate:
    pool = f"{host.type} in {host.zone}, {host.market.replace('_', '-')}"
    return {"candidate": {"pool": pool}, "hosts": (host.id,), "launched": host.launched}


def _read_request(
    yard: YardSettings, ledger: Ledger, given: AdmitInput
) -> tuple[Imaging, Instance] | InputFaults:
    """Return the planned snapshot and its host, or the faults of the request."""
    request = snapshot.read_input(given.input)
    if isinstance(request, InputFaults):
        return request
    instance = request.instance or _find_assigned(ledger, request)
    if isinstance(instance, InputFaults):
        return instance
    known = instances.find_by_id([instance])
    if not known:
        return snapshot.refuse_unknown(request, instance)
    (host,) = known
    baked = {image.family for image in images.find_in_yard(yard.yard) if image.tags.get(Tag.KIND) == "baked"}
    imaging = snapshot.admit(request, _observe(yard, ledger, host, given.run), baked=baked)
    return imaging if isinstance(imaging, InputFaults) else (imaging, host)


def _find_assigned(ledger: Ledger, request: SnapshotRequest) -> str | InputFaults:
    """Return the instance with this role in the run's last attempt. A run without roles has one host."""
    records = ledger.read(str(request.run))
    if records is None or records.job is None:
        return snapshot.refuse(Fault("run", f"no run {request.run} of this yard has launched hosts"))
    last = max(records.attempts, default=0)
    return snapshot.find_assigned(request, gang.assignments(records.job, records.members(last)))


def _observe(yard: YardSettings, ledger: Ledger, host: Instance, run: str) -> SnapshotHost:
    records = _records_of(ledger, host)
    mine = host.tags.get(Tag.YARD) == yard.yard
    busy = records is not None and records.run.ended is None
    return SnapshotHost(
        instance=host.id,
        type=host.type,
        mine=mine,
        state=host.state,
        market=host.market,
        online=mine and host.id in ssm.find_online([host.id]),
        image=host.image,
        parent=images.find(host.image),
        run=records.run.run if records else None,
        kind=records.run.kind if records else None,
        busy=busy,
        warm=warm_until(host.tags) is not None,
        family=records.run.name if records and records.job else None,
        step=_step(yard, records),
        dev=host.tags.get(Tag.DEV),
        owner=host.tags.get(Tag.SUBMITTER),
        wanted=Tag.DEV in host.tags and ledger.may_image_dev_host(run, host.id),
    )


def _records_of(ledger: Ledger, host: Instance) -> Records | None:
    run = host.tags.get(Tag.RUN)
    return ledger.read(run) if run else None


def _step(yard: YardSettings, records: Records | None) -> int | None:
    """Return the step of the run's last checkpoint."""
    if records is None or records.run.kind != "train":
        return None
    key = keys.latest_checkpoint(records.run.run)
    checkpoint = cluster.checkpoint_of(s3.get_json(yard.bucket_name, key))
    return checkpoint.at_step if checkpoint else None
