"""What a host is that trains, and what it may do."""

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.constructs import permissions
from stacks.constructs.hosts import OF_ITSELF, HostRole, HostTemplates, only_from
from stacks.constructs.permissions.data_buckets import read_data_buckets
from stacks.constructs.permissions.holder import NarrowedRole
from stacks.network import NetworkStack
from stacks.settings import YardSettings
from stacks.storage import StorageStack
from trainyard.protocol import keys, sources
from trainyard.protocol.tags import Tag

ITSELF = "${aws:userid}"
LEFT = tuple(
    f"{folder(keys.ANY, keys.ANY)}{ITSELF}"
    for folder in (keys.words, keys.last_words, keys.leaving, keys.working)
)
"""Word that a host leaves of its own, in no other's name."""
CREDENTIALS = f"{keys.CREDENTIALS}{ITSELF}"
WRITTEN = (
    *(
        written(keys.ANY)
        for written in (
            keys.checkpoints, keys.tensorboard, keys.notebook, keys.model, keys.metrics, keys.outputs, keys.outputs_of
        )
    ),
    keys.logs(keys.ANY, keys.ANY),
)  # fmt: skip
"""Where runs write. job.json, order.json, cluster.json, recipe.json, a bake's tests and all that the yard says of a run
are in no such place."""


class TrainingHost(Construct):
    """One role for all hosts, which may speak for themselves and nothing else; the bucket they use by credentials of
    their run (RunRole)."""

    def __init__(
        self,
        scope: cdk.Stack,
        settings: YardSettings,
        network: NetworkStack,
        storage: StorageStack,
        bus: events.IEventBus,
    ) -> None:
        super().__init__(scope, "Host")
        role, bucket = HostRole(self, "Role", description="What hosts of the yard may do"), storage.bucket
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
    """What any run may do in the bucket and read of the yard's secrets; narrowed to one run
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
        description = "What runs of the yard may do in its bucket"
        super().__init__(scope, "RunRole", description=description, taken_by=taken_by)
        permissions.read_objects(self, bucket, keys.PROGRAMS, keys.DATA, keys.RUNS)
        permissions.write_objects(self, bucket, *WRITTEN)
        permissions.read_versions(self, bucket, keys.outputs(keys.ANY))
        permissions.delete_objects(self, bucket, keys.checkpoints(keys.ANY), keys.outputs(keys.ANY))
        permissions.list_prefixes(self, bucket, keys.PROGRAMS, keys.DATA, keys.RUNS)
        read_data_buckets(self, *settings.data_buckets)
        only_from(self, s3_vpc, bucket, *settings.data_buckets)
        permissions.read_secrets(self, settings.yard, settings.kms_key)
