"""Spot instance requests: opened with their instance, changed as it changes, and what they allow it."""

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
    """The request behind a spot instance that was just launched. One that names no highest price takes the one
    `on_demand`.
    """
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
        request.set_state(
            "disabled", "instance-stopped-no-capacity" if by_ec2 else "instance-stopped-by-user"
        )


def enable_request_of(instance: Any) -> None:
    """The instance starts again."""
    request = request_of(instance)
    if request is not None and request.state == "disabled":
        request.set_state("active", "fulfilled")


def close_request_of(instance: Any, reason_code: str) -> None:
    """The instance was terminated."""
    request = request_of(instance)
    if request is None or request.state == "cancelled":
        return
    by_ec2 = reason_code == "Server.SpotInstanceTermination"
    request.set_state(
        "closed", "instance-terminated-no-capacity" if by_ec2 else "instance-terminated-by-user"
    )
