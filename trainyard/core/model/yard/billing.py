"""The cost of one host, computed once for the bill of its run, the month of its yard, and the views of a run. Pure."""

from trainyard.protocol.storage import HOURS_A_MONTH

LEAST_SECONDS = 60.0
"""EC2 bills Linux by the second, at least one minute."""


def billed_hours(seconds: float) -> float:
    """Return the hours that EC2 bills for a host that ran for these seconds."""
    return max(seconds, LEAST_SECONDS) / 3600


def disk_hour(gib: int, gib_month: float) -> float:
    """Return the dollars an hour of a disk, which is billed by the second, too."""
    return gib * gib_month / HOURS_A_MONTH


def host_dollars(
    seconds: float, price: float, *, disk_gib: int, gib_month: float, volume_charge: float
) -> float:
    """Return the cost of a host that ran for these seconds.

    `price` is dollars an hour of the instance, `gib_month` dollars for a GiB of its disk and a month, `volume_charge`
    dollars once for the rate at which the disk was initialized.
    """
    return billed_hours(seconds) * (price + disk_hour(disk_gib, gib_month)) + volume_charge
