"""Resources for all other stacks: bucket and ledger, which outlive everything else, notifications and dead letters."""

import json

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stacks.constructs.acknowledge import acknowledge, skip
from stacks.constructs.events import DeadLetterQueue
from stacks.constructs.names import by_name
from stacks.constructs.permissions import account_principal
from stacks.constructs.permissions.kms import key_of
from stacks.settings import YardSettings
from trainyard.core.model.names import BY_MONTH, LISTED
from trainyard.protocol import keys

WHO_READ = "CloudTrail data events show who read what; a second bucket of logs would not."
ENCRYPTED = "AWS's own key, unless the yard has one (kms_key)."


class StorageStack(cdk.Stack):
    """The bucket (jobs, programs, data, runs), the ledger (rows of runs), the topic of notifications, the queue of
    undeliverable events, and the yard's settings. A bucket and a ledger that the settings name exist already, and
    the deployment imports them (ImportExistingResources)."""

    def __init__(self, scope: Construct, settings: YardSettings) -> None:
        super().__init__(
            scope,
            "Storage",
            stack_name=f"{settings.prefix}-Storage",
            description="Trainyard: bucket, ledger, notifications, dead letters",
        )
        keep = cdk.RemovalPolicy.DESTROY if settings.disposable else cdk.RemovalPolicy.RETAIN
        self._key = key_of(self, settings.kms_key)
        self.bucket = self._bucket(keep, settings.bucket)
        self.table = self._ledger(keep, settings.ledger)
        self.topic_arn = self._topic(settings)
        self.queue = DeadLetterQueue(self, "DeadLetterQueue", yard=settings.yard)
        ssm.StringParameter(
            self,
            "Settings",
            parameter_name=settings.settings_parameter,
            string_value=json.dumps(settings.remembered, sort_keys=True),
            description="The settings that differ from the defaults; later deployments keep them",
        )
        cdk.CfnOutput(self, "BucketName", value=self.bucket.bucket_name)
        cdk.CfnOutput(self, "TableName", value=self.table.table_name)

    def _topic(self, settings: YardSettings) -> str:
        """Return the ARN of the topic for ended runs and alarms, for any stack."""
        topic = sns.Topic(
            self, "Notices", topic_name=f"{settings.yard}-notices", enforce_ssl=True, master_key=self._key
        )
        skip(
            topic,
            {
                "CKV_AWS_26": "Notifications contain what summaries contain; with kms_key they are encrypted, too."
            },
        )
        topic.grant_publish(account_principal("cloudwatch.amazonaws.com"))
        if settings.notify:
            topic.add_subscription(subscriptions.EmailSubscription(settings.notify))
        return by_name(self, "sns", f"{settings.yard}-notices")

    def _bucket(self, keep: cdk.RemovalPolicy, name: str) -> s3.Bucket:
        bucket = s3.Bucket(
            self,
            "Bucket",
            bucket_name=name or None,
            encryption=s3.BucketEncryption.KMS if self._key else s3.BucketEncryption.S3_MANAGED,
            encryption_key=self._key,
            bucket_key_enabled=True if self._key else None,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            versioned=True,
            removal_policy=keep,
            lifecycle_rules=[
                s3.LifecycleRule(
                    id="unfinished-uploads", abort_incomplete_multipart_upload_after=cdk.Duration.days(2)
                ),
                s3.LifecycleRule(
                    id="credentials-of-runs",
                    prefix=keys.CREDENTIALS,
                    expiration=cdk.Duration.days(1),
                    noncurrent_version_expiration=cdk.Duration.days(1),
                ),
                s3.LifecycleRule(id="replaced-versions", noncurrent_version_expiration=cdk.Duration.days(30)),
                s3.LifecycleRule(
                    id="replaced-checkpoints-and-logs",
                    prefix=keys.RUNS,
                    noncurrent_version_expiration=cdk.Duration.days(3),
                    expired_object_delete_marker=True,
                ),
            ],
        )
        _announce_objects(bucket)
        acknowledge(bucket, "S1", WHO_READ)
        skip(bucket, {"CKV_AWS_18": WHO_READ})
        return bucket

    def _ledger(self, keep: cdk.RemovalPolicy, name: str) -> dynamodb.Table:
        table = dynamodb.Table(
            self,
            "Ledger",
            table_name=name or None,
            partition_key=dynamodb.Attribute(name="pk", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="sk", type=dynamodb.AttributeType.STRING),
            time_to_live_attribute="expires",
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED
            if self._key
            else dynamodb.TableEncryption.AWS_MANAGED,
            encryption_key=self._key,
            deletion_protection=keep is cdk.RemovalPolicy.RETAIN,
            removal_policy=keep,
        )
        table.add_global_secondary_index(
            index_name=BY_MONTH,
            partition_key=dynamodb.Attribute(name=BY_MONTH, type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="created", type=dynamodb.AttributeType.STRING),
            projection_type=dynamodb.ProjectionType.INCLUDE,
            non_key_attributes=list(LISTED),
        )
        skip(table, {"CKV_AWS_119": ENCRYPTED})
        return table


def _announce_objects(bucket: s3.Bucket) -> None:
    """Send the bucket's events to EventBridge. `event_bridge_enabled=True` would deploy a function with permissions
    on every bucket for that."""
    plain = bucket.node.default_child
    assert isinstance(plain, s3.CfnBucket)
    plain.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
        event_bridge_configuration=s3.CfnBucket.EventBridgeConfigurationProperty(event_bridge_enabled=True)
    )
