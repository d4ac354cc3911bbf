"""Other buckets that the runs of a yard may read, as listed in the setting `data_buckets`."""

import re

from trainyard.values.lazy import dataclass

BUCKET = r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
"""The names that S3 allows for buckets: docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html"""
PLACE = rf"({BUCKET})(?:/([A-Za-z0-9!_.'()/-]*))?(?:=(arn:[^:]+:kms:[a-z0-9-]+:\d{{12}}:key/[0-9a-zA-Z-]+))?"
"""A bucket, a folder in it and the KMS key of its objects, as in `corpus/images/=arn:aws:kms:...`."""


@dataclass(frozen=True)
class DataBucket:
    """A bucket, or a folder of it (`prefix`, which ends in `/`). `key` is the ARN of a KMS key, or empty."""

    name: str
    prefix: str = ""
    key: str = ""

    @classmethod
    def of(cls, text: str) -> "DataBucket":
        """Parse one word of the setting. Raise ValueError for an invalid word."""
        found = re.fullmatch(PLACE, text, re.ASCII)
        if found is None:
            raise ValueError(f"{text} is not a bucket")
        folder = (found[2] or "").strip("/")
        return cls(found[1], f"{folder}/" if folder else "", found[3] or "")

    def holds(self, uri: str) -> bool:
        """Return True if the bucket or folder contains the S3 URI."""
        return uri.startswith(self.uri)

    @property
    def uri(self) -> str:
        return f"s3://{self.name}/{self.prefix}"

    def __str__(self) -> str:
        """Return the bucket as the setting contains it."""
        return f"{self.name}{'/' if self.prefix else ''}{self.prefix}{'=' if self.key else ''}{self.key}"
