"""What a host is that trains, and what it may do."""

import aws_cdk as cdk
from aws_cdk import aws_events as events
from constructs import Construct

from stacks.constructs import permissions
from stacks.constructs.hosts import OF_ITSELF, HostRole, HostTemplates
from stacks.network import NetworkStack
from stacks.settings import YardSettings
from stacks.storage import StorageStack

ITSELF = "${aws:userid}"
WRITTEN = (
    *(f"runs/*/{each}" for each in ("checkpoints/", "tensorboard/", "model/", "metrics.json")),
    "runs/*/attempts/*/logs/",
    *(f"runs/*/attempts/*/{each}/{ITSELF}" for each in ("words", "last-words", "leaving")),
)
"""Where hosts write, of their own word in no other's name. job.json, order.json, cluster.json, recipe.json, a bake's
tests and all that the yard says of a run are in no such place."""


class TrainingHost(Construct):
    """One role for all hosts. What the yard tells them and what it makes of a run, they can only read."""

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
        permissions.read_objects(role, bucket, "programs/", "data/", "runs/")
        permissions.write_objects(role, bucket, *WRITTEN)
        permissions.delete_objects(role, bucket, "runs/*/checkpoints/")
        permissions.list_objects(role, bucket, "programs/", "data/", "runs/")
        permissions.allow(
            role, ["events:PutEvents"], [bus.event_bus_arn], {"StringEquals": {"events:source": OF_ITSELF}}
        )
        permissions.publish_metrics(role)
        permissions.anywhere(role, "cloudwatch:GetMetricData")
        self.templates = HostTemplates(
            self,
            yard=settings.yard,
            image=f"resolve:ssm:{settings.image_parameter}",
            role=role,
            security_group=network.hosts,
            most_rate=settings.volume_initialization_rate,
            key=settings.kms_key,
            tags={
                "trainyard:bucket": bucket.bucket_name,
                "trainyard:bus": bus.event_bus_name,
                "trainyard:role": role.role_id,
            },
        )
