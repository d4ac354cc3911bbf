"""Admit of a bake: check the recipe, find its base image, detect that nothing changed, take the lock.

Only one of two concurrent bakes gets the lock. The lock of an ended execution is void. A bake of the yard's own recipe,
such as the bake of a deployment, waits for the lock; any other is refused."""

import hashlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from lambdas import environment
from lambdas.aws import s3, ssm, states
from lambdas.aws.dynamodb.ledger import Ledger, Lock
from lambdas.aws.dynamodb.logbook import Logbook
from lambdas.aws.ec2 import images
from lambdas.core.capacity import promise
from lambdas.core.capacity.prices import Prices
from lambdas.core.images import bake
from lambdas.core.images.bake import RollbackPlan, Unchanged
from lambdas.core.run import RunUpdate
from lambdas.core.run.slots import YardLimits
from lambdas.environment import AdmitSettings, ImageSettings
from lambdas.needs import Needs, may
from lambdas.steps import admission, slots, uploads
from lambdas.steps.admission import Admission, job_values
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import AdmitInput, Admitted, Waits
from lambdas.steps.observability import logger
from trainyard.core.jobfile import recipe
from trainyard.core.jobfile.recipe import BakeRequest, Builder, Recipe
from trainyard.core.model.errors import Misconfigured, RecipeRefused, Refused
from trainyard.core.model.images.image import Image, newest
from trainyard.core.model.job import Job, one_host_job
from trainyard.protocol import keys
from trainyard.protocol.containers import Container
from trainyard.protocol.ledger.claim import Claim, ClaimKind
from trainyard.values import serialization
from trainyard.values.lazy import dataclass
from trainyard.values.validation import Fault, InputFaults


class BakeAdmitSettings(AdmitSettings, ImageSettings):
    aws_region: str
    base_image_parameter: str
    recipe_key: str
    software_hash: str
    registries: tuple[str, ...] = ()
    """Registries and repositories of container images, as the setting of the yard names them."""
    pull_through: tuple[str, ...] = ()
    """Registries that are read through Amazon ECR, each with its place there."""


LONGEST = timedelta(days=3)
"""The time limit of the workflow."""
WAIT_MINUTES = 30.0
"""The longest search for a builder."""
LOOK_SECONDS = 60
"""The interval at which a waiting bake checks the lock."""
AdmitAnswer = Admitted | RollbackPlan | Unchanged | Waits | Refused


@dataclass(frozen=True)
class AdmittedRecipe:
    """The content of recipe.json of an admitted bake."""

    recipe: Mapping[str, Any]

    @property
    def answer(self) -> Admitted:
        return Admitted(reason="{name} ({hash}) is made of {base}".format(**self.recipe))


NEEDS = Needs(
    BakeAdmitSettings,
    (
        may("read versions", keys.IMAGES),
        may("read and list objects", keys.IMAGES),
        may("write objects", keys.RUNS),
        may("use the ledger", "GetItem", "BatchGetItem", "Query", "PutItem", "UpdateItem"),
        may("read parameters of base images"),
        may("read registries without logins"),
        may("describe executions", "bake"),
        may("call", "ec2:DescribeImages"),
    ),
)


@entry_point
def handler(given: AdmitInput) -> AdmitAnswer:
    yard, run = environment.read(BakeAdmitSettings), given.run
    ledger = Ledger(yard.table_name)
    admitting = Admission(ledger, given, RecipeRefused)
    if taken := admitting.refuse_used_name():
        return taken
    admission.raise_denied(given)
    decision = _decide(yard, admitting)
    if isinstance(decision, RollbackPlan | AdmittedRecipe):
        refused = _take_lock(ledger, Lock(run, given.execution, given.started + LONGEST))
        if refused and _is_of_yard_recipe(given, yard):
            logger.info("%s", refused.reason)
            return Waits(reason=refused.reason, seconds=LOOK_SECONDS)
        decision = refused or decision
    if not isinstance(decision, AdmittedRecipe):
        return admitting.write(decision, {"kind": "bake"}) or decision
    answer = _admit_claim(yard, admitting, decision)
    if isinstance(answer, Admitted):
        s3.put_json(yard.bucket_name, keys.recipe(run), decision.recipe)
    return answer


def _admit_claim(yard: BakeAdmitSettings, admitting: Admission, admitted: AdmittedRecipe) -> AdmitAnswer:
    """Write the run with a claim of its highest possible cost; refuse the bake if the month has too little left."""
    job, known = _job(admitted.recipe), Logbook(yard.table_name).read_earlier()
    mine = Claim(
        run=admitting.given.run,
        hosts=job.gang,
        created=admitting.given.started,
        waits=False,
        kind=ClaimKind.BAKE,
        dollars=promise.most_dollars(job, Prices(yard.aws_region, known.prices)),
    )
    limits = YardLimits(month=yard.monthly_dollars, waits=False)
    return slots.admit(
        admitting, job, mine, _values(admitted.recipe, job), admitted.answer, limits, known.money
    )


def _decide(
    yard: BakeAdmitSettings, admitting: Admission
) -> AdmittedRecipe | RollbackPlan | Unchanged | Refused:
    wanted = admitting.refuse_misnamed() or recipe.read_input(admitting.given.input, usual=yard.recipe_key)
    if isinstance(wanted, InputFaults):
        return admitting.refuse_or_none(wanted)
    return _rollback(yard) if wanted.rollback else _recipe(yard, wanted, admitting)


def _rollback(yard: BakeAdmitSettings) -> RollbackPlan | Refused:
    previous = ssm.read_parameter(yard.previous_image_parameter)
    image = images.find(previous) if previous and previous.startswith("ami-") else None
    current = ssm.read_parameter(yard.image_parameter)
    return bake.roll_back(previous, image, yard=yard.yard, current=current)


