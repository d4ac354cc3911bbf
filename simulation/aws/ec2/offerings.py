"""Subnets, instance types by zone, and spot prices."""

from __future__ import annotations

from datetime import datetime

from simulation.aws.ec2.lifecycle import Lifecycle
from simulation.aws.ec2.model import Subnet
from simulation.aws.ec2.requests import exact, expect, filters_of, fits, page, unknown_ids
from simulation.aws.endpoint.api import ACCOUNT, Answer, Caller, Request, ServiceError, Structure
from simulation.aws.endpoint.parameters import with_token

LINUX = "Linux/UNIX"


class OfferingCalls(Lifecycle):
    """EC2's read-only operations on subnets, types and prices."""

    def describe_subnets(self, caller: Caller, request: Request) -> Answer:
        expect(request, "SubnetIds", "MaxResults", "NextToken")
        ids = request.get("SubnetIds") or list(self.subnets)
        unknown = [each for each in ids if each not in self.subnets]
        if unknown:
            raise unknown_ids("subnet", unknown)
        rows, token = page([self.subnets[each] for each in dict.fromkeys(ids)], request, self.settings.page)
        return with_token({"Subnets": [self._subnet(each) for each in rows]}, token)

    def describe_instance_type_offerings(self, caller: Caller, request: Request) -> Answer:
        expect(request, "LocationType", "Filters", "MaxResults", "NextToken")
        if request.get("LocationType") != "availability-zone":
            raise ServiceError("NotSimulated", "EC2 simulates the LocationType availability-zone only")
        wanted = filters_of(request, {"instance-type", "location"})
        types, zones = wanted.get("instance-type", ["*"]), wanted.get("location", ["*"])
        every = sorted(set(types) if exact(types) else self.catalogue.types)
        offered = [
            {"InstanceType": name, "LocationType": "availability-zone", "Location": zone}
            for name in every
            for zone in self.catalogue.zones
            if fits(name, types) and fits(zone, zones) and self.catalogue.is_offered(name, zone)
        ]
        rows, token = page(offered, request, self.settings.page)
        return with_token({"InstanceTypeOfferings": list(rows)}, token)

    def describe_spot_price_history(self, caller: Caller, request: Request) -> Answer:
        """Return the price changes from StartTime to EndTime, newest first, and the last change before for each
        capacity pool."""
        expect(
            request, "InstanceTypes", "ProductDescriptions", "StartTime", "EndTime", "MaxResults", "NextToken"
        )
        if request.get("ProductDescriptions") != [LINUX] or not request.get("InstanceTypes"):
            raise ServiceError("NotSimulated", f"EC2 simulates spot prices of named types and {LINUX} only")
        now = self.world.now
        first, last = request.get("StartTime") or now, request.get("EndTime") or now
        found = [
            {
                "InstanceType": name,
                "AvailabilityZone": zone,
                "ProductDescription": LINUX,
                "SpotPrice": f"{dollars:.6f}",
                "Timestamp": at,
            }
            for name in dict.fromkeys(request["InstanceTypes"])
            for zone in self.catalogue.zones
            if self.catalogue.is_offered(name, zone)
            for at, dollars in _between(self.catalogue.spot_changes(name, zone, self.beginning), first, last)
        ]
        rows, token = page(found, request, self.settings.page)
        return with_token({"SpotPriceHistory": list(rows)}, token)

    def _subnet(self, subnet: Subnet) -> Structure:
        return {
            "SubnetId": subnet.id,
            "VpcId": subnet.vpc,
            "AvailabilityZone": subnet.zone,
            "AvailabilityZoneId": self.catalogue.zones.get(subnet.zone, ""),
            "CidrBlock": subnet.cidr,
            "AvailableIpAddressCount": subnet.free,
            "State": "available",
            "OwnerId": ACCOUNT,
        }


def _between(
    changes: list[tuple[datetime, float]], first: datetime, last: datetime
) -> list[tuple[datetime, float]]:
    before = [change for change in changes if change[0] <= first][-1:]
    within = [change for change in changes if first < change[0] <= last]
    return [*reversed(within), *before]
