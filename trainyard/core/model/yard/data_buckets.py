"""Buckets beside the yard's own that its runs may read, as the setting `data_buckets` names them."""

import re

from trainyard.values.lazy import dataclass

BUCKET = r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
"""docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html"""
PLACE = rf"({BUCKET})(?:/([A-Za-z0-9!_.'()/-]*))?(?:=(arn:[^:]+:kms:[a-z0-9-]+:\d{{12}}:key/[0-9a-zA-Z-]+))?"
"""A bucket, a folder of it and the KMS key of what lies there, as in `corpus/images/=arn:aws:kms:...`."""


@dataclass(frozen=True)
class DataBucket:
    """A bucket, or a folder of it (`prefix`, which then ends in `/`); `key` is the ARN of a KMS key, "" for none."""

    name: str
    prefix: str = ""
    key: str = ""

    @classmethod
    def of(cls, text: str) -> "DataBucket":
        """What one word of the setting names. Raises ValueError for what is none."""
        found = re.fullmatch(PLACE, text, re.ASCII)
        if found is None:
            raise ValueError(f"{text} names no bucket")
        folder = (found[2] or "").strip("/")
        return cls(found[1], f"{folder}/" if folder else "", found[3] or "")

    def holds(self, uri: str) -> bool:
        """Whether the object or folder of that S3 URI is in it."""
        return uri.startswith(self.uri)

    @property
    def uri(self) -> str:
        return f"s3://{self.name}/{self.prefix}"

    def __str__(self) -> str:
        """As the setting says it."""
        return f"{self.name}{'/' if self.prefix else ''}{self.prefix}{'=' if self.key else ''}{self.key}"
