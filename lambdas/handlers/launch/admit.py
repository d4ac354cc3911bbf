"""Admit of a launch: which image is meant, and which hosts may come of it."""

from lambdas import settings
from lambdas.aws import s3
from lambdas.aws.ec2 import images, instances
from lambdas.aws.ledger import Ledger
from lambdas.core.edges.common import AdmitInput, Admitted
from lambdas.core.images import launch
from lambdas.core.run.records import RunUpdate
from lambdas.settings import LaunchAdmitSettings
from lambdas.steps import admission
from lambdas.steps.admission import Admission
from lambdas.steps.entry_point import entry_point
from trainyard.core.model.errors import LaunchRefused, Refused
from trainyard.core.model.image import Image
from trainyard.core.model.job import Job
from trainyard.core.values.validation import InputFaults


@entry_point
def handler(given: AdmitInput) -> Admitted | Refused:
    yard = settings.read(LaunchAdmitSettings)
    admitting = Admission(Ledger(yard.table_name), given, LaunchRefused)
    if taken := admitting.taken():
        return taken
    found = admitting.misnamed() or _found(yard, given.input)
    if isinstance(found, InputFaults):
        refused = admitting.refused(found)
        return admitting.write(refused, {"kind": "launch"}) or refused
    job, image, hold_hours = found
    values: RunUpdate = {"kind": "launch", "job": job, "image_id": image.id, "hold_hours": hold_hours}
    too_dear = admission.over_budget(yard.table_name, yard.monthly_dollars)
    answer = too_dear or Admitted(reason=f"{image.id} as {' or '.join(job.hardware.instance_types)}")
    return admitting.write(answer, values) or answer


def _found(
    yard: LaunchAdmitSettings, execution_input: object
) -> tuple[Job, Image, float | None] | InputFaults:
    request = launch.read_input(execution_input)
    if isinstance(request, InputFaults):
        return request
    image = launch.meant(request, images.of_yard(yard.yard))
    if isinstance(image, InputFaults):
        return image
    types = request.instance_types or _types(yard, image)
    zones = instances.subnets(yard.subnet_ids)
    job = launch.admit(request, image, types=types, zones=zones)
    return job if isinstance(job, InputFaults) else (job, image, request.hold_hours)


def _types(yard: LaunchAdmitSettings, image: Image) -> tuple[str, ...]:
    """The type of the host that was imaged; of a baked image those that its builder could have."""
    host = image.tags.get("trainyard:type")
    if host:
        return (host,)
    key = f"runs/{image.run}/recipe.json"
    recipe = (s3.get_json(yard.bucket_name, key) if image.run else None) or {}
    return tuple(recipe.get("builder", {}).get("instance_types", ()))
