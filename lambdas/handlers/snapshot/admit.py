"""Admit of a snapshot: which host is meant, and whether it can be imaged as it was asked for."""

from typing import Any

from lambdas import settings
from lambdas.aws import images, instances, s3, ssm
from lambdas.aws.instances import Instance
from lambdas.aws.ledger import Ledger, attempt_row, event_row
from lambdas.core.images import snapshot
from lambdas.core.images.snapshot import HostFacts, SnapshotRequest
from lambdas.core.model import gang, names
from lambdas.core.model.imaging import Imaging
from lambdas.core.model.job import InputFaults
from lambdas.core.run.records import Records
from lambdas.settings import YardSettings
from lambdas.steps import admission
from lambdas.steps.observability import clock, note


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    yard = settings.read(YardSettings)
    ledger, run = Ledger(yard.table_name), str(event["run"])
    misnamed = names.misnamed(run)
    if misnamed:
        return {"kind": "refused", "error": "SnapshotRefused", "reason": misnamed.reason}
    written = ledger.run(run)
    if taken := admission.taken(written, event):
        return {"kind": "refused", "error": "SnapshotRefused", "reason": taken}
    if written and written.imaging:
        return _admitted(written.imaging)
    found = _found(yard, ledger, event["input"])
    imaging, host = found if isinstance(found, tuple) else (found, None)
    refused = imaging if isinstance(imaging, InputFaults) else None
    values = {"kind": "snapshot", "imaging": None if refused else imaging}
    said = note(
        "refused" if refused else "admitted", refused.reason if refused else "no fault found", at=clock()
    )
    rows = [attempt_row(run, 1, _attempt(host))] if host else []
    if taken := admission.write(ledger, event, values, *rows, event_row(run, said)):
        return {"kind": "refused", "error": "SnapshotRefused", "reason": taken}
    if isinstance(imaging, InputFaults):
        return {"kind": "refused", "error": "SnapshotRefused", "reason": imaging.reason}
    return _admitted(imaging)


def _admitted(imaging: Imaging) -> dict[str, Any]:
    return {"kind": "admitted", "rest": imaging.rest, "instance": imaging.instance}


def _attempt(host: Instance) -> dict[str, Any]:
    pool = f"{host.type} in {host.zone}, {host.market.replace('_', '-')}"
    return {"offer": {"pool": pool}, "hosts": [host.id], "launched": host.launched}


def _found(
    yard: YardSettings, ledger: Ledger, execution_input: object
) -> tuple[Imaging, Instance] | InputFaults:
    """The snapshot as it will be made, and its host."""
    request = snapshot.read_input(execution_input)
    if isinstance(request, InputFaults):
        return request
    instance = request.instance or _assigned(ledger, request)
    if isinstance(instance, InputFaults):
        return instance
    known = instances.of_ids([instance])
    if not known:
        return snapshot.unknown(request, instance)
    (host,) = known
    baked = {
        image.family for image in images.of_yard(yard.yard) if image.tags.get("trainyard:kind") == "baked"
    }
    imaging = snapshot.admit(request, _facts(yard, ledger, host), baked=baked)
    return imaging if isinstance(imaging, InputFaults) else (imaging, host)


def _assigned(ledger: Ledger, request: SnapshotRequest) -> str | InputFaults:
    """The instance that the run's last attempt has in this assignment; a run without a job's roles has one host."""
    records = ledger.read(str(request.run))
    if records is None or records.run.job is None:
        return snapshot.refused("run", f"the yard knows no run {request.run} that has launched hosts")
    last = max(records.attempts, default=0)
    return snapshot.assigned(request, gang.assignments(records.run.job, records.members(last)))


def _facts(yard: YardSettings, ledger: Ledger, host: Instance) -> HostFacts:
    records = _records_of(ledger, host)
    mine = host.tags.get("trainyard:yard") == yard.yard
    busy = records is not None and records.run.ended is None
    return HostFacts(
        instance=host.id,
        type=host.type,
        mine=mine,
        state=host.state,
        market=host.market,
        online=mine and host.id in ssm.online([host.id]),
        image=host.image,
        parent=images.find(host.image),
        run=records.run.run if records else None,
        kind=records.run.kind if records else None,
        busy=busy,
        family=records.run.job.name if records and records.run.job else None,
        step=_step(yard, records),
    )


def _records_of(ledger: Ledger, host: Instance) -> Records | None:
    run = host.tags.get("trainyard:run")
    return ledger.read(run) if run else None


def _step(yard: YardSettings, records: Records | None) -> int | None:
    """The step of the run's last checkpoint."""
    if records is None or records.run.kind != "train":
        return None
    key = f"runs/{records.run.run}/checkpoints/latest.json"
    checkpoint = gang.checkpoint_of(s3.get_json(yard.bucket_name, key))
    return checkpoint.step if checkpoint else None
