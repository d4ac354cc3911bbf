"""Read-only permissions in buckets outside the yard."""

import aws_cdk as cdk

from stacks.constructs.permissions import PREFIX, allow, kms
from stacks.constructs.permissions.holder import Holder
from trainyard.core.model.yard.data_buckets import DataBucket


def read_data_buckets(role: Holder, *buckets: DataBucket) -> None:
    """Allow reading and listing objects in these buckets or folders."""
    for each in buckets:
        bucket = f"arn:{cdk.Aws.PARTITION}:s3:::{each.name}"
        allow(role, ["s3:GetObject"], [f"{bucket}/{each.prefix}*"], because=PREFIX)
        listed = {"StringLikeIfExists": {"s3:prefix": [f"{each.prefix}*"]}}
        allow(role, ["s3:ListBucket"], [bucket], listed)
        kms.use_for_other_objects(role, each.key)
