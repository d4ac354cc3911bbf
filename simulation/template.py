"""A synthesised assembly as AWS would deploy it: references resolved, ids and ARNs given."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from simulation.aws import iam
from simulation.aws.door.api import ACCOUNT, PARTITION, REGION
from simulation.aws.eventbridge import DEFAULT_BUS, Rule, Target
from simulation.aws.functions import FunctionFacts
from simulation.aws.stepfunctions import Machine

ZONES = tuple(f"{REGION}{letter}" for letter in "abcdef")
BOOTSTRAP = {"/cdk-bootstrap/hnb659fds/version": "27"}
"""Parameters of Systems Manager that are there before anything is deployed."""
EC2_IDS = {
    "AWS::EC2::VPC": "vpc",
    "AWS::EC2::Subnet": "subnet",
    "AWS::EC2::RouteTable": "rtb",
    "AWS::EC2::InternetGateway": "igw",
    "AWS::EC2::SecurityGroup": "sg",
    "AWS::EC2::LaunchTemplate": "lt",
    "AWS::EC2::VPCEndpoint": "vpce",
    "AWS::EC2::NatGateway": "nat",
}
NAMES = {
    "AWS::Lambda::Function": "FunctionName",
    "AWS::Lambda::LayerVersion": "LayerName",
    "AWS::IAM::Role": "RoleName",
    "AWS::IAM::InstanceProfile": "InstanceProfileName",
    "AWS::S3::Bucket": "BucketName",
    "AWS::DynamoDB::Table": "TableName",
    "AWS::SNS::Topic": "TopicName",
    "AWS::SQS::Queue": "QueueName",
    "AWS::Events::EventBus": "Name",
    "AWS::Events::Rule": "Name",
    "AWS::StepFunctions::StateMachine": "StateMachineName",
    "AWS::SSM::Document": "Name",
    "AWS::SSM::Parameter": "Name",
    "AWS::Logs::LogGroup": "LogGroupName",
    "AWS::EC2::LaunchTemplate": "LaunchTemplateName",
    "AWS::CloudWatch::Alarm": "AlarmName",
}
"""Where a resource says its own name; CloudFormation makes one where it does not."""
ARNS = {
    "AWS::Lambda::Function": f"lambda:{REGION}:{ACCOUNT}:function:",
    "AWS::IAM::Role": f"iam::{ACCOUNT}:role/",
    "AWS::IAM::InstanceProfile": f"iam::{ACCOUNT}:instance-profile/",
    "AWS::S3::Bucket": "s3:::",
    "AWS::DynamoDB::Table": f"dynamodb:{REGION}:{ACCOUNT}:table/",
    "AWS::SNS::Topic": f"sns:{REGION}:{ACCOUNT}:",
    "AWS::SQS::Queue": f"sqs:{REGION}:{ACCOUNT}:",
    "AWS::Events::EventBus": f"events:{REGION}:{ACCOUNT}:event-bus/",
    "AWS::StepFunctions::StateMachine": f"states:{REGION}:{ACCOUNT}:stateMachine:",
    "AWS::CloudWatch::Alarm": f"cloudwatch:{REGION}:{ACCOUNT}:alarm:",
}
PSEUDO = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Region": REGION,
    "AWS::Partition": PARTITION,
    "AWS::URLSuffix": "amazonaws.com",
}
OF_AGENTS = ":aws:policy/AmazonSSMManagedInstanceCore"
"""What hosts' agents ask Systems Manager for passes no IAM in the simulator."""
SHORT = {"AWS::S3::Bucket": 63, "AWS::IAM::Role": 64}
"""The longest name, where CloudFormation has to cut the one it makes."""


@dataclass(frozen=True)
class Role:
    """`trust` is the AssumeRolePolicyDocument; `policies` are documents."""

    arn: str
    name: str
    trust: Mapping[str, Any]
    policies: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Permission:
    """A function lets a service invoke it for one source."""

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
    """Something of which there is one: its name, its ARN, and the properties that its template gives it."""

    name: str
    arn: str
    properties: Mapping[str, Any]


