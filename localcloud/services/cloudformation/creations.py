"""Checks of the names of new resources: an existing name fails the resource, and generated names never repeat.

ministack overwrites most resources of the same name, and derives a generated name only from stack and logical id. A
stack that is created again would then overwrite resources that its predecessor retained.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from ministack.core.responses import get_account_id
from ministack.services import (
    cloudwatch,
    cloudwatch_logs,
    dynamodb,
    ecr,
    eventbridge,
    iam,
    lambda_svc,
    s3,
    sns,
    sqs,
    ssm,
    stepfunctions,
)
from ministack.services.cloudformation import provisioners

from localcloud.patches import MINISTACK

CREATE = "services.cloudformation.stacks:_provision_resource"
DEPLOY = "services.cloudformation.changesets:_deploy_stack_async"
CONFLICT = "services.cloudformation.provisioners:s3_bucket_name_conflict"
Properties = Mapping[str, Any]

_imported: ContextVar[frozenset[str]] = ContextVar("imported_buckets", default=frozenset())
"""Buckets that the current change set imports."""


def install() -> None:
    """Check each resource before a stack creates it. Imports of existing resources are exempt."""
    import_buckets()
    stock = MINISTACK.stock(CREATE)

    def create(kind: str, logical_id: str, properties: Properties, stack: str) -> Any:
        refuse_existing(kind, properties)
        if not provisioners._NAME_SEED.get():
            provisioners._NAME_SEED.set(
                uuid.uuid4().hex[:8]
            )  # the caller stores the name with the resource's record
        return stock(kind, logical_id, properties, stack)

    MINISTACK.replace(CREATE, create)


def import_buckets() -> None:
    """Let a change set with ImportExistingResources import a bucket. ministack's validation would report a conflict."""
    stock_deploy, stock_conflict = MINISTACK.stock(DEPLOY), MINISTACK.stock(CONFLICT)

    async def deploy(*given: Any, imports: Mapping[str, Properties] | None = None, **named: Any) -> None:
        names = [str(identifier.get("BucketName", "")) for identifier in (imports or {}).values()]
        _imported.set(frozenset(names))
        await stock_deploy(*given, imports=imports, **named)

    def conflict(name: str) -> str | None:
        return None if name in _imported.get() else stock_conflict(name)

    MINISTACK.replace(DEPLOY, deploy)
    MINISTACK.replace(CONFLICT, conflict)


def refuse_existing(kind: str, properties: Properties) -> None:
    """Raise ValueError in AWS's words if a resource of this type already has the name in the template."""
    if kind not in NAMED:
        return
    key, exists = NAMED[kind]
    name = properties.get(key)
    if name and exists(str(name), properties):
        raise ValueError(f"Resource of type '{kind}' with identifier '{name}' already exists.")


def _policy(name: str, properties: Properties) -> bool:
    path = properties.get("Path", "/")
    return f"arn:aws:iam::{get_account_id()}:policy{path}{name}" in iam._policies


def _rule(name: str, properties: Properties) -> bool:
    bus = str(properties.get("EventBusName") or "default").rpartition("/")[2]
    return eventbridge._rule_key(name, bus) in eventbridge._rules


def _has(store: str, module: Any) -> Callable[[str, Properties], bool]:
    """Return a check for a store with names as keys."""
    return lambda name, _: name in getattr(module, store)


def _is_end_of_arn(store: str, module: Any) -> Callable[[str, Properties], bool]:
    """Return a check for a store with ARNs as keys that end with the resource's name."""
    return lambda name, _: any(arn.rpartition(":")[2] == name for arn in getattr(module, store))


NAMED: Mapping[str, tuple[str, Callable[[str, Properties], bool]]] = {
    "AWS::CloudWatch::Alarm": ("AlarmName", _has("_alarms", cloudwatch)),
    "AWS::CloudWatch::Dashboard": ("DashboardName", _has("_dashboards", cloudwatch)),
    "AWS::DynamoDB::Table": ("TableName", _has("_tables", dynamodb)),
    "AWS::ECR::Repository": ("RepositoryName", _has("_repositories", ecr)),
    "AWS::Events::EventBus": ("Name", _has("_event_buses", eventbridge)),
    "AWS::Events::Rule": ("Name", _rule),
    "AWS::IAM::InstanceProfile": ("InstanceProfileName", _has("_instance_profiles", iam)),
    "AWS::IAM::ManagedPolicy": ("ManagedPolicyName", _policy),
    "AWS::IAM::Role": ("RoleName", _has("_roles", iam)),
    "AWS::Lambda::Function": ("FunctionName", _has("_functions", lambda_svc)),
    "AWS::Logs::LogGroup": ("LogGroupName", _has("_log_groups", cloudwatch_logs)),
    "AWS::S3::Bucket": ("BucketName", lambda name, _: s3._bucket_owner_account(name) is not None),
    "AWS::SNS::Topic": ("TopicName", _is_end_of_arn("_topics", sns)),
    "AWS::SQS::Queue": ("QueueName", _has("_queue_name_to_url", sqs)),
    "AWS::SSM::Parameter": ("Name", _has("_parameters", ssm)),
    "AWS::StepFunctions::StateMachine": (
        "StateMachineName",
        _is_end_of_arn("_state_machines", stepfunctions),
    ),
}
"""For each resource type: the naming property and a check for existing names.

EC2 and SSM documents check in their APIs.
"""
