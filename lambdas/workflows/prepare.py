"""What must happen once, as part of the deployment: the roles that EC2 acts through, and the first image.

CloudFormation asks when a yard is made, and again when its recipe or what a bake installs has changed. A yard that
cannot be prepared is a yard all the same: what fails here is said in the stack's output, with what to type, and nothing
is rolled back for it. Nothing waits for the bake. What was made stays when the stack goes."""

from collections.abc import Callable, Iterator
from functools import partial

from lambdas import settings
from lambdas.aws import cloudformation, iam, kms, s3
from lambdas.core.edges import deployment
from lambdas.core.edges.deployment import Prepared, ResourceRequest
from lambdas.settings import PrepareSettings
from lambdas.steps import submission
from lambdas.steps.entry_point import entry_point
from lambdas.steps.observability import logger
from trainyard.core.model.names import SERVICE_LINKED_ROLES
from trainyard.values import wire

MOST_OF_AN_ERROR = 160
"""Characters, so that all sentences fit into an output; the log has the whole."""


@entry_point
def handler(asked: ResourceRequest) -> Prepared:
    said = "nothing was to be done"
    if asked.asks != "Delete":
        said = "; ".join(_prepare(asked, settings.read(PrepareSettings))) or said
    cloudformation.answer(asked.answer_to, wire.to_json(deployment.answer(asked, said)))
    return Prepared(said=said)


def _prepare(asked: ResourceRequest, yard: PrepareSettings) -> Iterator[str]:
    """A sentence for everything that was done, or that somebody must do."""
    wanted = asked.properties
    for service, name in SERVICE_LINKED_ROLES.items():
        by_hand = f"aws iam create-service-linked-role --aws-service-name {service}"
        yield from _tried(partial(_role, service), by_hand)
        if wanted.key:
            role = asked.role_arn(f"aws-service-role/{service}/{name}")
            yield from _tried(partial(_grant, wanted.key, role), kms.command(wanted.key, role))
    if wanted.recipe:
        place = f"s3://{yard.bucket_name}/{yard.recipe_key}"
        yield from _tried(partial(_bake, yard, wanted.recipe), f"aws s3 cp {yard.recipe_key} {place}")


def _tried(act: Callable[[], str | None], by_hand: str) -> Iterator[str]:
    try:
        said = act()
    except Exception as error:  # noqa: BLE001 - unanswered, CloudFormation would wait and then take the stack back
        logger.exception("the yard is not wholly prepared")
        yield f"by hand: {by_hand} ({str(error)[:MOST_OF_AN_ERROR]})"
    else:
        if said:
            yield said


def _role(service: str) -> str | None:
    return f"{service} has its role now" if iam.make_service_linked_role(service) else None


def _grant(key: str, role: str) -> None:
    kms.grant_volumes(key, role)


def _bake(yard: PrepareSettings, recipe: str) -> str:
    """The upload is an event too, of which a new bucket may say nothing for five minutes: both name one execution."""
    version, etag = s3.put_version(yard.bucket_name, yard.recipe_key, recipe.encode(), media_type="text/yaml")
    machine = yard.bake_state_machine_arn
    run, _ = submission.start(machine, yard.bucket_name, yard.recipe_key, version=version, etag=etag)
    return f"the bake {run} began; if another bake is under way, this one follows it"