@dataclass(frozen=True)
class YardTemplate:
    """Everything by name or by ARN, references resolved."""

    functions: Mapping[str, FunctionFacts]
    failure_queues: Mapping[str, str]
    """By function's name: the queue for events on which it has failed for good."""
    permissions: tuple[Permission, ...]
    roles: Mapping[str, Role]
    """By ARN."""
    resource_policies: Mapping[str, Mapping[str, Any]]
    """By ARN of the bucket, topic or queue."""
    machines: Mapping[str, Machine]
    """By ARN."""
    rules: tuple[Rule, ...]
    launch_templates: Mapping[str, LaunchTemplate]
    """By id."""
    documents: Mapping[str, SsmDocument]
    parameters: Mapping[str, str]
    """Of Systems Manager: name to first value."""
    subnets: Mapping[str, Subnet]
    s3_endpoints: frozenset[str]
    """The VPCs that have one."""
    security_groups: tuple[str, ...]
    instance_profiles: Mapping[str, str]
    """ARN of the profile to ARN of its role."""
    bucket: Named
    table: Named
    topic: Named
    bus: Named
    queue: Named
    outputs: Mapping[str, str]

    def machine(self, word: str) -> Machine:
        """`train`, whatever the yard is called."""
        return next(each for each in self.machines.values() if each.name.rpartition("-")[2] == word)

    def limited(self, **limits: object) -> YardTemplate:
        """The same deployed with other limits for its runs, by the names that context has for them."""
        environment = {name.upper(): str(value) for name, value in limits.items()}
        functions = {
            name: replace(facts, environment={**facts.environment, **environment})
            if environment.keys() <= facts.environment.keys()
            else facts
            for name, facts in self.functions.items()
        }
        return replace(self, functions=functions)


@functools.cache
def read(folder: Path) -> YardTemplate:
    """The assembly in that folder; read once in a process."""
    return deployed(templates_of(folder))


def templates_of(folder: Path) -> dict[str, dict[str, Any]]:
    """The assembly's templates by the names of their stacks. Raises FileNotFoundError where none was made."""
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


def deployed(templates: Mapping[str, Mapping[str, Any]]) -> YardTemplate:
    """The stacks by name, deployed into one account."""
    return _Reader(templates).yard()


# ------------------------------------------------------------------------------------------------------------ resolving


