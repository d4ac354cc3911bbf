"""Permissions of a function, from the sentences that it declares (`NEEDS`, lambdas/needs.py)."""

from dataclasses import dataclass
from typing import assert_never

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from lambdas.needs import Grant
from stacks.constructs import permissions
from stacks.constructs.hosts import HostTemplates
from stacks.constructs.names import by_name
from stacks.constructs.permissions import hosts, kms, launches, models, secrets
from stacks.constructs.permissions.data_buckets import read_data_buckets
from stacks.constructs.permissions.file_systems import look_up_file_systems
from stacks.constructs.permissions.holder import Condition
from stacks.constructs.permissions.registries import read_images
from stacks.settings import YardSettings
from trainyard.core.model.names import SERVICE_LINKED_ROLES

SCHEDULES = "Schedules exist only later; the group limits them to this yard."
BY_NAME = "Executions exist only later; the name limits them to this workflow of the yard."


@dataclass(frozen=True)
class Launching:
    """The launch templates and the network of a function that launches hosts."""

    templates: HostTemplates
    network: list[str]


@dataclass(frozen=True)
class Granting:
    """A role, and the parts of the yard that it may use."""

    role: iam.Role
    settings: YardSettings
    bucket: s3.IBucket
    table: dynamodb.ITable
    launching: Launching | None

    def grant(self, given: Grant) -> None:
        role, settings, on = self.role, self.settings, given.on
        yard, key = settings.yard, settings.kms_key
        match given.sentence:
            case "act on hosts":
                hosts.act_on_hosts(role, yard, *on)
            case "answer tasks":
                permissions.answer_tasks(role, *on)
            case "call":
                permissions.anywhere(role, *on)
            case "delete objects":
                permissions.delete_objects(role, self.bucket, *on)
            case "describe executions":
                permissions.allow(role, ["states:DescribeExecution"], self._executions(on), because=BY_NAME)
            case "image hosts":
                hosts.image_hosts(role, yard, key=key)
            case "invoke functions":
                permissions.allow(role, ["lambda:InvokeFunction"], self._named("lambda", "function", on))
            case "keep disks":
                hosts.keep_disks(role, yard)
            case "keep schedules":
                self._keep_schedules()
            case "launch hosts of any image":
                self._launch(None)
            case "launch hosts of the yard's images":
                self._launch(permissions.require_tag(yard))
            case "list executions":
                permissions.allow(role, ["states:ListExecutions"], self._machines(on))
            case "list objects":
                permissions.list_objects(role, self.bucket, *on)
            case "make service-linked roles":
                self._make_service_linked_roles()
            case "mark hosts":
                hosts.mark_hosts(role, yard, *on)
            case "plan launches":
                launches.plan_launches(role)
            case "read and list objects":
                permissions.read_objects(role, self.bucket, *on)
                permissions.list_objects(role, self.bucket, *on)
            case "read data buckets":
                read_data_buckets(role, *settings.data_buckets)
            case "read file systems":
                look_up_file_systems(role, *settings.file_systems)
            case "read objects":
                permissions.read_objects(role, self.bucket, *on)
            case "read parameters of base images":
                for name in _base_image_parameters(settings):
                    permissions.read_parameters(role, name, "ssm:GetParameter")
            case "read registries":
                read_images(role, settings.registries, settings.pull_through)
                if any(not each.is_ecr for each in settings.registries):
                    secrets.read_secrets(role, yard, key)
            case "read registries without logins":
                read_images(role, settings.registries, settings.pull_through)
            case "read versions":
                permissions.read_versions(role, self.bucket, *on)
            case "retire images":
                hosts.retire_images(role, yard)
            case "read webhooks":
                secrets.read_webhooks(role, yard, key)
            case "run documents":
                hosts.command_hosts(role, yard, *on)
            case "send dead letters":
                permissions.allow(role, ["sqs:SendMessage"], [by_name(role, "sqs", f"{yard}-dead-letters")])
            case "send notifications":
                permissions.allow(role, ["sns:Publish"], [topic_arn(role, yard)])
                kms.use_for_notifications(role, key)
            case "start executions":
                permissions.allow(role, ["states:StartExecution"], self._machines(on))
            case "start hosts":
                hosts.start_hosts(role, yard, key=key)
            case "stop executions":
                permissions.allow(role, ["states:StopExecution"], self._executions(on), because=BY_NAME)
            case "upload the recipe":
                permissions.write_objects(role, self.bucket, settings.recipe_key)
                permissions.read_versions(role, self.bucket, settings.recipe_key)
            case "use the image parameter":
                self._use_parameters(on, settings.image_parameter)
            case "use the image parameters":
                self._use_parameters(on, settings.image_parameter, settings.previous_image_parameter)
            case "read models":
                models.read_models(role, self.table, *on)
            case "use the ledger":
                permissions.use_ledger(role, self.table, *on)
            case "write objects":
                permissions.write_objects(role, self.bucket, *on)
            case _:
                assert_never(given.sentence)

    def _named(self, service: str, resource: str, words: tuple[str, ...], more: str = "") -> list[str]:
        return [by_name(self.role, service, resource, f"{self.settings.yard}-{word}{more}") for word in words]

    def _machines(self, words: tuple[str, ...]) -> list[str]:
        return self._named("states", "stateMachine", words)

    def _executions(self, words: tuple[str, ...]) -> list[str]:
        return self._named("states", "execution", words, ":*")

    def _use_parameters(self, calls: tuple[str, ...], *names: str) -> None:
        for name in names:
            permissions.read_parameters(self.role, name, *(f"ssm:{call}" for call in calls))

    def _launch(self, images: Condition | None) -> None:
        assert self.launching is not None, "a function that launches hosts needs launch templates"
        launches.launch_hosts(
            self.role,
            template_ids=self.launching.templates.ids,
            network=self.launching.network,
            pass_role=self.launching.templates.role,
            yard=self.settings.yard,
            images=images,
        )
        kms.use_for_volumes(self.role, self.settings.kms_key)

    def _keep_schedules(self) -> None:
        yard = self.settings.yard
        made = cdk.Stack.of(self.role).format_arn(
            service="scheduler", resource="schedule", resource_name=f"{yard}/*"
        )
        calls = [f"scheduler:{call}Schedule" for call in ("Create", "Update", "Delete")]
        permissions.allow(self.role, calls, [made], because=SCHEDULES)
        to_scheduler = {"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}}
        permissions.allow(self.role, ["iam:PassRole"], [schedule_role_arn(self.settings)], to_scheduler)

    def _make_service_linked_roles(self) -> None:
        roles = {
            service: f"arn:{cdk.Aws.PARTITION}:iam::{cdk.Aws.ACCOUNT_ID}:role/aws-service-role/{service}/{name}"
            for service, name in SERVICE_LINKED_ROLES.items()
        }
        for service, arn in roles.items():
            when = {"StringEquals": {"iam:AWSServiceName": service}}
            permissions.allow(self.role, ["iam:CreateServiceLinkedRole"], [arn], when)
        kms.grant(self.role, self.settings.kms_key, list(roles.values()))


def schedule_role_name(settings: YardSettings) -> str:
    """Return the name of the role that EventBridge Scheduler takes to start runs. IAM is global, so the name contains
    the region."""
    return f"{settings.yard}-schedules-{cdk.Aws.REGION}"


def schedule_role_arn(settings: YardSettings) -> str:
    return f"arn:{cdk.Aws.PARTITION}:iam::{cdk.Aws.ACCOUNT_ID}:role/{schedule_role_name(settings)}"


def topic_arn(scope: Construct, yard: str) -> str:
    """Return the ARN of the yard's topic, for any stack."""
    return by_name(scope, "sns", f"{yard}-notices")


def _base_image_parameters(settings: YardSettings) -> list[str]:
    """Return the parameters that may name base images: public ones of AWS, the yard's own, the one in the settings."""
    public, own, named = "/aws/service/", f"/{settings.yard}/", settings.base_image_parameter
    return [f"{public}*", f"{own}*", *([] if named.startswith((public, own)) else [named])]
