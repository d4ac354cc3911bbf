"""Permissions of a dev host in its owner's name."""

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.constructs.hosts import only_from
from stacks.constructs.permissions.holder import NarrowedRole
from stacks.constructs.permissions.people import look, put_events, send_jobs, stop_at_once
from stacks.settings import YardSettings
from trainyard.protocol import keys, sources


class DevHostRole(NarrowedRole):
    """A role with the permissions of users, except secrets, hosts and launches: viewing, submitting jobs, stopping
    runs. Each session is limited to the owner's name (lambdas/core/images/dev.py)."""

    def __init__(
        self,
        scope: Construct,
        bucket: s3.IBucket,
        table: dynamodb.ITable,
        settings: YardSettings,
        *,
        taken_by: iam.Role,
        s3_vpc: str | None,
    ) -> None:
        description = "Permissions of dev hosts in their owners' names"
        super().__init__(scope, "DevHostRole", description=description, taken_by=taken_by)
        look(self, settings, bucket, table)
        send_jobs(self, bucket, keys.ANY)
        put_events(self, settings.yard, f"{sources.PEOPLE}*")
        stop_at_once(self, settings.yard, "train")
        only_from(self, s3_vpc, bucket)
