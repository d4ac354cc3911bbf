"""Admit of dev-host: choose the image and the allowed hosts."""

from collections.abc import Mapping

from lambdas import environment
from lambdas.aws import s3
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.logbook import Logbook
from lambdas.aws.ec2 import images, instances
from lambdas.core.capacity import promise
from lambdas.core.capacity.prices import Prices
from lambdas.core.images import dev, dev_host
from lambdas.core.images.dev_host import DevHostRequest
from lambdas.core.run import RunUpdate
from lambdas.core.run.slots import YardLimits
from lambdas.environment import LimitSettings
from lambdas.needs import Needs, may
from lambdas.steps import admission, slots
from lambdas.steps.admission import Admission, job_values
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import AdmitInput, Admitted, Waits
from trainyard.core.model import submitter
from trainyard.core.model.dev import family
from trainyard.core.model.errors import DevHostRefused, Refused
from trainyard.core.model.images.image import Image
from trainyard.core.model.job import Job
from trainyard.protocol import keys
from trainyard.protocol.ledger.claim import Claim, ClaimKind
from trainyard.protocol.ledger.yard import DevRow
from trainyard.protocol.tags import Tag
from trainyard.values.validation import InputFaults


class DevHostAdmitSettings(LimitSettings):
    subnet_ids: tuple[str, ...]
    most_hold_hours: float = 0.0
    """The longest run time or hold of a user's host; 0: no limit."""


NEEDS = Needs(
    DevHostAdmitSettings,
    (
        may("read objects", keys.recipe(keys.ANY)),
        may("list objects", keys.RUNS),
        may("call", "ec2:DescribeImages", "ec2:DescribeSubnets"),
        may("use the ledger", "GetItem", "BatchGetItem", "Query", "PutItem", "UpdateItem"),
    ),
)


@entry_point
def handler(given: AdmitInput) -> Admitted | Refused:
    yard = environment.read(DevHostAdmitSettings)
    ledger = Ledger(yard.table_name)
    admitting = Admission(ledger, given, DevHostRefused)
    if taken := admitting.refuse_used_name():
        return taken
    found = (
        admission.forwarded_refusal(given)
        or admitting.refuse_misnamed()
        or _read_request(yard, ledger, given)
    )
    if isinstance(found, InputFaults | str):
        return admitting.refuse(found, {"kind": "dev-host"})
    job, values = found
    named, known = values.get("image_id") or "the current image", Logbook(yard.table_name).read_earlier()
    hours = max(job.limits.hours, values.get("hold_hours") or 0.0)
    mine = Claim(
        run=given.run,
        hosts=job.gang,
        created=given.started,
        waits=False,
        kind=ClaimKind.HELD,
        dollars=promise.most_dollars(job, Prices(yard.aws_region, known.prices), hours=hours),
        by=values.get("submitter") or submitter.UNKNOWN,
    )
    limits = YardLimits(hosts=yard.most_hosts, month=yard.monthly_dollars, waits=False)
    if values.get("dev") and (faults := dev_host.check_cost(mine.dollars, hours, yard.most_dollars_per_run)):
        return admitting.refuse(faults, values)
    admitted = Admitted(reason=f"{named} as {' or '.join(job.hardware.instance_types)}")
    answer = slots.admit(admitting, job, mine, values, admitted, limits, known.money)
    assert not isinstance(answer, Waits), "a dev host never waits for a slot"
    return answer


def _read_request(
    yard: DevHostAdmitSettings, ledger: Ledger, given: AdmitInput
) -> tuple[Job, RunUpdate] | InputFaults:
    """Return the job of one host and the values of the run's row, or the faults of the request."""
    if isinstance(given.input, Mapping) and "dev" in given.input:
        return _read_dev_request(yard, ledger, given, str(given.input["dev"]))
    request = dev_host.read_input(given.input)
    if isinstance(request, InputFaults):
        return request
    image = dev_host.find_image(request, images.find_in_yard(yard.yard))
    if isinstance(image, InputFaults):
        return image
    types = request.instance_types or _types(yard, image)
    job = _job(yard, request, image.family or image.id, types)
    if isinstance(job, InputFaults):
        return job
    return job, {
        "kind": "dev-host",
        **job_values(job),
        "image_id": image.id,
        "hold_hours": request.hold_hours,
        "submitter": submitter.UNKNOWN,
    }


def _read_dev_request(
    yard: DevHostAdmitSettings, ledger: Ledger, given: AdmitInput, name: str
) -> tuple[Job, RunUpdate] | InputFaults:
    """Return the job of a user's dev host from the row that signal wrote. The input of the execution is not trusted."""
    row = ledger.dev(name)
    if row is None or row.run != given.run:
        return dev_host.refuse_unrequested(name)
    request = dev_host.read_request(row, most_hours=yard.most_hold_hours)
    if isinstance(request, InputFaults):
        return request
    image = dev_host.choose_image(row, request, images.find_in_yard(yard.yard))
    if isinstance(image, InputFaults):
        return image
    types = request.instance_types or (_types(yard, image) if image else ()) or dev.DEFAULT_TYPES
    job = _job(yard, request, family(name), types)
    return job if isinstance(job, InputFaults) else (job, _row_of(row, request, job, image))


def _row_of(row: DevRow, request: DevHostRequest, job: Job, image: Image | None) -> RunUpdate:
    return {
        "kind": "dev-host",
        **job_values(job),
        "image_id": image.id if image else None,
        "hold_hours": request.hold_hours,
        "dev": row.name,
        "submitter": row.owner,
    }


def _job(
    yard: DevHostAdmitSettings, request: DevHostRequest, name: str, types: tuple[str, ...]
) -> Job | InputFaults:
    return dev_host.admit(request, name, types=types, zones=instances.subnets(yard.subnet_ids))


def _types(yard: DevHostAdmitSettings, image: Image) -> tuple[str, ...]:
    """Return the type of the imaged host; for a baked image, the types of its builder."""
    host = image.tags.get(Tag.TYPE)
    if host:
        return (host,)
    key = keys.recipe(image.run)
    recipe = (s3.get_json(yard.bucket_name, key) if image.run else None) or {}
    return tuple(recipe.get("builder", {}).get("instance_types", ()))