def _recipe(
    yard: BakeAdmitSettings, wanted: BakeRequest, admitting: Admission
) -> AdmittedRecipe | Unchanged | Refused:
    """Return the content of recipe.json, the faults of the recipe and its base image, or the unchanged image."""
    source = wanted.recipe_key or "the execution's input"
    found = _uploaded(yard, wanted) if wanted.recipe_key else recipe.check(wanted.recipe, source=source)
    if isinstance(found, InputFaults):
        return admitting.refuse_or_none(found)
    base = _base(yard, found)
    if isinstance(base, Fault):
        return admitting.refuse_or_none(InputFaults(source, (base,)))
    if fault := bake.disk_fault(found.root_gib, base):
        return admitting.refuse_or_none(InputFaults(source, (fault,)))
    containers = _containers(yard, found, base)
    if isinstance(containers, Fault):
        return admitting.refuse_or_none(InputFaults(source, (containers,)))
    admitted = recipe.complete_recipe(
        found, software=yard.software_hash, base=base.id, base_made=base.created, containers=containers
    )
    same = None if wanted.force else _unchanged(yard, found, str(admitted["hash"]))
    return same or AdmittedRecipe(admitted)


def _uploaded(yard: BakeAdmitSettings, wanted: BakeRequest) -> Recipe | InputFaults:
    key = str(wanted.recipe_key)
    text = uploads.read(yard.bucket_name, key, wanted.version_id, what="a recipe")
    return text if isinstance(text, InputFaults) else recipe.parse(text, source=key)


def _base(yard: BakeAdmitSettings, wanted: Recipe) -> Image | Fault:
    """Return the image for the builder, or the fault of the recipe. A wrong parameter of the yard is a fault of its
    operator and raised."""
    named = wanted.base or yard.base_image_parameter
    ami = named if named.startswith("ami-") else _parameter(yard, named)
    if ami is None and wanted.base is None:
        raise Misconfigured(
            f"The parameter {named} does not hold the id of a base image. Its path differs by region and year: find it "
            "with `aws ssm get-parameters-by-path --path /aws/service/deeplearning/ami` and deploy with "
            "-c base_image_parameter=..."
        )
    if ami is None:
        return Fault("base", f"the parameter {named} does not hold the id of an image that exists here")
    image = images.find(ami)
    if image is None:
        return Fault(
            "base", f"the image {ami} does not exist here, or its owner does not share it with this account"
        )
    if not image.available:
        return Fault("base", f"the image {ami} is {image.state}; an available one is allowed")
    return image


def _containers(yard: BakeAdmitSettings, wanted: Recipe, base: Image) -> tuple[Container, ...] | Fault:
    """Return the recipe's container images with their digests, or the fault of one."""
    if not wanted.containers:
        return ()
    from lambdas.steps import containers  # most recipes have none, so that Admit starts faster

    sources = containers.Sources.of(yard.yard, yard.registries, yard.pull_through)
    return containers.resolve_for_bake(wanted.containers, sources, base.architecture)


def _parameter(yard: BakeAdmitSettings, named: str) -> str | None:
    """Return the AMI in the parameter; None if it contains none, or if this yard may not read it."""
    if not recipe.readable(named, usual=yard.base_image_parameter, yard=yard.yard):
        return None
    value = ssm.read_parameter(named)
    return value if value and recipe.is_ami(value) else None


def _unchanged(yard: BakeAdmitSettings, wanted: Recipe, recipe_hash: str) -> Unchanged | None:
    """Return the unchanged image if this bake would repeat it: the current image, or the newest of the family if the
    recipe's images do not become current."""
    if wanted.current:
        current = ssm.read_parameter(yard.image_parameter)
        before = images.find(current) if current and current.startswith("ami-") else None
    else:
        family = [image for image in images.find_in_yard(yard.yard) if image.family == wanted.name]
        before = newest(family) if family else None
    return bake.find_unchanged(before, yard=yard.yard, recipe_hash=recipe_hash)


def _is_of_yard_recipe(given: AdmitInput, yard: BakeAdmitSettings) -> bool:
    """Return True for a bake of the yard's own recipe without `force`. Once it has the lock, it does nothing if the
    other bake made the same image."""
    wanted = recipe.read_input(given.input, usual=yard.recipe_key)
    return isinstance(wanted, BakeRequest) and wanted.recipe_key == yard.recipe_key and not wanted.force


def _take_lock(ledger: Ledger, mine: Lock) -> Refused | None:
    """Take the lock; return the refusal if another bake holds it."""
    holder = ledger.bake_lock()
    over = holder.run if holder and states.is_over(holder.execution_arn) else None
    if ledger.take_bake_lock(mine, instead_of=over):
        return None
    return bake.refuse_second(holder.run if holder else "that began this very moment")


def _job(recipe: Mapping[str, Any]) -> Job:
    """Return the job of one host that Plan, Launch and Recover need."""
    builder = serialization.from_json(Builder, recipe["builder"])
    return one_host_job(
        str(recipe["name"]),
        builder.hardware,
        hours=builder.hours,
        wait_minutes=WAIT_MINUTES,
        restarts=bake.MOST_BUILDERS - 1,
    )


def _values(recipe: Mapping[str, Any], job: Job) -> RunUpdate:
    """Return the values of the run's row. The builder reads recipe.json and checks its hash."""
    return {
        "kind": "bake",
        **job_values(job),
        "image_id": str(recipe["base"]),
        "recipe": recipe,
        "recipe_sha256": hashlib.sha256(s3.as_bytes(recipe)).hexdigest(),
    }
