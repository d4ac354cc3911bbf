"""A synthesised assembly as AWS would deploy it, with all references resolved."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from simulation.aws.endpoint.api import ACCOUNT, PARTITION, REGION
from simulation.aws.eventbridge import Rule, Target
from simulation.aws.functions import FunctionConfig
from simulation.aws.stepfunctions import Machine
from simulation.cloudformation import Resource, Stack

AGENT_POLICY = ":aws:policy/AmazonSSMManagedInstanceCore"
"""The simulator does not check permissions of SSM agents, so this managed policy may be attached."""


@dataclass(frozen=True)
class IamRole:
    arn: str
    name: str
    trust: Mapping[str, Any]
    """The AssumeRolePolicyDocument."""
    policies: tuple[Mapping[str, Any], ...]
    """Policy documents."""


@dataclass(frozen=True)
class Permission:
    """A permission for a service to invoke a function, for one source."""

    function: str
    principal: str
    source: str | None


@dataclass(frozen=True)
class LaunchTemplate:
    id: str
    name: str
    data: Mapping[str, Any]


@dataclass(frozen=True)
class SsmDocument:
    name: str
    kind: str
    content: Mapping[str, Any]


@dataclass(frozen=True)
class Subnet:
    id: str
    zone: str
    vpc: str
    cidr: str
    gives_public_addresses: bool


@dataclass(frozen=True)
class Named:
    """A resource that exists once in a yard, with the properties from its template."""

    name: str
    arn: str
    properties: Mapping[str, Any]


@dataclass(frozen=True)
class YardTemplate:
    """All resources of a yard by name or by ARN."""

    functions: Mapping[str, FunctionConfig]
    failure_queues: Mapping[str, str]
    """Function names with the queue for events that failed for good."""
    permissions: tuple[Permission, ...]
    roles: Mapping[str, IamRole]
    resource_policies: Mapping[str, Mapping[str, Any]]
    """Policies by the ARN of the bucket, topic or queue."""
    machines: Mapping[str, Machine]
    rules: tuple[Rule, ...]
    launch_templates: Mapping[str, LaunchTemplate]
    documents: Mapping[str, SsmDocument]
    parameters: Mapping[str, str]
    """Parameters of Systems Manager with their first value."""
    subnets: Mapping[str, Subnet]
    s3_endpoints: frozenset[str]
    """VPCs with an S3 endpoint."""
    security_groups: tuple[str, ...]
    instance_profiles: Mapping[str, str]
    """ARN of the instance profile to ARN of its role."""
    bucket: Named
    table: Named
    topic: Named
    bus: Named
    queue: Named
    subscriptions: tuple[str, ...]
    """The ARNs of the functions that get the notifications of the topic."""
    outputs: Mapping[str, str]

    def machine(self, workflow: str) -> Machine:
        """Return the state machine of a workflow, e.g. `train`, for any name of the yard."""
        return next(each for each in self.machines.values() if each.name.endswith(f"-{workflow}"))

    def with_limits(self, **limits: object) -> YardTemplate:
        """Return the yard with other limits for its runs, named as in the context of the CDK app."""
        environment = {name.upper(): str(value) for name, value in limits.items()}
        functions = {
            name: replace(config, environment={**config.environment, **environment})
            if environment.keys() <= config.environment.keys()
            else config
            for name, config in self.functions.items()
        }
        return replace(self, functions=functions)


@functools.cache
def read(folder: Path) -> YardTemplate:
    """Return the assembly in a folder. Each is read once per process."""
    return deploy_templates(read_templates(folder))


def read_templates(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the templates of the assembly by stack name. Raises FileNotFoundError if the assembly is missing."""
    manifest = folder / "manifest.json"
    if not manifest.exists():
        raise FileNotFoundError(f"no assembly in {folder}: synthesise first")
    artifacts = json.loads(manifest.read_text())["artifacts"]
    return {
        artifact["properties"].get("stackName", name): json.loads(
            (folder / artifact["properties"]["templateFile"]).read_text()
        )
        for name, artifact in sorted(artifacts.items())
        if artifact["type"] == "aws:cloudformation:stack"
    }


def deploy_templates(templates: Mapping[str, Mapping[str, Any]]) -> YardTemplate:
    """Return the stacks as deployed into one account."""
    return _Reader(templates).yard()


