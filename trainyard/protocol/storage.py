"""What is billed by the GiB and month, and what it costs where no price list of the region is at hand."""

from collections.abc import Mapping
from enum import StrEnum


class Storage(StrEnum):
    """What is billed by the GiB and month."""

    DISK = "disk"
    """gp3."""
    SNAPSHOT = "snapshot"
    """In the standard tier."""
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
"""Dollars, in the catalogue's region."""
HOURS_A_MONTH = 730
