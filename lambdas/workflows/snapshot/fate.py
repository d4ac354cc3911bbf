"""Fate: stop a host before it is imaged; keep, stop or terminate it once its image is available."""

from enum import StrEnum
from typing import ClassVar, assert_never

from lambdas import environment
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.rows import event_row, run_row
from lambdas.aws.ec2 import images, instances
from lambdas.core.run.records import Records
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import Answer, RunInput
from lambdas.steps.observability import clock, note
from trainyard.core.model.errors import HostLost, ImageFailed, StillStopping
from trainyard.protocol.imaging import Imaging, Then
from trainyard.values.lazy import dataclass


class Phase(StrEnum):
    """The call before the image, or the call after it."""

    STOP = "stop"
    FATE = "fate"


@dataclass(frozen=True, kw_only=True)
class FateInput(RunInput):
    step: Phase


@dataclass(frozen=True, kw_only=True)
class Stopped:
    kind: ClassVar[str] = "stopped"


@dataclass(frozen=True, kw_only=True)
class Imaged(Answer):
    kind = "imaged"
    image: str


NEEDS = Needs(
    YardSettings,
    (
        may("act on hosts", "ec2:StopInstances", "ec2:TerminateInstances"),
        may("keep disks"),
        may("start hosts"),
        may("call", "ec2:DescribeImages", "ec2:DescribeInstances"),
        may("use the ledger", "Query", "PutItem", "UpdateItem"),
    ),
)


@entry_point
def handler(given: FateInput) -> Stopped | Imaged:
    ledger, run = Ledger(environment.read(YardSettings).table_name), given.run
    records = ledger.require(run)
    imaging = records.run.imaging
    assert imaging is not None, "a snapshot is admitted with its host"
    match given.step:
        case Phase.STOP:
            return _stop(ledger, run, imaging)
        case Phase.FATE:
            return _end(ledger, records, imaging)
        case _:
            assert_never(given.step)


def _stop(ledger: Ledger, run: str, imaging: Imaging) -> Stopped:
    """Stop the host. Raises StillStopping until it is stopped; the workflow then retries."""
    state = _state(imaging.instance)
    if state == "stopped":
        ledger.write(event_row(run, note("stopped", f"{imaging.instance} is stopped", at=clock())))
        return Stopped()
    if state == "running":
        ledger.write(
            run_row(run, {"state": "Stop"}),
            event_row(run, note("stopping", f"{imaging.instance} is stopped to be imaged", at=clock())),
        )
        _stop_host(imaging.instance)
    elif state != "stopping":
        raise HostLost(f"EC2 reports {imaging.instance} is {state}, before it was imaged")
    raise StillStopping(f"{imaging.instance} was ordered to stop and is still {state}; EC2 gives the reason")


def _end(ledger: Ledger, records: Records, imaging: Imaging) -> Imaged:
    """Carry out the fate of the host, but only after its image is available: until then the host has the only copy."""
    run, image = records.run.run, images.find(str(records.run.image))
    if image is None or not image.available:
        state = image.state if image else "gone"
        raise ImageFailed(f"the image {records.run.image} is {state}, so {imaging.instance} stays as it is")
    done = _carry_out(imaging)
    reason = f"{image.id} is the image of {imaging.instance} ({imaging.family}); {done}"
    ledger.write(run_row(run, {"state": "Fate"}), event_row(run, note("imaged", reason, at=clock())))
    return Imaged(image=image.id, reason=reason)


def _carry_out(imaging: Imaging) -> str:
    host, state = imaging.instance, _state(imaging.instance)
    if state in ("gone", "shutting-down", "terminated"):
        return "the host ended before"
    match imaging.then:
        case Then.TERMINATE:
            instances.check_refusals(instances.terminate([host]))
            return "the host is terminated"
        case Then.STOP:
            if state == "running":
                _stop_host(host)
            return "the host is stopped"
        case Then.KEEP:
            if imaging.stops and state == "stopped":
                instances.check_refusals(instances.start([host]))
                return "the host is started again"
            return "the host is unchanged"
        case _:
            assert_never(imaging.then)


def _stop_host(host: str) -> None:
    """Stop the host. It keeps its disk, even if it shuts itself down after a later start."""
    instances.keep_disks([host])
    instances.check_refusals(instances.stop([host]))


def _state(host: str) -> str:
    found = instances.find_by_id([host])
    return found[0].state if found else "gone"
