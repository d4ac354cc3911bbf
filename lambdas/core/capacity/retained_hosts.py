"""Hosts of the last attempt that the next one uses."""

from enum import StrEnum


class RetainedHosts(StrEnum):
    """Hosts that stay for the next attempt."""

    REMAINING = "remaining"  # retire only the lost ones, if any, and launch what is missing
    NONE = "none"  # retire all and launch a whole gang
