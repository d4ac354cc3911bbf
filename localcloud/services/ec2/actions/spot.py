"""Spot requests, prices and placement scores in the API."""

from __future__ import annotations

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import ec2_backends

from localcloud.services.ec2.actions.base import Actions, Ec2, matches, matching_rows, page
from localcloud.services.ec2.capacity.allocation import Pool
from localcloud.services.ec2.capacity.pools import offered_in
from localcloud.services.ec2.instances.lifecycle import BY_USER
from localcloud.services.ec2.store.records import PRODUCT, SpotRequest, backend, here, now


class SpotActions(Actions):
    """DescribeSpotInstanceRequests, price history and placement scores."""

    def request_spot_instances(self) -> ActionResult:
        raise EC2ClientError(
            "UnsupportedOperation",
            "The local cloud launches spot instances through RunInstances and CreateFleet.",
        )

    def request_spot_fleet(self) -> ActionResult:
        return self.request_spot_instances()

    def describe_spot_instance_requests(self) -> ActionResult:
        self.error_on_dryrun()
        requests, ids = here().spot_requests, self._get_param("SpotInstanceRequestIds", [])
        chosen = [_require_request(request_id) for request_id in ids] if ids else list(requests.values())
        wanted = self._filters_from_querystring()
        matching = [request for request in chosen if matches(request.filter_values(), wanted)]
        return page(self, "SpotInstanceRequests", [request.describe() for request in matching])

    def cancel_spot_instance_requests(self) -> ActionResult:
        self.error_on_dryrun()
        rows = []
        for request in [
            _require_request(request_id) for request_id in self._get_param("SpotInstanceRequestIds", [])
        ]:
            if request.state == "disabled":
                stopped = backend().get_instance(request.instance_id)
                self.ec2.lifecycle.terminate(stopped, BY_USER)
            if request.state != "closed":
                request.set_state("cancelled", "request-canceled-and-instance-running")
            rows.append({"SpotInstanceRequestId": request.id, "State": request.state})
        return ActionResult({"CancelledSpotInstanceRequests": rows})

    def describe_spot_price_history(self) -> ActionResult:
        """Answer the current prices in the settings, because moto has none."""
        self.error_on_dryrun()
        settings, wanted = self.ec2.settings, self._filters_from_querystring()
        types = self._get_param("InstanceTypes", []) or sorted(settings.prices)
        zone = self._get_param("AvailabilityZone")
        products = self._get_param("ProductDescriptions", [])
        rows = [
            {
                "InstanceType": instance_type,
                "AvailabilityZone": where,
                "AvailabilityZoneId": settings.zones[where],
                "ProductDescription": PRODUCT,
                "SpotPrice": f"{price:.6f}",
                "Timestamp": now(),
            }
            for instance_type in types
            for where in settings.zones
            if (price := settings.spot_price(instance_type, where)) is not None
            and where in offered_in(self.region, instance_type)
            and zone in (None, where)
            and (not products or PRODUCT in products)
        ]
        named = {
            "availability-zone": "AvailabilityZone",
            "instance-type": "InstanceType",
            "product-description": "ProductDescription",
            "spot-price": "SpotPrice",
        }
        return page(self, "SpotPriceHistory", matching_rows(rows, named, wanted))

    def get_spot_placement_scores(self) -> ActionResult:
        self.error_on_dryrun()
        settings, types = self.ec2.settings, self._get_param("InstanceTypes", [])
        regions = self._get_param("RegionNames", []) or [self.region]
        rows = [
            {"Region": region, "AvailabilityZoneId": zone.zone_id, "Score": score(self.ec2, zone.name, types)}
            for region in regions
            for zone in ec2_backends[self.current_account][region].describe_availability_zones()
            if zone.name in settings.zones
        ]
        if str(self._get_param("SingleAvailabilityZone")).lower() != "true":
            best = {
                row["Region"]: max(r["Score"] for r in rows if r["Region"] == row["Region"]) for row in rows
            }
            rows = [{"Region": region, "Score": highest} for region, highest in best.items()]
        return ActionResult({"SpotPlacementScores": sorted(rows, key=lambda row: -row["Score"])})


def score(ec2: Ec2, zone: str, instance_types: list[str]) -> int:
    """Return the placement score in the settings, from 1 to 10, or 1 if all pools of the types refuse."""
    if instance_types and all(ec2.capacity.free(Pool(kind, zone, "spot")) < 1 for kind in instance_types):
        return 1
    return ec2.settings.spot.placement_scores.get(zone, 9)


def _require_request(request_id: str) -> SpotRequest:
    try:
        return here().spot_requests[request_id]
    except KeyError:
        raise EC2ClientError(
            "InvalidSpotInstanceRequestID.NotFound",
            f"The spot instance request ID '{request_id}' does not exist",
        ) from None