@dataclass(frozen=True)
class _Resource:
    stack: _Stack
    logical: str
    type: str
    raw: Mapping[str, Any]

    @functools.cached_property
    def properties(self) -> dict[str, Any]:
        resolved: dict[str, Any] = self.stack.resolve(self.raw.get("Properties", {}))
        return resolved

    @functools.cached_property
    def name(self) -> str:
        """Its own, or CloudFormation's: stack, logical id and twelve characters."""
        own = self.raw.get("Properties", {}).get(NAMES.get(self.type, ""))
        if own is not None:
            return str(self.stack.resolve(own))
        mark = base64.b32encode(self._digest)[:12].decode()
        room = SHORT.get(self.type, 255) - len(mark) - 2
        stack = self.stack.name[: room // 2]
        made = f"{stack}-{self.logical[: room - len(stack)]}-{mark}"
        return made.lower() if self.type == "AWS::S3::Bucket" else made

    @functools.cached_property
    def id(self) -> str:
        """As EC2 names it."""
        return f"{EC2_IDS[self.type]}-{self._digest.hex()[:17]}"

    @functools.cached_property
    def arn(self) -> str:
        match self.type:
            case "AWS::Events::Rule":
                where = f"{self.bus}/" if self.bus != DEFAULT_BUS else ""
                return f"arn:{PARTITION}:events:{REGION}:{ACCOUNT}:rule/{where}{self.name}"
            case "AWS::Lambda::LayerVersion":
                return f"arn:{PARTITION}:lambda:{REGION}:{ACCOUNT}:layer:{self.name}:1"
            case "AWS::Logs::LogGroup":
                return f"arn:{PARTITION}:logs:{REGION}:{ACCOUNT}:log-group:{self.name}:*"
            case _:
                return f"arn:{PARTITION}:{ARNS[self.type]}{self.name}"

    @property
    def bus(self) -> str:
        """Of a rule; by name."""
        given = str(self.stack.resolve(self.raw["Properties"].get("EventBusName", DEFAULT_BUS)))
        return given.rpartition("event-bus/")[2]

    @property
    def ref(self) -> str:
        match self.type:
            case "AWS::SNS::Topic" | "AWS::StepFunctions::StateMachine" | "AWS::Lambda::LayerVersion":
                return self.arn
            case "AWS::SQS::Queue":
                return f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{self.name}"
            case "AWS::Events::Rule":
                return self.name if self.bus == DEFAULT_BUS else f"{self.bus}|{self.name}"
            case kind if kind in EC2_IDS:
                return self.id
            case _:
                return self.name

    def attribute(self, name: str) -> str:
        match self.type, name:
            case _, "Arn":
                return self.arn
            case "AWS::EC2::LaunchTemplate", "LatestVersionNumber" | "DefaultVersionNumber":
                return "1"
            case kind, "GroupId" | "VpcId" | "SubnetId" | "LaunchTemplateId" if kind in EC2_IDS:
                return self.id
            case "AWS::IAM::Role", "RoleId":
                return iam.role_id(self.arn)
            case "AWS::SQS::Queue", "QueueUrl":
                return self.ref
            case _, "Name" | "QueueName" | "TopicName" | "LaunchTemplateName":
                return self.name
            case "AWS::S3::Bucket", "DomainName":
                return f"{self.name}.s3.amazonaws.com"
            case "AWS::S3::Bucket", "RegionalDomainName":
                return f"{self.name}.s3.{REGION}.amazonaws.com"
            case "Custom::Prepared", "Said":
                return "nothing was to be done"
            case _:
                raise ValueError(f"the simulator knows no {name} of {self.type} ({self.logical})")

    @functools.cached_property
    def _digest(self) -> bytes:
        return hashlib.sha256(f"{self.stack.name}/{self.logical}".encode()).digest()


@dataclass
class _Stack:
    name: str
    template: Mapping[str, Any]
    exports: dict[str, tuple[_Stack, Any]]
    """Of all stacks: whose, and what, not resolved."""

    def __post_init__(self) -> None:
        self.resources: dict[str, _Resource] = {}  # no condition may refer to one
        self.resources = {
            logical: _Resource(self, logical, raw["Type"], raw)
            for logical, raw in self.template.get("Resources", {}).items()
            if self._is_wanted(raw.get("Condition"))
        }
        for output in self.template.get("Outputs", {}).values():
            if "Export" in output and self._is_wanted(output.get("Condition")):
                self.exports[self.resolve(output["Export"]["Name"])] = (self, output["Value"])

    def outputs(self) -> dict[str, str]:
        """Those for people; what only other stacks import is left out."""
        return {
            name: str(self.resolve(output["Value"]))
            for name, output in self.template.get("Outputs", {}).items()
            if "Export" not in output and self._is_wanted(output.get("Condition"))
        }

    def resolve(self, value: Any) -> Any:
        """Without a reference in it."""
        if isinstance(value, list):
            resolved = [self.resolve(each) for each in value]
            return [each for each in resolved if each is not _NO_VALUE]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            [(function, given)] = value.items()
            if function == "Ref" or function.startswith("Fn::"):
                return self._call(function, given)
        pairs = ((key, self.resolve(each)) for key, each in value.items())
        return {key: each for key, each in pairs if each is not _NO_VALUE}

    def _call(self, function: str, given: Any) -> Any:
        match function, given:
            case "Ref", str():
                return self._ref(given)
            case "Fn::GetAtt", [logical, attribute]:
                return self.resources[logical].attribute(attribute)
            case "Fn::GetAtt", str():
                logical, _, attribute = given.partition(".")
                return self.resources[logical].attribute(attribute)
            case "Fn::ImportValue", _:
                stack, exported = self.exports[self.resolve(given)]
                return stack.resolve(exported)
            case "Fn::Join", [separator, parts]:
                return str(separator).join(str(each) for each in self.resolve(parts))
            case "Fn::Sub", _:
                return self._substitute(given)
            case "Fn::Select", [index, items]:
                return self.resolve(items)[int(self.resolve(index))]
            case "Fn::Split", [separator, text]:
                return self.resolve(text).split(separator)
            case "Fn::GetAZs", _:
                return list(ZONES)
            case "Fn::Base64", _:
                return base64.b64encode(str(self.resolve(given)).encode()).decode()
            case "Fn::If", [condition, then, otherwise]:
                return self.resolve(then if self._is_wanted(condition) else otherwise)
            case "Fn::FindInMap", [which, first, second]:
                return self.template["Mappings"][which][self.resolve(first)][self.resolve(second)]
            case _:
                raise ValueError(f"the simulator knows no {function} of {given!r} (stack {self.name})")

    def _ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return _NO_VALUE
        if name == "AWS::StackName":
            return self.name
        if name == "AWS::StackId":
            return f"arn:{PARTITION}:cloudformation:{REGION}:{ACCOUNT}:stack/{self.name}/00000000"
        if name in PSEUDO:
            return PSEUDO[name]
        if name in self.resources:
            return self.resources[name].ref
        return self._parameter(name)

    def _parameter(self, name: str) -> Any:
        parameter = self.template["Parameters"][name]
        kind, default = parameter["Type"], parameter["Default"]
        if kind.startswith("AWS::SSM::Parameter::Value"):
            return BOOTSTRAP[default]
        return default.split(",") if kind in ("CommaDelimitedList", "List<Number>") else default

    def _substitute(self, given: Any) -> str:
        text, own = given if isinstance(given, list) else (given, {})

        def value(found: re.Match[str]) -> str:
            name = found[1]
            if name.startswith("!"):
                return f"${{{name[1:]}}}"
            if name in own:
                return str(self.resolve(own[name]))
            logical, dot, attribute = name.partition(".")
            return str(self.resources[logical].attribute(attribute) if dot else self._ref(name))

        return re.sub(r"\$\{([^}]+)\}", value, text)

    def _is_wanted(self, condition: str | None) -> bool:
        return condition is None or self._is_true(self.template["Conditions"][condition])

    def _is_true(self, condition: Any) -> bool:
        [(function, given)] = condition.items()
        match function:
            case "Fn::Equals":
                return bool(self.resolve(given[0]) == self.resolve(given[1]))
            case "Fn::Not":
                return not self._is_true(given[0])
            case "Fn::And":
                return all(self._is_true(each) for each in given)
            case "Fn::Or":
                return any(self._is_true(each) for each in given)
            case "Condition":
                return self._is_wanted(given)
            case _:
                raise ValueError(f"the simulator knows no condition {function} (stack {self.name})")


_NO_VALUE = object()


# -------------------------------------------------------------------------------------------------------------- reading


class _Reader:
    """From resources to what the simulator knows."""

    def __init__(self, templates: Mapping[str, Mapping[str, Any]]) -> None:
        exports: dict[str, tuple[_Stack, Any]] = {}
        self.stacks = [_Stack(name, template, exports) for name, template in templates.items()]

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
            outputs={name: value for stack in self.stacks for name, value in stack.outputs().items()},
        )

    def _all(self, kind: str) -> Iterator[_Resource]:
        for stack in self.stacks:
            yield from (each for each in stack.resources.values() if each.type == kind)

    def _one(self, kind: str) -> Named:
        found = list(self._all(kind))
        if len(found) != 1:
            raise ValueError(f"a yard has one {kind}, not {len(found)}")
        return Named(found[0].name, found[0].arn, found[0].properties)

    def _function(self, function: _Resource) -> FunctionFacts:
        asked = self._invoked.get(function.name, {})
        given = function.properties
        return FunctionFacts(
            name=function.name,
            module=given["Handler"].removesuffix(".handler"),
            environment=given.get("Environment", {}).get("Variables", {}),
            timeout=given.get("Timeout", 3),
            role=given["Role"],
            retries=asked.get("MaximumRetryAttempts", 2),
            max_age=asked.get("MaximumEventAgeInSeconds", 21_600),
        )

    @functools.cached_property
    def _invoked(self) -> dict[str, dict[str, Any]]:
        """By function's name: how it is invoked asynchronously."""
        configs = [each.properties for each in self._all("AWS::Lambda::EventInvokeConfig")]
        return {config["FunctionName"]: config for config in configs}

    def _failure_queues(self) -> dict[str, str]:
        return {
            function: config["DestinationConfig"]["OnFailure"]["Destination"]
            for function, config in self._invoked.items()
            if "OnFailure" in config.get("DestinationConfig", {})
        }

    def _role(self, role: _Resource) -> Role:
        for managed in role.properties.get("ManagedPolicyArns", []):
            if not managed.endswith(OF_AGENTS):
                raise ValueError(f"{role.name} has the policy {managed}, whose document is not known here")
        own = [each["PolicyDocument"] for each in role.properties.get("Policies", [])]
        return Role(
            role.arn,
            role.name,
            role.properties["AssumeRolePolicyDocument"],
            (*own, *self._attached.get(role.name, [])),
        )

    @functools.cached_property
    def _attached(self) -> dict[str, list[Any]]:
        """By role's name: documents of policies that are resources of their own."""
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


