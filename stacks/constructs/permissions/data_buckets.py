"""What may be done in buckets that are not the yard's: read. A sentence like those of the package."""

import aws_cdk as cdk

from stacks.constructs.permissions import PREFIX, allow, kms
from stacks.constructs.permissions.holder import Holder
from trainyard.core.model.yard.data_buckets import DataBucket


def read_data_buckets(role: Holder, *places: DataBucket) -> None:
    """Objects of these buckets, or of folders of them, and their names."""
    for place in places:
        bucket = f"arn:{cdk.Aws.PARTITION}:s3:::{place.name}"
        allow(role, ["s3:GetObject"], [f"{bucket}/{place.prefix}*"], because=PREFIX)
        listed = {"StringLikeIfExists": {"s3:prefix": [f"{place.prefix}*"]}}
        allow(role, ["s3:ListBucket"], [bucket], listed)
        kms.use_for_other_objects(role, place.key)
