"""Spot instance requests, what they allow, and what spot costs."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import ec2_backends
from moto.ec2.responses._base_response import EC2BaseResponse

from localcloud.services.ec2.actions.base import world
from localcloud.services.ec2.actions.filters import matches, matching_rows
from localcloud.services.ec2.actions.pages import page
from localcloud.services.ec2.capacity.allocation import Pool
from localcloud.services.ec2.capacity.pools import offered_in
from localcloud.services.ec2.store.records import backend, here, now

PRODUCT = "Linux/UNIX"
STATUS = {
    "fulfilled": "Your Spot request is fulfilled.",
    "instance-terminated-by-user": "Spot Instance terminated due to user-initiated termination.",
    "instance-terminated-no-capacity": "Your Spot Instance was terminated: there is no capacity available for it.",
    "instance-stopped-by-user": "You stopped your Spot Instance.",
    "instance-stopped-no-capacity": "Your Spot Instance was stopped: there is no capacity available for it.",
    "request-canceled-and-instance-running": "You canceled the Spot request while its instance was still running.",
    "canceled-before-fulfillment": "You canceled the Spot request before it was fulfilled.",
}


@dataclass
class SpotRequest:
    """One spot instance request. `state` and `status` change as its instance does."""

    id: str
    type: str
    instance_id: str
    instance_type: str
    image_id: str
    zone: str
    subnet_id: str | None
    interruption_behavior: str
    max_price: str | None
    fleet_id: str | None
    created: datetime
    state: str = "active"
    status: str = "fulfilled"
    updated: datetime = field(default_factory=now)

    def become(self, state: str, status: str) -> None:
        """Change what DescribeSpotInstanceRequests shows."""
        self.state, self.status, self.updated = state, status, now()

    def described(self) -> dict[str, Any]:
        """As DescribeSpotInstanceRequests shows it."""
        return {
            "SpotInstanceRequestId": self.id,
            "Type": self.type,
            "State": self.state,
            "Status": {"Code": self.status, "Message": STATUS[self.status], "UpdateTime": self.updated},
            "InstanceId": self.instance_id,
            "LaunchedAvailabilityZone": self.zone,
            "LaunchSpecification": {
                "ImageId": self.image_id,
                "InstanceType": self.instance_type,
                "SubnetId": self.subnet_id,
                "Placement": {"AvailabilityZone": self.zone},
            },
            "InstanceInterruptionBehavior": self.interruption_behavior,
            "ProductDescription": PRODUCT,
            "SpotPrice": self.max_price,
            "CreateTime": self.created,
            "Tags": [{"Key": k, "Value": v} for k, v in backend().tags.get(self.id, {}).items()],
        }

    def facts(self) -> dict[str, list[str]]:
        """What filters can ask."""
        tags = backend().tags.get(self.id, {})
        return {
            "spot-instance-request-id": [self.id],
            "instance-id": [self.instance_id],
            "state": [self.state],
            "status-code": [self.status],
            "type": [self.type],
            "launch.instance-type": [self.instance_type],
            "launch.image-id": [self.image_id],
            "launched-availability-zone": [self.zone],
            "tag-key": list(tags),
            **{f"tag:{key}": [value] for key, value in tags.items()},
        }


def open_request(
    instance: Any, options: dict[str, Any], tags: dict[str, str], fleet_id: str | None
) -> SpotRequest:
    """The request behind a spot instance that was just launched."""
    request = SpotRequest(
        id="sir-" + secrets.token_hex(4),
        type=options.get("SpotInstanceType") or "one-time",
        instance_id=instance.id,
        instance_type=instance.instance_type,
        image_id=instance.image_id,
        zone=instance.placement.zone,
        subnet_id=instance.subnet_id,
        interruption_behavior=options.get("InstanceInterruptionBehavior") or "terminate",
        max_price=options.get("MaxPrice") or _on_demand_price(instance.instance_type),
        fleet_id=fleet_id,
        created=now(),
    )
    here().spot_requests[request.id] = request
    instance.spot_instance_request_id = request.id
    if tags:
        backend().create_tags([request.id], tags)
    return request


def _on_demand_price(instance_type: str) -> str | None:
    """What EC2 takes for the highest price of a request that names none."""
    price = world().facts.on_demand_price(instance_type)
    return None if price is None else f"{price:.6f}"


def request_of(instance: Any) -> SpotRequest | None:
    """The request this instance fulfils; None for on-demand."""
    return here().spot_requests.get(getattr(instance, "spot_instance_request_id", None) or "")


def may_stop(instance: Any) -> bool:
    """Only on-demand instances and those of a persistent spot request can be stopped, and no spot member of a fleet."""
    request = request_of(instance)
    return request is None or (request.type == "persistent" and request.fleet_id is None)


def refuse_stop(instance: Any) -> None:
    """Raise AWS's error when this instance can only be terminated."""
    if not may_stop(instance):
        raise EC2ClientError(
            "UnsupportedOperation",
            f"You can't stop the Spot Instance '{instance.id}' because it is associated with a one-time Spot Instance "
            "request. You can only stop Spot Instances associated with persistent Spot Instance requests.",
        )


