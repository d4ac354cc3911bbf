"""Launch templates and the instance role of hosts."""

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
"""The source of a host's events. IAM identifies a host as `<id of its role>:<instance>`, so no host can send in the
name of another."""


class HostRole(iam.Role):
    """A role for instances under Systems Manager, without any other permission so far."""

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
            "AWS keeps the agent's permissions current; its superfluous one, reading parameters, is denied.",
        )
        self.profile = iam.CfnInstanceProfile(self, "Profile", roles=[self.role_name])


def only_from(role: iam.Role, vpc: str | None, bucket: s3.IBucket, *others: DataBucket) -> None:
    """Limit the role's access to these buckets to the S3 endpoint of that VPC, so that its credentials are useless
    elsewhere. A key that a request lacks matches no value (IAM User Guide, "Condition operators")."""
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
    """A launch template for each initialization rate of root disks, because a request cannot set it: 0 (blocks are
    fetched when read), and rates in MiB/s up to `most_rate`. The templates are otherwise equal. `image` is the
    default image. `user_data` is a script for the first boot. `key` is the ARN of the KMS key for the disk; default:
    the account's key."""

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
        """Return the templates as functions read them: `rate=id:version`, separated by commas."""
        return ",".join(
            f"{rate}={template.ref}:{template.attr_latest_version_number}"
            for rate, template in self._of_rate.items()
        )


class _HostTemplate(ec2.CfnLaunchTemplate):
    """A template: encrypted disk, metadata by token only, no key pair, terminated on shutdown, the yard's tag.
    Requests choose the market and the disk's size, which is the image's by default."""

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
