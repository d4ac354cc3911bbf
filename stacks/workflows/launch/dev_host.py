"""What is done on a dev host in its owner's name."""

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from lambdas.core.edges.events import OF_PEOPLE
from stacks.constructs import permissions
from stacks.constructs.hosts import only_from
from stacks.constructs.permissions.people import look, put_events, send_jobs, stop_at_once
from stacks.settings import YardSettings
from trainyard.core.model import submitter


class DevHostRole(iam.Role):
    """Look at all, send jobs, have runs save and stop: what users may, but for secrets, hosts and launches. Whoever
    takes it narrows it to the owner's name (lambdas/core/images/dev.py)."""

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
        super().__init__(
            scope,
            "DevHostRole",
            assumed_by=iam.ArnPrincipal(taken_by.role_arn),
            description="What is done on dev hosts of the yard in their owners' names",
        )
        look(self, settings, bucket, table)
        send_jobs(self, bucket, submitter.FOLDER)
        put_events(self, settings.yard, f"{OF_PEOPLE}*")
        stop_at_once(self, settings.yard, "train")
        only_from(self, s3_vpc, bucket)
        permissions.allow(taken_by, ["sts:AssumeRole"], [self.role_arn])
