"""Training hosts: their template and their permissions."""

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.constructs import permissions
from stacks.constructs.hosts import OF_ITSELF, HostRole, HostTemplates, only_from
from stacks.constructs.permissions import secrets
from stacks.constructs.permissions.data_buckets import read_data_buckets
from stacks.constructs.permissions.file_systems import mount_file_systems
from stacks.constructs.permissions.holder import NarrowedRole
from stacks.constructs.permissions.registries import pull_images
from stacks.network import NetworkStack
from stacks.settings import YardSettings
from stacks.storage import StorageStack
from trainyard.protocol import keys, sources
from trainyard.protocol.tags import Tag

ITSELF = "${aws:userid}"
LEFT = tuple(
    f"{folder(keys.ANY, keys.ANY)}{ITSELF}"
    for folder in (keys.copies_of_signals, keys.final_reports, keys.drain_confirmations, keys.working)
)
"""Reports that a host leaves in the bucket in its own name."""
CREDENTIALS = f"{keys.CREDENTIALS}{ITSELF}"
WRITTEN = (
    *(
        written(keys.ANY)
        for written in (
            keys.checkpoints, keys.tensorboard, keys.notebook, keys.model, keys.metrics, keys.all_metrics, keys.outputs,
            keys.outputs_of, keys.predictions, keys.predictions_of,
        )
    ),
    keys.logs(keys.ANY, keys.ANY),
    keys.use(keys.ANY, keys.ANY),
)  # fmt: skip
"""Folders that runs write. job.json, order.json, cluster.json, recipe.json, a bake's tests and everything that the
yard writes about a run are elsewhere."""


class TrainingHost(Construct):
    """The template and one role for all hosts, which may only send their own reports. Hosts use the bucket with the
    credentials of their run (RunRole)."""

    def __init__(
        self,
        scope: cdk.Stack,
        settings: YardSettings,
        network: NetworkStack,
        storage: StorageStack,
        bus: events.IEventBus,
    ) -> None:
        super().__init__(scope, "Host")
        role, bucket = HostRole(self, "Role", description="Permissions of the yard's hosts"), storage.bucket
        permissions.write_objects(role, bucket, *LEFT)
        permissions.read_objects(role, bucket, CREDENTIALS)
        permissions.list_prefixes(role, bucket, CREDENTIALS)
        only_from(role, network.s3_vpc, bucket)
        permissions.allow(role, ["events:PutEvents"], [bus.event_bus_arn], sources.only_from(OF_ITSELF))
        permissions.publish_metrics(role)
        permissions.anywhere(role, "cloudwatch:GetMetricData")
        self.role_id = role.role_id
        self.s3_vpc = network.s3_vpc
        self.templates = HostTemplates(
            self,
            yard=settings.yard,
            image=f"resolve:ssm:{settings.image_parameter}",
            role=role,
            security_group=network.hosts,
            most_rate=settings.volume_initialization_rate,
            key=settings.kms_key,
            tags={
                Tag.BUCKET: bucket.bucket_name,
                Tag.BUS: bus.event_bus_name,
                Tag.ROLE: role.role_id,
            },
        )


class RunRole(NarrowedRole):
    """The permissions of any run in the bucket and for the yard's secrets, limited to one run in each session
    (lambdas/core/run/bucket_access.py)."""

    def __init__(
        self,
        scope: Construct,
        bucket: s3.IBucket,
        settings: YardSettings,
        *,
        taken_by: iam.Role,
        s3_vpc: str | None,
    ) -> None:
        description = "Permissions of runs in the yard's bucket"
        super().__init__(scope, "RunRole", description=description, taken_by=taken_by)
        permissions.read_objects(self, bucket, keys.PROGRAMS, keys.DATA, keys.RUNS, keys.MODELS)
        permissions.write_objects(self, bucket, *WRITTEN)
        permissions.read_versions(self, bucket, keys.outputs(keys.ANY))
        permissions.delete_objects(self, bucket, keys.checkpoints(keys.ANY), keys.outputs(keys.ANY))
        permissions.list_prefixes(self, bucket, keys.PROGRAMS, keys.DATA, keys.RUNS, keys.MODELS)
        read_data_buckets(self, *settings.data_buckets)
        only_from(self, s3_vpc, bucket, *settings.data_buckets)
        secrets.read_secrets(self, settings.yard, settings.kms_key)
        pull_images(self, settings.registries, settings.pull_through)
        mount_file_systems(self, *settings.file_systems)
