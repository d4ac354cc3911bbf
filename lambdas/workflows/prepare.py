"""Prepare: the one-time actions of a deployment, which are the service-linked roles of EC2 and the first image.

CloudFormation calls this function when a yard is created, and when its recipe or the baked software changes. A failure
never rolls the deployment back: the output of the stack contains it, with a command to run. The deployment does not
wait for the bake. Deleting the stack keeps the results."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from functools import partial

from lambdas import environment
from lambdas.aws import cloudformation, iam, kms, s3
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps import submission
from lambdas.steps.entry_point import entry_point
from lambdas.steps.observability import logger
from trainyard.core.model.names import SERVICE_LINKED_ROLES
from trainyard.values import serialization
from trainyard.values.lazy import dataclass

MOST_SAID = 1000
"""The most characters of an output: an answer has at most 4,096 bytes, an output 1,024
(docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref-responses.html, cloudformation-limits.html)."""


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """The properties of the custom resource."""

    recipe: str | None = field(default=None, metadata={"json_key": "Recipe"})
    """The text of the yard's recipe."""
    software: str | None = field(default=None, metadata={"json_key": "Software"})
    """A hash of the software that bakes install. CloudFormation calls the function again when it changes."""
    key: str | None = field(default=None, metadata={"json_key": "Key"})
    """The ARN of the customer's KMS key."""


@dataclass(frozen=True, kw_only=True)
class ResourceRequest:
    """A request of CloudFormation to the custom resource."""

    asks: str = field(metadata={"json_key": "RequestType"})
    """Create, Update or Delete."""
    request: str = field(metadata={"json_key": "RequestId"})
    stack: str = field(metadata={"json_key": "StackId"})
    logical_id: str = field(metadata={"json_key": "LogicalResourceId"})
    answer_to: str = field(metadata={"json_key": "ResponseURL"})
    """The pre-signed URL for the answer."""
    properties: Preparation = field(metadata={"json_key": "ResourceProperties"})

    def role_arn(self, path: str) -> str:
        """Return the ARN of a role in the stack's account."""
        _, partition, _, _, account, *_ = self.stack.split(":")
        return f"arn:{partition}:iam::{account}:role/{path}"


@dataclass(frozen=True, kw_only=True)
class ResourceAnswer:
    """The answer to CloudFormation."""

    status: str = field(default="SUCCESS", metadata={"json_key": "Status"})
    physical_id: str = field(metadata={"json_key": "PhysicalResourceId"})
    request: str = field(metadata={"json_key": "RequestId"})
    stack: str = field(metadata={"json_key": "StackId"})
    logical_id: str = field(metadata={"json_key": "LogicalResourceId"})
    data: Mapping[str, str] = field(metadata={"json_key": "Data"})
    """Attributes of the resource."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The results in sentences, for the log and the stack's output."""

    said: str


def answer(asked: ResourceRequest, said: str) -> ResourceAnswer:
    """Return the answer. Every request has the same resource ID, so that CloudFormation never replaces the resource."""
    return ResourceAnswer(
        physical_id=asked.logical_id,
        request=asked.request,
        stack=asked.stack,
        logical_id=asked.logical_id,
        data={"Said": said[:MOST_SAID]},
    )


class PrepareSettings(YardSettings):
    bake_state_machine_arn: str
    recipe_key: str


MOST_OF_AN_ERROR = 160
"""The most characters of an error in the output, which leaves room for all sentences. The log contains the full
error."""
NEEDS = Needs(
    PrepareSettings,
    (
        may("make service-linked roles"),
        may("upload the recipe"),
        may("start executions", "bake"),
    ),
    minutes=5,
)


@entry_point
def handler(asked: ResourceRequest) -> Prepared:
    said = "nothing had to be done"
    if asked.asks != "Delete":
        said = "; ".join(_prepare(asked, environment.read(PrepareSettings))) or said
    cloudformation.answer(asked.answer_to, serialization.to_json(answer(asked, said)))
    return Prepared(said=said)


def _prepare(asked: ResourceRequest, yard: PrepareSettings) -> Iterator[str]:
    """Yield a sentence for each completed action, and a command for each action that a user must take."""
    wanted = asked.properties
    for service, name in SERVICE_LINKED_ROLES.items():
        by_hand = f"aws iam create-service-linked-role --aws-service-name {service}"
        yield from _run_step(partial(_role, service), by_hand)
        if wanted.key:
            role = asked.role_arn(f"aws-service-role/{service}/{name}")
            yield from _run_step(partial(_grant, wanted.key, role), kms.grant_command(wanted.key, role))
    if wanted.recipe:
        place = f"s3://{yard.bucket_name}/{yard.recipe_key}"
        yield from _run_step(partial(_bake, yard, wanted.recipe), f"aws s3 cp {yard.recipe_key} {place}")


def _run_step(act: Callable[[], str | None], by_hand: str) -> Iterator[str]:
    try:
        said = act()
    except Exception as error:  # noqa: BLE001 - without an answer, CloudFormation would time out and roll back
        logger.exception("the yard is only partly prepared")
        yield f"by hand: {by_hand} ({str(error)[:MOST_OF_AN_ERROR]})"
    else:
        if said:
            yield said


def _role(service: str) -> str | None:
    return f"created the role of {service}" if iam.make_service_linked_role(service) else None


def _grant(key: str, role: str) -> None:
    kms.grant_volumes(key, role)


def _bake(yard: PrepareSettings, recipe: str) -> str:
    """Upload the recipe and start its bake. The upload sends an event, too, but up to five minutes late in a new
    bucket. Both start the same execution."""
    version, etag = s3.put_version(yard.bucket_name, yard.recipe_key, recipe.encode(), media_type="text/yaml")
    machine = yard.bake_state_machine_arn
    uploaded = submission.read(yard.bucket_name, yard.recipe_key, version)
    run, _ = submission.start(
        machine, None, yard.bucket_name, yard.recipe_key, uploaded, version=version, etag=etag
    )
    return f"started the bake {run}; it waits for any other bake to end"
