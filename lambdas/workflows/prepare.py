"""What must happen once, as part of the deployment: the roles that EC2 acts through, and the first image.

CloudFormation asks when a yard is made, and again when its recipe or what a bake installs has changed. A yard that
cannot be prepared is a yard all the same: what fails here is said in the stack's output, with what to type, and nothing
is rolled back for it. Nothing waits for the bake. What was made stays when the stack goes."""

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
"""Characters: an answer is 4,096 bytes at most, and an output 1,024
(docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref-responses.html, cloudformation-limits.html)."""


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """What a yard must have. `recipe` is the text of its recipe, `key` the ARN of the customer's KMS key; `software` is
    there for CloudFormation alone: with another one it asks again."""

    recipe: str | None = field(default=None, metadata={"json_key": "Recipe"})
    software: str | None = field(default=None, metadata={"json_key": "Software"})
    key: str | None = field(default=None, metadata={"json_key": "Key"})


@dataclass(frozen=True, kw_only=True)
class ResourceRequest:
    """`asks` is Create, Update or Delete; `answer_to` the pre-signed URL that waits for the answer."""

    asks: str = field(metadata={"json_key": "RequestType"})
    request: str = field(metadata={"json_key": "RequestId"})
    stack: str = field(metadata={"json_key": "StackId"})
    logical_id: str = field(metadata={"json_key": "LogicalResourceId"})
    answer_to: str = field(metadata={"json_key": "ResponseURL"})
    properties: Preparation = field(metadata={"json_key": "ResourceProperties"})

    def role_arn(self, path: str) -> str:
        """Of a role of the stack's account."""
        _, partition, _, _, account, *_ = self.stack.split(":")
        return f"arn:{partition}:iam::{account}:role/{path}"


@dataclass(frozen=True, kw_only=True)
class ResourceAnswer:
    """The resource is there, or gone. `data` are its attributes."""

    status: str = field(default="SUCCESS", metadata={"json_key": "Status"})
    physical_id: str = field(metadata={"json_key": "PhysicalResourceId"})
    request: str = field(metadata={"json_key": "RequestId"})
    stack: str = field(metadata={"json_key": "StackId"})
    logical_id: str = field(metadata={"json_key": "LogicalResourceId"})
    data: Mapping[str, str] = field(metadata={"json_key": "Data"})


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What came of it, for the log and for the stack's output: sentences, one behind the other."""

    said: str


def answer(asked: ResourceRequest, said: str) -> ResourceAnswer:
    """The same resource whatever was asked: nothing is ever replaced."""
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
"""Characters, so that all sentences fit into an output; the log has the whole."""
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
    said = "nothing was to be done"
    if asked.asks != "Delete":
        said = "; ".join(_prepare(asked, environment.read(PrepareSettings))) or said
    cloudformation.answer(asked.answer_to, serialization.to_json(answer(asked, said)))
    return Prepared(said=said)


def _prepare(asked: ResourceRequest, yard: PrepareSettings) -> Iterator[str]:
    """Yield a sentence for each thing that was done, or that a person must do."""
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
