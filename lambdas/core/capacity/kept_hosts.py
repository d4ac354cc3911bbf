"""What the next attempt keeps of the hosts of the last one."""

from enum import StrEnum


class KeptHosts(StrEnum):
    """Which hosts live on into the next attempt."""

    SURVIVORS = "survivors"  # retire only the lost ones, if any, and launch what is missing
    NONE = "none"  # retire all and launch a whole gang
