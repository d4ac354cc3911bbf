"""Admit of a launch: which image is meant, and which hosts may come of it."""

from typing import Any

from lambdas import settings
from lambdas.aws import images, instances, s3
from lambdas.aws.ledger import Ledger, event_row
from lambdas.aws.logbook import Logbook
from lambdas.core.images import launch
from lambdas.core.model import names
from lambdas.core.model.image import Image
from lambdas.core.model.job import InputFaults, Job
from lambdas.core.patrol import budget
from lambdas.settings import HostAdmitSettings
from lambdas.steps import admission
from lambdas.steps.observability import clock, note


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    yard = settings.read(HostAdmitSettings)
    ledger, run = Ledger(yard.table_name), str(event["run"])
    misnamed = names.misnamed(run)
    if misnamed:
        return {"kind": "refused", "error": "LaunchRefused", "reason": misnamed.reason}
    if taken := admission.taken(ledger.run(run), event):
        return {"kind": "refused", "error": "LaunchRefused", "reason": taken}
    found = _found(yard, event["input"])
    spent = budget.refusal(Logbook(yard.table_name).money(), yard.monthly_dollars or None, clock())
    job, image = found if isinstance(found, tuple) else (None, None)
    refused = found.reason if isinstance(found, InputFaults) else spent
    said = f"{image.id} as {' or '.join(job.hardware.instance_types)}" if job and image else ""
    entry = note("refused" if refused else "admitted", refused or said, at=clock())
    values = {
        "kind": "launch",
        "job": job.to_json() if job else None,
        "image_id": image.id if image else None,
    }
    if taken := admission.write(ledger, event, values, event_row(run, entry)):
        return {"kind": "refused", "error": "LaunchRefused", "reason": taken}
    if refused:
        error = "LaunchRefused" if isinstance(found, InputFaults) else "BudgetSpent"
        return {"kind": "refused", "error": error, "reason": refused}
    return {"kind": "admitted"}


def _found(yard: HostAdmitSettings, execution_input: object) -> tuple[Job, Image] | InputFaults:
    request = launch.read_input(execution_input)
    if isinstance(request, InputFaults):
        return request
    image = launch.meant(request, images.of_yard(yard.yard))
    if isinstance(image, InputFaults):
        return image
    types = request.instance_types or _types(yard, image)
    zones = {zone for _, zone in instances.subnets(yard.subnet_ids)}
    job = launch.admit(request, image, types=types, zones=zones)
    return job if isinstance(job, InputFaults) else (job, image)


def _types(yard: HostAdmitSettings, image: Image) -> tuple[str, ...]:
    """The type of the host that was imaged; of a baked image those that its builder could have."""
    host = image.tags.get("trainyard:type")
    if host:
        return (host,)
    key = f"runs/{image.run}/recipe.json"
    recipe = (s3.get_json(yard.bucket_name, key) if image.run else None) or {}
    return tuple(recipe.get("builder", {}).get("instance_types", ()))