def _permission(permission: _Resource) -> Permission:
    given = permission.properties
    if given["Action"] != "lambda:InvokeFunction":
        raise ValueError(f"the simulator knows no permission {given['Action']} ({permission.logical})")
    return Permission(given["FunctionName"], given["Principal"], given.get("SourceArn"))


def _machine(machine: _Resource) -> Machine:
    given = machine.properties
    text = given["DefinitionString"]
    for name, value in given.get("DefinitionSubstitutions", {}).items():
        text = text.replace(f"${{{name}}}", str(value))
    return Machine(machine.arn, machine.name, json.loads(text), given["RoleArn"])


def _rule(rule: _Resource) -> Rule:
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
        raise ValueError(f"the simulator knows no {unknown} of a target")
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


def _document(document: _Resource) -> SsmDocument:
    content = document.properties["Content"]
    if isinstance(content, str):
        raise TypeError(f"the content of {document.logical} is a text: the simulator reads objects only")
    return SsmDocument(document.name, document.properties.get("DocumentType", "Command"), content)


def _subnet(subnet: _Resource) -> Subnet:
    given = subnet.properties
    return Subnet(
        subnet.id,
        given["AvailabilityZone"],
        given["VpcId"],
        given["CidrBlock"],
        gives_public_addresses=bool(given.get("MapPublicIpOnLaunch", False)),
    )