class _Reader:
    """Converts resources to the simulator's classes."""

    def __init__(self, templates: Mapping[str, Mapping[str, Any]]) -> None:
        exports: dict[str, tuple[Stack, Any]] = {}
        self.stacks = [Stack(name, template, exports) for name, template in templates.items()]

    def yard(self) -> YardTemplate:
        functions = {each.name: self._function(each) for each in self._all("AWS::Lambda::Function")}
        return YardTemplate(
            functions=functions,
            failure_queues=self._failure_queues(),
            permissions=tuple(_permission(each) for each in self._all("AWS::Lambda::Permission")),
            roles={each.arn: self._role(each) for each in self._all("AWS::IAM::Role")},
            resource_policies=dict(self._resource_policies()),
            machines={each.arn: _machine(each) for each in self._all("AWS::StepFunctions::StateMachine")},
            rules=tuple(_rule(each) for each in self._all("AWS::Events::Rule")),
            launch_templates={
                each.id: LaunchTemplate(each.id, each.name, each.properties["LaunchTemplateData"])
                for each in self._all("AWS::EC2::LaunchTemplate")
            },
            documents={each.name: _document(each) for each in self._all("AWS::SSM::Document")},
            parameters={each.name: each.properties["Value"] for each in self._all("AWS::SSM::Parameter")},
            subnets={each.id: _subnet(each) for each in self._all("AWS::EC2::Subnet")},
            s3_endpoints=frozenset(
                each.properties["VpcId"]
                for each in self._all("AWS::EC2::VPCEndpoint")
                if str(each.properties["ServiceName"]).endswith(".s3")
            ),
            security_groups=tuple(each.id for each in self._all("AWS::EC2::SecurityGroup")),
            instance_profiles=self._instance_profiles(),
            bucket=self._one("AWS::S3::Bucket"),
            table=self._one("AWS::DynamoDB::Table"),
            topic=self._one("AWS::SNS::Topic"),
            bus=self._one("AWS::Events::EventBus"),
            queue=self._one("AWS::SQS::Queue"),
            subscriptions=tuple(map(_subscriber, self._all("AWS::SNS::Subscription"))),
            outputs={name: value for stack in self.stacks for name, value in stack.outputs().items()},
        )

    def _all(self, kind: str) -> Iterator[Resource]:
        for stack in self.stacks:
            yield from (each for each in stack.resources.values() if each.type == kind)

    def _one(self, kind: str) -> Named:
        found = list(self._all(kind))
        if len(found) != 1:
            raise ValueError(f"a yard has one {kind}, not {len(found)}")
        return Named(found[0].name, found[0].arn, found[0].properties)

    def _function(self, function: Resource) -> FunctionConfig:
        settings = self._invoked.get(function.name, {})
        given = function.properties
        return FunctionConfig(
            name=function.name,
            module=given["Handler"].removesuffix(".handler"),
            environment=given.get("Environment", {}).get("Variables", {}),
            timeout=given.get("Timeout", 3),
            role=given["Role"],
            retries=settings.get("MaximumRetryAttempts", 2),
            max_age=settings.get("MaximumEventAgeInSeconds", 21_600),
        )

    @functools.cached_property
    def _invoked(self) -> dict[str, dict[str, Any]]:
        """Return the asynchronous invocation settings by function name."""
        configs = [each.properties for each in self._all("AWS::Lambda::EventInvokeConfig")]
        return {config["FunctionName"]: config for config in configs}

    def _failure_queues(self) -> dict[str, str]:
        return {
            function: config["DestinationConfig"]["OnFailure"]["Destination"]
            for function, config in self._invoked.items()
            if "OnFailure" in config.get("DestinationConfig", {})
        }

    def _role(self, role: Resource) -> IamRole:
        for managed in role.properties.get("ManagedPolicyArns", []):
            if not managed.endswith(AGENT_POLICY):
                raise ValueError(f"{role.name} has the policy {managed}, which the simulator does not model")
        own = [each["PolicyDocument"] for each in role.properties.get("Policies", [])]
        return IamRole(
            role.arn,
            role.name,
            role.properties["AssumeRolePolicyDocument"],
            (*own, *self._attached.get(role.name, [])),
        )

    @functools.cached_property
    def _attached(self) -> dict[str, list[Any]]:
        """Return the documents of separate policy resources by role name."""
        attached: dict[str, list[Any]] = {}
        for policy in self._all("AWS::IAM::Policy"):
            for role in policy.properties["Roles"]:
                attached.setdefault(role, []).append(policy.properties["PolicyDocument"])
        return attached

    def _resource_policies(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for policy in self._all("AWS::S3::BucketPolicy"):
            yield f"arn:{PARTITION}:s3:::{policy.properties['Bucket']}", policy.properties["PolicyDocument"]
        for policy in self._all("AWS::SNS::TopicPolicy"):
            for topic in policy.properties["Topics"]:
                yield topic, policy.properties["PolicyDocument"]
        for policy in self._all("AWS::SQS::QueuePolicy"):
            for url in policy.properties["Queues"]:
                name = url.rpartition("/")[2]
                yield f"arn:{PARTITION}:sqs:{REGION}:{ACCOUNT}:{name}", policy.properties["PolicyDocument"]

    def _instance_profiles(self) -> dict[str, str]:
        by_name = {each.name: each.arn for each in self._all("AWS::IAM::Role")}
        return {
            each.arn: by_name[each.properties["Roles"][0]] for each in self._all("AWS::IAM::InstanceProfile")
        }


def _permission(permission: Resource) -> Permission:
    given = permission.properties
    if given["Action"] != "lambda:InvokeFunction":
        raise ValueError(
            f"the simulator does not model the permission {given['Action']} ({permission.logical})"
        )
    return Permission(given["FunctionName"], given["Principal"], given.get("SourceArn"))


def _subscriber(subscription: Resource) -> str:
    given = subscription.properties
    if given["Protocol"] != "lambda" or set(given) != {"Protocol", "TopicArn", "Endpoint"}:
        raise ValueError(f"the simulator does not model the subscription {subscription.logical}")
    return str(given["Endpoint"])


def _machine(machine: Resource) -> Machine:
    given = machine.properties
    text = given["DefinitionString"]
    for name, value in given.get("DefinitionSubstitutions", {}).items():
        text = text.replace(f"${{{name}}}", str(value))
    return Machine(machine.arn, machine.name, json.loads(text), given["RoleArn"])


def _rule(rule: Resource) -> Rule:
    given = rule.properties
    return Rule(
        name=rule.name,
        arn=rule.arn,
        bus=rule.bus,
        pattern=given.get("EventPattern"),
        schedule=given.get("ScheduleExpression"),
        targets=tuple(_target(each) for each in given.get("Targets", [])),
        enabled=given.get("State", "ENABLED") == "ENABLED",
    )


TARGET_FIELDS = {"Arn", "Id", "RoleArn", "Input", "InputTransformer", "RetryPolicy", "DeadLetterConfig"}


def _target(given: Mapping[str, Any]) -> Target:
    unknown = sorted(set(given) - TARGET_FIELDS)
    if unknown:
        raise ValueError(f"the simulator does not model {', '.join(unknown)} of a target")
    transformer, retry = given.get("InputTransformer", {}), given.get("RetryPolicy", {})
    return Target(
        id=given["Id"],
        arn=given["Arn"],
        role=given.get("RoleArn"),
        input=given.get("Input"),
        paths=transformer.get("InputPathsMap", {}),
        template=transformer.get("InputTemplate"),
        max_retries=retry.get("MaximumRetryAttempts", 185),
        max_age=retry.get("MaximumEventAgeInSeconds", 86_400),
        dead_letters=given.get("DeadLetterConfig", {}).get("Arn"),
    )


def _document(document: Resource) -> SsmDocument:
    content = document.properties["Content"]
    if isinstance(content, str):
        raise TypeError(f"the content of {document.logical} is a string: the simulator reads objects only")
    return SsmDocument(document.name, document.properties.get("DocumentType", "Command"), content)


def _subnet(subnet: Resource) -> Subnet:
    given = subnet.properties
    return Subnet(
        subnet.id,
        given["AvailabilityZone"],
        given["VpcId"],
        given["CidrBlock"],
        gives_public_addresses=bool(given.get("MapPublicIpOnLaunch", False)),
    )
