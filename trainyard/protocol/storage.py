"""The kinds of storage that are billed by the GiB and month, with their usual prices, and the price of requests."""

from collections.abc import Mapping
from enum import StrEnum


class Storage(StrEnum):
    """The kinds of storage that are billed by the GiB and month."""

    DISK = "disk"
    """A gp3 volume."""
    SNAPSHOT = "snapshot"
    """A snapshot in the standard tier."""
    BUCKET = "bucket"
    TABLE = "table"
    LOGS = "logs"


GIB_MONTH: Mapping[Storage, float] = {
    Storage.DISK: 0.08,
    Storage.SNAPSHOT: 0.05,
    Storage.BUCKET: 0.023,
    Storage.TABLE: 0.25,
    Storage.LOGS: 0.03,
}
"""Dollars in the catalog's region."""
GET_DOLLARS = 0.40 / 1_000_000
"""The price of a GET request to S3 (aws.amazon.com/s3/pricing, us-east-1)."""
HOURS_A_MONTH = 730
