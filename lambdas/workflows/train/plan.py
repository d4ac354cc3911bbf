"""Plan: read quotas, prices, zones and the image; decide on the capacity pools to try, their order, and the
deadline."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from lambdas import environment
from lambdas.aws import s3, ssm
from lambdas.aws.dynamodb.ledger import AlreadyWrittenError, Ledger
from lambdas.aws.dynamodb.rows import event_row, plan_row, run_row
from lambdas.aws.ec2 import images, instances, offerings
from lambdas.core.capacity import candidates, container
from lambdas.core.capacity.exclusion import PlanInputs, types_of
from lambdas.core.capacity.image_choice import ImageReference, ImageSource
from lambdas.core.capacity.prices import Prices
from lambdas.core.run import deadlines, warm_pool
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import Answer, RunInput
from lambdas.steps.observability import clock, logger, note
from trainyard.core.model.errors import Refused
from trainyard.core.model.images import image
from trainyard.core.model.images.image import Image
from trainyard.core.model.job import ImageWhen, Job
from trainyard.protocol import keys
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.plan import Market, Plan
from trainyard.values import serialization
from trainyard.values.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class PlanInput(RunInput):
    """The run to plan, or the job of a dry run."""

    job: Mapping[str, Any] | None = None
    """The job of a dry run, which is not in the ledger."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Outlook(Answer):
    """The plan of a dry run."""

    kind = "outlook"
    plan: Mapping[str, Any]
    """The content of plan.json."""
    quotas: Mapping[str, float]
    """The number of vCPUs in each relevant quota."""
    warnings: tuple[str, ...] = ()
    pool_dollars: float | None = None
    """The highest cost of hosts that wait in the warm pool after the run, in the first capacity pool; None if none
    wait."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The values that later states choose by, and those that Recover needs, which may read nothing itself."""

    kind: ClassVar[str] = "planned"
    hosts: int
    restarts: int
    deadline: datetime
    snapshot: ImageWhen
    elastic: bool


class PlanSettings(YardSettings):
    image_parameter: str
    subnet_ids: tuple[str, ...]
    aws_region: str
    volume_initialization_rate: int
    """The highest rate for fetching a disk, in MiB/s."""


FOR_BUILDERS = Needs(
    PlanSettings,
    (
        may("plan launches"),
        may("write objects", keys.RUNS),
        may("use the ledger", "GetItem", "Query", "PutItem", "UpdateItem"),
    ),
)
"""The needs of Plan in a bake, whose recipe names the image."""
NEEDS = FOR_BUILDERS._replace(grants=(*FOR_BUILDERS.grants, may("use the image parameter", "GetParameter")))


@entry_point
def handler(given: PlanInput) -> Planned | Outlook | Refused:
    yard, run = environment.read(PlanSettings), given.run
    ledger, now = Ledger(yard.table_name), clock()
    if given.job is not None:
        return _outlook(serialization.from_json(Job, given.job), given.warnings, yard, ledger, now)
    records = ledger.require(run)
    job = records.job
    assert job is not None, "an admitted run has a job"
    if records.plan is not None:
        return _answer(yard.bucket_name, records.run, job, records.plan)
    prices = Prices(yard.aws_region, ledger.prices())
    inputs = _read_inputs(records.run.image_id, job, yard, ledger, prices, now, records.run.submitter)
    made = candidates.make_plan(job, inputs, now=now)
    if isinstance(made, candidates.NoPlan):
        s3.put_json_once(yard.bucket_name, keys.plan(run), serialization.to_json(made))
        ledger.write(event_row(run, note("refused", made.reason, at=now)))
        return Refused(made.error, made.reason)
    try:
        ledger.write(
            plan_row(run, made),
            run_row(
                run,
                {"state": "Plan", "deadline": deadlines.by_hours(records.run, job), "image_id": made.image},
            ),
            event_row(
                run,
                note(
                    "planned",
                    made.reason,
                    at=now,
                    candidates=[candidate.pool for candidate in made.candidates],
                ),
            ),
        )
    except AlreadyWrittenError:
        logger.info("another call planned %s in the meantime", run)
        made = ledger.require(run).plan or made
    return _answer(yard.bucket_name, records.run, job, made)


def _answer(bucket: str, run: RunRow, job: Job, plan: Plan) -> Planned:
    """Return the plan in the ledger, and write plan.json once. A late call does not replace the longer plan.json of
    Conclude."""
    s3.put_json_once(bucket, keys.plan(run.run), serialization.to_json(plan))
    return Planned(
        hosts=plan.gang,
        restarts=job.limits.restarts,
        deadline=deadlines.by_hours(run, job),
        snapshot=job.after.image,
        elastic=job.cluster.is_elastic,
    )


def _outlook(
    job: Job, warnings: tuple[str, ...], yard: PlanSettings, ledger: Ledger, now: datetime
) -> Outlook | Refused:
    """Answer a dry run. Nothing is written."""
    inputs = _read_inputs(None, job, yard, ledger, Prices(yard.aws_region, ledger.prices()), now)
    made = candidates.make_plan(job, inputs, now=now)
    if isinstance(made, candidates.NoPlan):
        return Refused(made.error, made.reason)
    return Outlook(
        reason=made.reason,
        plan=serialization.to_json(made),
        quotas=inputs.quotas,
        warnings=warnings,
        pool_dollars=warm_pool.most_dollars(made, job),
    )


def _read_inputs(
    image_id: str | None,
    job: Job,
    yard: PlanSettings,
    ledger: Ledger,
    prices: Prices,
    now: datetime,
    submitter: str | None = None,
) -> PlanInputs:
    types = types_of(job)
    codes = candidates.quota_codes(job)
    limits = {code: offerings.vcpu_quota(code) for code in codes}
    return PlanInputs(
        region=yard.aws_region,
        subnets=instances.subnets(yard.subnet_ids),
        offered=offerings.find_offered(types),
        spot_prices=offerings.spot_prices(types, now=now)
        if Market.SPOT in job.hardware.market.markets
        else {},
        prices=prices,
        quotas={code: limit for code, limit in limits.items() if limit is not None},
        image=_choose_image(image_id, job, yard, submitter),
        quarantined=ledger.quarantined(),
        initialization_rate=yard.volume_initialization_rate,
    )


def _choose_image(
    image_id: str | None, job: Job, yard: PlanSettings, submitter: str | None
) -> ImageReference:
    """Return the image of the run: its own `image_id`, the image that its job names, or the yard's current one."""
    named: str | Mapping[str, str] | None
    others: tuple[Image, ...] = ()
    if image_id is not None:
        source, named = ImageSource.RUN, image_id
    elif job.hardware.image is not None:
        source, named = ImageSource.JOB, job.hardware.image
        is_id = isinstance(named, str) and named.startswith("ami-")
        others = () if is_id else images.find_in_yard(yard.yard)
    else:
        source, named = ImageSource.PARAMETER, ssm.read_parameter(yard.image_parameter)
    baked = frozenset(each.tensorflow for each in others if each.is_baked and each.available)
    found = _find_image(named, others)
    if found and source is ImageSource.PARAMETER and job.program.container:
        found = container.prefer(job.program.container, found, images.find_in_yard(yard.yard))
    return ImageReference(source, named, found, yard.yard, yard.image_parameter, baked - {""}, submitter)


def _find_image(named: str | Mapping[str, str] | None, others: tuple[Image, ...]) -> Image | None:
    """Return the named image; `others` are the yard's images if the job names it."""
    if isinstance(named, str) and named.startswith("ami-"):
        return images.find(named)
    return image.select_image(named, others) if named and others else None
