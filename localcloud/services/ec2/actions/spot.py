"""Spot requests and prices in the API."""

from __future__ import annotations

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError

from localcloud.services.ec2.actions.base import Actions, matches, matching_rows, page
from localcloud.services.ec2.capacity.pools import offered_in
from localcloud.services.ec2.instances.lifecycle import BY_USER
from localcloud.services.ec2.store.records import PRODUCT, SpotRequest, backend, here, now


class SpotActions(Actions):
    """DescribeSpotInstanceRequests and price history."""

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


def _require_request(request_id: str) -> SpotRequest:
    try:
        return here().spot_requests[request_id]
    except KeyError:
        raise EC2ClientError(
            "InvalidSpotInstanceRequestID.NotFound",
            f"The spot instance request ID '{request_id}' does not exist",
        ) from None
