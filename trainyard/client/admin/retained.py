"""The bucket and the ledger that a yard retained: they outlive its stacks, and a later deployment adopts them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from trainyard.client.errors import Ambiguous
from trainyard.client.session import Session
from trainyard.protocol.tags import Tag
from trainyard.values.quantities import format_count


@dataclass(frozen=True)
class Retained:
    """The resources that an earlier yard of a name retained. A missing one is an empty text."""

    bucket: str = ""
    ledger: str = ""
    rows: int = 0
    """The number of rows in the ledger, which DynamoDB updates every six hours."""
    kms_key: str = ""
    """The ARN of the customer's key that the bucket is encrypted with."""

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings with which a deployment adopts the resources."""
        named = {"bucket": self.bucket, "ledger": self.ledger, "kms_key": self.kms_key}
        return {key: value for key, value in named.items() if value}

    def __str__(self) -> str:
        parts = [f"the bucket {self.bucket}"] if self.bucket else []
        parts += [f"the ledger {self.ledger} ({format_count(self.rows, 'row')})"] if self.ledger else []
        return " and ".join(parts)


def find(session: Session, yard: str, chosen: Sequence[str] = ()) -> Retained:
    """Return the resources that an earlier yard of this name retained in the region.

    `chosen` are names from settings. Raise Ambiguous if there are several of a kind and none is chosen.
    """
    described = {table["TableName"]: table for table in tables(session, yard)}
    bucket = _only("bucket", buckets(session, yard), chosen, yard)
    ledger = _only("ledger", list(described), chosen, yard)
    rows = int(described[ledger]["ItemCount"]) if ledger else 0
    return Retained(bucket, ledger, rows, _key_of(session, bucket) if bucket else "")


def buckets(session: Session, yard: str) -> list[str]:
    """Return the buckets with the yard's tag in the session's region. Another region may have a yard of the
    same name."""
    client = session.client("s3")
    return [
        name
        for name in (str(each["Name"]) for each in client.list_buckets()["Buckets"])
        if _tags("TagSet", client.get_bucket_tagging, Bucket=name).get(Tag.YARD) == yard.lower()
        and (client.head_bucket(Bucket=name).get("BucketRegion") or session.region) == session.region
    ]


def tables(session: Session, yard: str) -> list[dict[str, Any]]:
    """Return DynamoDB's descriptions of the tables with the yard's tag."""
    client = session.client("dynamodb")
    names = [name for page in client.get_paginator("list_tables").paginate() for name in page["TableNames"]]
    described = [client.describe_table(TableName=name)["Table"] for name in names]
    return [
        table
        for table in described
        if _tags("Tags", client.list_tags_of_resource, ResourceArn=table["TableArn"]).get(Tag.YARD)
        == yard.lower()
    ]


def _only(kind: str, names: Sequence[str], chosen: Sequence[str], yard: str) -> str:
    wanted = [name for name in names if name in chosen] or list(names)
    if len(wanted) > 1:
        raise Ambiguous(
            f"earlier yards {yard} have retained {len(wanted)} {kind}s: {', '.join(wanted)}",
            f"a yard has one {kind}, and the right one is unknown; nothing was changed",
            f"add -c {kind}={wanted[-1]} to continue with this one",
        )
    return wanted[0] if wanted else ""


def _key_of(session: Session, bucket: str) -> str:
    client = session.client("s3")
    try:
        found = client.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
    except ClientError as error:
        if error.response["Error"]["Code"] == "ServerSideEncryptionConfigurationNotFoundError":
            return ""
        raise
    keys = [rule["ApplyServerSideEncryptionByDefault"].get("KMSMasterKeyID", "") for rule in found]
    return next(filter(None, keys), "")


def _tags(answered: str, ask: Callable[..., Any], **whom: str) -> dict[str, str]:
    """Return the tags by key. A resource without tags, or one that was deleted meanwhile, has none."""
    try:
        return {tag["Key"]: tag["Value"] for tag in ask(**whom)[answered]}
    except ClientError as error:
        if error.response["Error"]["Code"] in ("NoSuchTagSet", "NoSuchBucket", "ResourceNotFoundException"):
            return {}
        raise
