"""Spot instance requests: created and changed with their instance."""

from __future__ import annotations

import secrets
from typing import Any

from moto.ec2.exceptions import EC2ClientError

from localcloud.services.ec2.store.records import SpotRequest, backend, here, now


def open_request(
    instance: Any,
    options: dict[str, Any],
    tags: dict[str, str],
    fleet_id: str | None,
    on_demand: float | None,
) -> SpotRequest:
    """Create the request of a launched spot instance. Its maximum price defaults to `on_demand`."""
    request = SpotRequest(
        id="sir-" + secrets.token_hex(4),
        type=options.get("SpotInstanceType") or "one-time",
        instance_id=instance.id,
        instance_type=instance.instance_type,
        image_id=instance.image_id,
        zone=instance.placement.zone,
        subnet_id=instance.subnet_id,
        interruption_behavior=options.get("InstanceInterruptionBehavior") or "terminate",
        max_price=options.get("MaxPrice") or (None if on_demand is None else f"{on_demand:.6f}"),
        fleet_id=fleet_id,
        created=now(),
    )
    here().spot_requests[request.id] = request
    instance.spot_instance_request_id = request.id
    if tags:
        backend().create_tags([request.id], tags)
    return request


def request_of(instance: Any) -> SpotRequest | None:
    """Return the request of an instance, or None for on-demand."""
    return here().spot_requests.get(getattr(instance, "spot_instance_request_id", None) or "")


def may_stop(instance: Any) -> bool:
    """Return True if the instance can be stopped: on-demand, or from a persistent request outside a fleet."""
    request = request_of(instance)
    return request is None or (request.type == "persistent" and request.fleet_id is None)


def refuse_stop(instance: Any) -> None:
    """Raise AWS's error if the instance can only be terminated."""
    if not may_stop(instance):
        raise EC2ClientError(
            "UnsupportedOperation",
            f"You can't stop the Spot Instance '{instance.id}' because it is associated with a one-time Spot Instance "
            "request. You can only stop Spot Instances associated with persistent Spot Instance requests.",
        )


def stopped_by_ec2(instance: Any) -> bool:
    """Return True if an interruption stopped the instance, so that only EC2 can start it again."""
    request = request_of(instance)
    return request is not None and request.status == "instance-stopped-no-capacity"


def disable_request_of(instance: Any) -> None:
    """Disable the request of a stopped instance."""
    request = request_of(instance)
    if request is not None and request.state == "active":
        by_ec2 = instance.state_reason.code.startswith("Server.")
        request.set_state(
            "disabled", "instance-stopped-no-capacity" if by_ec2 else "instance-stopped-by-user"
        )


def enable_request_of(instance: Any) -> None:
    """Enable the request of a started instance."""
    request = request_of(instance)
    if request is not None and request.state == "disabled":
        request.set_state("active", "fulfilled")


def close_request_of(instance: Any, reason_code: str) -> None:
    """Close the request of a terminated instance."""
    request = request_of(instance)
    if request is None or request.state == "cancelled":
        return
    by_ec2 = reason_code == "Server.SpotInstanceTermination"
    request.set_state(
        "closed", "instance-terminated-no-capacity" if by_ec2 else "instance-terminated-by-user"
    )
