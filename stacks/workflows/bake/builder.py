"""The host of a bake: its template and its permissions."""

from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from stacks.constructs import packages, permissions
from stacks.constructs.hosts import HostRole, HostTemplates, only_from
from stacks.constructs.permissions.registries import pull_images
from stacks.network import NetworkStack
from stacks.settings import YardSettings
from stacks.storage import StorageStack
from trainyard.protocol import keys
from trainyard.protocol.tags import Tag

END_WITH_THE_LEASE = Path(__file__).with_name("builder.sh")


class Builder(Construct):
    """A host that installs `software`, and powers itself off at the end of its lease."""

    def __init__(
        self, scope: cdk.Stack, settings: YardSettings, network: NetworkStack, storage: StorageStack
    ) -> None:
        super().__init__(scope, "Builder")
        software = packages.software_folder()
        self.software = assets.Asset(
            self,
            "Software",
            path=str(software),
            exclude=packages.NOT_UPLOADED,
            asset_hash=packages.asset_hash(software),
        )
        bucket = storage.bucket
        role = HostRole(self, "Role", description="Permissions of the builder of an image")
        permissions.allow(
            role, ["s3:GetObject"], [self.software.bucket.arn_for_objects(self.software.s3_object_key)]
        )
        permissions.read_objects(role, bucket, keys.recipe(keys.ANY), keys.bake_logs(keys.ANY))
        permissions.write_objects(
            role, bucket, keys.bake_logs(keys.ANY), keys.tests(keys.ANY), keys.sbom(keys.ANY)
        )
        permissions.list_objects(role, bucket, keys.RUNS)
        only_from(role, network.s3_vpc, bucket)
        permissions.publish_metrics(role)
        permissions.anywhere(role, "cloudwatch:GetMetricData")
        pull_images(role, settings.registries, settings.pull_through)
        self.templates = HostTemplates(
            self,
            yard=settings.yard,
            role=role,
            security_group=network.hosts,
            most_rate=settings.volume_initialization_rate,
            key=settings.kms_key,
            tags={Tag.BUCKET: bucket.bucket_name},
            user_data=END_WITH_THE_LEASE.read_text(),
        )
