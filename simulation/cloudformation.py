"""Resolve a template as CloudFormation does: generate names, ids and ARNs, and replace all references."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simulation.aws import iam
from simulation.aws.endpoint.api import ACCOUNT, PARTITION, REGION
from simulation.aws.eventbridge import DEFAULT_BUS

ZONES = tuple(f"{REGION}{letter}" for letter in "abcdef")
BOOTSTRAP = {"/cdk-bootstrap/hnb659fds/version": "27"}
"""Parameters of Systems Manager that exist before anything is deployed."""
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
"""The property with a resource's own name. CloudFormation generates a name if it is missing."""
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
SHORT = {"AWS::S3::Bucket": 63, "AWS::IAM::Role": 64}
"""The longest generated names, in characters."""


@dataclass(frozen=True)
class Resource:
    stack: Stack
    logical: str
    type: str
    raw: Mapping[str, Any]

    @functools.cached_property
    def properties(self) -> dict[str, Any]:
        resolved: dict[str, Any] = self.stack.resolve(self.raw.get("Properties", {}))
        return resolved

    @functools.cached_property
    def name(self) -> str:
        """Return the resource's own name, or one generated from the stack, the logical id and twelve characters."""
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
        """Return the id that EC2 gives the resource."""
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
        """Return the name of a rule's event bus."""
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
                return "nothing had to be done"
            case _:
                raise ValueError(f"the simulator has no attribute {name} of {self.type} ({self.logical})")

    @functools.cached_property
    def _digest(self) -> bytes:
        return hashlib.sha256(f"{self.stack.name}/{self.logical}".encode()).digest()


@dataclass
class Stack:
    name: str
    template: Mapping[str, Any]
    exports: dict[str, tuple[Stack, Any]]
    """The exported values of all stacks with their stack, before references are resolved."""

    def __post_init__(self) -> None:
        self.resources: dict[str, Resource] = {}  # no condition may refer to one
        self.resources = {
            logical: Resource(self, logical, raw["Type"], raw)
            for logical, raw in self.template.get("Resources", {}).items()
            if self._is_wanted(raw.get("Condition"))
        }
        for output in self.template.get("Outputs", {}).values():
            if "Export" in output and self._is_wanted(output.get("Condition")):
                self.exports[self.resolve(output["Export"]["Name"])] = (self, output["Value"])

    def outputs(self) -> dict[str, str]:
        """Return the outputs that are not exports to other stacks."""
        return {
            name: str(self.resolve(output["Value"]))
            for name, output in self.template.get("Outputs", {}).items()
            if "Export" not in output and self._is_wanted(output.get("Condition"))
        }

    def resolve(self, value: Any) -> Any:
        """Return the value with all references replaced."""
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
                raise ValueError(f"the simulator cannot resolve {function} of {given!r} (stack {self.name})")

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
                raise ValueError(
                    f"the simulator cannot evaluate the condition {function} (stack {self.name})"
                )


_NO_VALUE = object()
