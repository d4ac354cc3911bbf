"""Retire: choose the old images of the yard, deregister them with their snapshots, and report what stays and why.

Refusals of EC2 are counted and reported. The next execution retries them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lambdas import environment
from lambdas.aws import s3, ssm, states
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.ec2 import images, instances
from lambdas.core.capacity.prices import Prices
from lambdas.core.images import retention
from lambdas.core.images.retention import (
    Decision,
    Disposition,
    RetentionInputs,
    RetentionPolicy,
    RetireRequest,
)
from lambdas.environment import ImageSettings
from lambdas.needs import Needs, may
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import Answer
from lambdas.steps.observability import clock, logger
from trainyard.core.model import names
from trainyard.core.model.errors import AccessDenied, Misconfigured, Refused
from trainyard.core.model.images import image
from trainyard.core.model.images.image import Image
from trainyard.core.model.job import Job
from trainyard.protocol import keys
from trainyard.values import serialization
from trainyard.values.lazy import dataclass
from trainyard.values.validation import InputFaults


@dataclass(frozen=True, kw_only=True)
class RetireInput:
    """The input of Retire."""

    input: Any
    """The input of the execution, as its caller gave it."""


@dataclass(frozen=True, kw_only=True)
class Retired(Answer):
    kind = "retired"
    report: str


@dataclass(frozen=True, kw_only=True)
class SomeLeft(Answer):
    """EC2 refused to retire some images or snapshots."""

    kind = "left"
    error: str


class RetireFailed(SomeLeft):
    """Nothing was retired, because the decision failed."""

    kind = "failed"


class RetireSettings(ImageSettings):
    aws_region: str
    keep_images: int
    keep_days: int
    state_machine_arns: tuple[str, ...]
    """The state machines of runs."""


JSON, TEXT = f"{keys.IMAGES}report.json", f"{keys.IMAGES}report.txt"


RetireAnswer = Retired | SomeLeft | RetireFailed | Refused
NEEDS = Needs(
    RetireSettings,
    (
        may("retire images"),
        may("call", "ec2:DescribeImages", "ec2:DescribeSnapshots", "ec2:DescribeInstances"),
        may("list executions", *names.CONCLUDES),
        may("use the image parameters", "GetParameter"),
        may("use the ledger", "GetItem"),
        may("write objects", f"{keys.IMAGES}report."),
    ),
    minutes=15,
)


@entry_point
def handler(given: RetireInput) -> RetireAnswer:
    """Retire images. A failed decision is an answer, too: a bake continues, and the workflow retire fails with it."""
    request = retention.read_input(given.input)
    if isinstance(request, InputFaults):
        return Refused("RetireRefused", request.reason)
    try:
        return _retire_chosen(request) if request.images else _retire(report_only=request.report_only)
    except (AccessDenied, Misconfigured) as error:
        logger.error("nothing was retired: %s", error.reason)
        return RetireFailed(error=type(error).__name__, reason=error.reason)


def _retire(*, report_only: bool) -> Retired | SomeLeft:
    yard, now = environment.read(RetireSettings), clock()
    policy, inputs = RetentionPolicy(yard.keep_images, yard.keep_days), _read_inputs(yard)
    decided, loose = retention.decide_images(inputs, policy, now=now), retention.decide_snapshots(inputs)
    if not report_only:
        decided = tuple(_retire_one(images.retire, each) for each in decided)
        loose = tuple(_retire_one(images.delete_snapshot, each) for each in loose)
    return _report(yard, retention.report(decided, loose, policy, inputs=inputs, now=now))


def _retire_chosen(request: RetireRequest) -> RetireAnswer:
    """Retire exactly the images that a user named, or none. The report of all images stays as it is."""
    yard, now = environment.read(RetireSettings), clock()
    policy = RetentionPolicy(yard.keep_images, yard.keep_days)
    decided = retention.decide_chosen(_read_inputs(yard), request.images, policy, now=now)
    if isinstance(decided, InputFaults):
        return Refused("RetireRefused", decided.reason)
    if not request.report_only:
        decided = tuple(_retire_one(images.retire, each) for each in decided)
    said = retention.summary(decided, ())
    if any(each.fate is Decision.LEFT for each in decided):
        return SomeLeft(error="RetireIncomplete", reason=said)
    return Retired(reason=said, report="")


def _read_inputs(yard: RetireSettings) -> RetentionInputs:
    """Read snapshots, images, their users and runs, in this order: an object made in between counts as used."""
    snapshots, every = images.snapshots_of_yard(yard.yard), images.find_in_account()
    mine = tuple(each for each in every if each.is_of(yard.yard))
    ledger = Ledger(yard.table_name)
    in_use, open_runs = instances.images_in_use(), states.list_running(yard.state_machine_arns)
    return RetentionInputs(
        yard=yard.yard,
        prices=Prices(yard.aws_region, ledger.prices()),
        images=mine,
        others={each.id: each for each in every if not each.is_of(yard.yard)},
        snapshots=snapshots,
        current=_read_pointer(yard.image_parameter),
        previous=_read_pointer(yard.previous_image_parameter),
        in_use=in_use,
        open_runs=open_runs,
        named=_find_used_by_runs(ledger, open_runs, mine),
    )


def _read_pointer(parameter: str) -> str:
    """Return the image in the parameter. Raises Misconfigured if it is missing: no image is safe to retire then."""
    value = ssm.read_parameter(parameter)
    if value is None:
        raise Misconfigured(
            f"The parameter {parameter} does not exist, so no image was retired. Deploy again."
        )
    return value


def _find_used_by_runs(ledger: Ledger, runs: frozenset[str], mine: tuple[Image, ...]) -> dict[str, str]:
    """Return the images that open runs start from, by the plan, or by the job before there is a plan."""
    found = {}
    for run in sorted(runs):
        row = ledger.run(run)
        wanted = (
            row.image_id or (serialization.from_json(Job, row.job).hardware.image if row.job else None)
            if row
            else None
        )
        meant = image.select_image(wanted, mine) if wanted else None
        if meant:
            found[meant.id] = run
    return found


def _retire_one(retire: Callable[[str], None], disposition: Disposition) -> Disposition:
    if disposition.stays:
        return disposition
    try:
        retire(disposition.id)
    except (AccessDenied, Misconfigured) as error:
        return replace(disposition, fate=Decision.LEFT, reason=error.reason)
    return replace(disposition, fate=Decision.RETIRED)


def _report(yard: RetireSettings, report: dict[str, Any]) -> Retired | SomeLeft:
    s3.put_json(yard.bucket_name, JSON, report)
    text = retention.as_text(report).encode()
    s3.put(yard.bucket_name, TEXT, text, media_type="text/plain; charset=utf-8")
    logger.info("%s", report["summary"])
    left = [row["id"] for row in (*report["images"], *report["snapshots"]) if row["fate"] == Decision.LEFT]
    where = f"s3://{yard.bucket_name}/{TEXT}"
    if left:
        return SomeLeft(error="RetireIncomplete", reason=f"{report['summary']} Report: {where}")
    return Retired(reason=report["summary"], report=where)
