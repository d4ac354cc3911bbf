"""Instance types on offer, spot prices, and quotas of the account."""

from collections.abc import Sequence
from datetime import datetime

from lambdas.aws.calls import call_or_none, list_items
from lambdas.aws.clients import client
from trainyard.core.model.errors import ServiceUnavailable


def find_offered(types: Sequence[str]) -> frozenset[tuple[str, str]]:
    """Return the (type, zone) pairs of these types that EC2 offers in this region."""
    found = list_items(
        "ec2",
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=[{"Name": "instance-type", "Values": list(types)}],
    )
    return frozenset((offering["InstanceType"], offering["Location"]) for offering in found)


def spot_prices(types: Sequence[str], *, now: datetime) -> dict[tuple[str, str], float]:
    """Return dollars per hour by (type, zone). For StartTime = now, EC2 returns the last change before it."""
    prices = list_items(
        "ec2",
        "describe_spot_price_history",
        "SpotPriceHistory",
        InstanceTypes=list(types),
        ProductDescriptions=["Linux/UNIX"],
        StartTime=now,
        EndTime=now,
    )
    newest: dict[tuple[str, str], tuple[datetime, float]] = {}
    for price in prices:
        pool = (price["InstanceType"], price["AvailabilityZone"])
        if pool not in newest or newest[pool][0] < price["Timestamp"]:
            newest[pool] = (price["Timestamp"], float(price["SpotPrice"]))
    return {pool: dollars for pool, (_, dollars) in newest.items()}


def vcpu_quota(code: str) -> float | None:
    """Return the vCPUs that the quota allows: the account's own value, else AWS's default. Return None if the quota
    does not exist or Service Quotas is throttled (five requests a second); EC2 enforces its quotas at the launch
    anyway."""
    quotas = client("service-quotas")
    for ask in (quotas.get_service_quota, quotas.get_aws_default_service_quota):
        try:
            answer = call_or_none(["NoSuchResourceException"], ask, ServiceCode="ec2", QuotaCode=code)
        except ServiceUnavailable:
            return None
        if answer:
            return float(answer["Quota"]["Value"])
    return None
