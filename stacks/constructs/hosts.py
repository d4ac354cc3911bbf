"""What a host is when it starts, and what it may do: launch templates and instance role."""

import base64
from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from lambdas.core.capacity import initialization
from stacks.constructs.acknowledge import acknowledge
from trainyard.core.model.yard.data_buckets import DataBucket
from trainyard.protocol import sources
from trainyard.protocol.tags import Tag

OF_ITSELF = f"{sources.HOSTS}${{aws:userid}}"
"""What a host puts on the yard's bus comes from it and no other: IAM knows a host as `<id of its role>:<instance>`."""


class HostRole(iam.Role):
    """A role for instances that Systems Manager may manage, and that may do nothing else yet."""

    def __init__(self, scope: Construct, name: str, *, description: str) -> None:
        super().__init__(
            scope,
            name,
            assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"),
            description=description,
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name("AmazonSSMManagedInstanceCore")],
        )
        self.add_to_policy(
            iam.PolicyStatement(
                effect=iam.Effect.DENY, actions=["ssm:GetParameter", "ssm:GetParameters"], resources=["*"]
            )
        )
        acknowledge(
            self,
            "IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/AmazonSSMManagedInstanceCore]",
            "AWS keeps the agent's permissions current; what it has too many, reading parameters, is denied.",
        )
        self.profile = iam.CfnInstanceProfile(self, "Profile", roles=[self.role_name])


def only_from(role: iam.Role, vpc: str | None, bucket: s3.IBucket, *others: DataBucket) -> None:
    """What it may in these buckets it may through that VPC's endpoint for S3: its credentials are of no use elsewhere.
    A key that a request lacks is not equal to anything (IAM User Guide, "Condition operators")."""
    if vpc:
        read = [f"arn:{cdk.Aws.PARTITION}:s3:::{each}" for each in sorted({other.name for other in others})]
        role.add_to_policy(
            iam.PolicyStatement(
                effect=iam.Effect.DENY,
                actions=["s3:*"],
                resources=[
                    bucket.bucket_arn,
                    bucket.arn_for_objects("*"),
                    *(each for name in read for each in (name, f"{name}/*")),
                ],
                conditions={"StringNotEquals": {"aws:SourceVpc": vpc}},
            )
        )


class HostTemplates:
    """A launch template for each rate at which a root disk may be fetched from its snapshot, since no request can say
    it: 0 (as its blocks are touched), and those in MiB/s up to `most_rate`. In all else they are the same.

    `image` is what a request starts from that names none. `user_data` is a script that the host runs at its first boot.
    The disk is encrypted with `key`, the ARN of a KMS key; without one, with the account's own.
    """

    def __init__(self, scope: Construct, *, role: HostRole, most_rate: int, **more: Any) -> None:
        self.role = role
        rates = (0, *(rate for rate in sorted(initialization.RATES) if rate <= most_rate))
        self._of_rate = {
            rate: _HostTemplate(scope, f"Template{rate or ''}", role=role, rate=rate, **more)
            for rate in rates
        }

    @property
    def ids(self) -> list[str]:
        return [template.ref for template in self._of_rate.values()]

    @property
    def setting(self) -> str:
        """As functions read them: `rate=id:version`, one after the other, by commas."""
        return ",".join(
            f"{rate}={template.ref}:{template.attr_latest_version_number}"
            for rate, template in self._of_rate.items()
        )


class _HostTemplate(ec2.CfnLaunchTemplate):
    """Encrypted disk, metadata by token only, no key pair, gone when it shuts itself down, tagged as the yard's.

    It names no market and no size of the disk, so that a request may choose them; a disk is as large as its image's.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        yard: str,
        role: HostRole,
        security_group: ec2.ISecurityGroup,
        rate: int,
        key: str,
        tags: Mapping[str, str],
        image: str | None = None,
        user_data: str | None = None,
    ) -> None:
        yard_tag = cdk.CfnTag(key=Tag.YARD, value=yard)
        super().__init__(
            scope,
            name,
            tag_specifications=[
                self.LaunchTemplateTagSpecificationProperty(resource_type="launch-template", tags=[yard_tag])
            ],
            launch_template_data=self.LaunchTemplateDataProperty(
                image_id=image,
                iam_instance_profile=self.IamInstanceProfileProperty(arn=role.profile.attr_arn),
                instance_initiated_shutdown_behavior="terminate",
                user_data=base64.b64encode(user_data.encode()).decode() if user_data else None,
                security_group_ids=[security_group.security_group_id],
                metadata_options=self.MetadataOptionsProperty(
                    http_endpoint="enabled",
                    http_tokens="required",
                    http_put_response_hop_limit=1,
                    instance_metadata_tags="enabled",
                ),
                block_device_mappings=[
                    self.BlockDeviceMappingProperty(
                        device_name="/dev/sda1",
                        ebs=self.EbsProperty(
                            encrypted=True,
                            kms_key_id=key or None,
                            volume_type="gp3",
                            volume_initialization_rate=rate or None,
                            delete_on_termination=True,
                        ),
                    )
                ],
                tag_specifications=[
                    self.TagSpecificationProperty(
                        resource_type="instance",
                        tags=[yard_tag, *(cdk.CfnTag(key=key, value=value) for key, value in tags.items())],
                    ),
                    self.TagSpecificationProperty(resource_type="volume", tags=[yard_tag]),
                    self.TagSpecificationProperty(resource_type="network-interface", tags=[yard_tag]),
                ],
            ),
        )