def stopped_by_ec2(instance: Any) -> bool:
    """An interruption stopped it; only EC2 can start it again."""
    request = request_of(instance)
    return request is not None and request.status == "instance-stopped-no-capacity"


def disable_request_of(instance: Any) -> None:
    """The instance was stopped."""
    request = request_of(instance)
    if request is not None and request.state == "active":
        by_ec2 = instance.state_reason.code.startswith("Server.")
        request.become("disabled", "instance-stopped-no-capacity" if by_ec2 else "instance-stopped-by-user")


def enable_request_of(instance: Any) -> None:
    """The instance starts again."""
    request = request_of(instance)
    if request is not None and request.state == "disabled":
        request.become("active", "fulfilled")


def close_request_of(instance: Any, reason_code: str) -> None:
    """The instance was terminated."""
    request = request_of(instance)
    if request is None or request.state == "cancelled":
        return
    by_ec2 = reason_code == "Server.SpotInstanceTermination"
    request.become("closed", "instance-terminated-no-capacity" if by_ec2 else "instance-terminated-by-user")


class SpotActions(EC2BaseResponse):
    """DescribeSpotInstanceRequests and what spot costs."""

    def request_spot_instances(self) -> ActionResult:
        raise EC2ClientError(
            "UnsupportedOperation",
            "The local cloud launches spot instances through RunInstances and CreateFleet.",
        )

    def describe_spot_instance_requests(self) -> ActionResult:
        self.error_on_dryrun()
        requests, ids = here().spot_requests, self._get_param("SpotInstanceRequestIds", [])
        chosen = [_known(request_id) for request_id in ids] if ids else list(requests.values())
        wanted = self._filters_from_querystring()
        matching = [request for request in chosen if matches(request.facts(), wanted)]
        return page(self, "SpotInstanceRequests", [request.described() for request in matching])

    def cancel_spot_instance_requests(self) -> ActionResult:
        self.error_on_dryrun()
        rows = []
        for request in [_known(request_id) for request_id in self._get_param("SpotInstanceRequestIds", [])]:
            if request.state == "disabled":
                stopped = backend().get_instance(request.instance_id)
                from localcloud.services.ec2.instances.lifecycle import (
                    BY_USER,  # imported late: lifecycle knows spot
                )

                world().lifecycle.terminate(stopped, BY_USER)
            if request.state != "closed":
                request.become("cancelled", "request-canceled-and-instance-running")
            rows.append({"SpotInstanceRequestId": request.id, "State": request.state})
        return ActionResult({"CancelledSpotInstanceRequests": rows})

    def describe_spot_price_history(self) -> ActionResult:
        """The facts' prices, as of now; moto knows none."""
        self.error_on_dryrun()
        facts, wanted = world().facts, self._filters_from_querystring()
        types = self._get_param("InstanceTypes", []) or sorted(facts.prices)
        zone = self._get_param("AvailabilityZone")
        products = self._get_param("ProductDescriptions", [])
        rows = [
            {
                "InstanceType": instance_type,
                "AvailabilityZone": where,
                "AvailabilityZoneId": facts.zones[where],
                "ProductDescription": PRODUCT,
                "SpotPrice": f"{price:.6f}",
                "Timestamp": now(),
            }
            for instance_type in types
            for where in facts.zones
            if (price := facts.spot_price(instance_type, where)) is not None
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
        world_facts, types = world().facts, self._get_param("InstanceTypes", [])
        regions = self._get_param("RegionNames", []) or [self.region]
        rows = [
            {"Region": region, "AvailabilityZoneId": zone.zone_id, "Score": score(zone.name, types)}
            for region in regions
            for zone in ec2_backends[self.current_account][region].describe_availability_zones()
            if zone.name in world_facts.zones
        ]
        if str(self._get_param("SingleAvailabilityZone")).lower() != "true":
            best = {
                row["Region"]: max(r["Score"] for r in rows if r["Region"] == row["Region"]) for row in rows
            }
            rows = [{"Region": region, "Score": highest} for region, highest in best.items()]
        return ActionResult({"SpotPlacementScores": sorted(rows, key=lambda row: -row["Score"])})


def score(zone: str, instance_types: list[str]) -> int:
    """1 to 10: the facts' score; 1 where every type's pool refuses."""
    capacity = world().capacity
    if instance_types and all(capacity.free(Pool(kind, zone, "spot")) < 1 for kind in instance_types):
        return 1
    return world().facts.spot.placement_scores.get(zone, 9)


def _known(request_id: str) -> SpotRequest:
    try:
        return here().spot_requests[request_id]
    except KeyError:
        raise EC2ClientError(
            "InvalidSpotInstanceRequestID.NotFound",
            f"The spot instance request ID '{request_id}' does not exist",
        ) from None
