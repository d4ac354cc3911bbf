"""State of EC2 besides moto's store, by account and region."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ministack.core.responses import get_account_id, get_region, request_scope
from moto.ec2.models import ec2_backends

LOCK = threading.RLock()
"""Guards moto's store, which is not thread-safe. Every reader and writer holds this lock."""
MARKETS = {"spot": "SpotOptions", "on-demand": "OnDemandOptions"}
"""Block of a fleet's request that has the rules of each market."""
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

LIVE = ("pending", "running")
"""States of an instance that occupies capacity, counts against quotas, and can fail."""
GONE = ("shutting-down", "terminated")


def now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Answered:
    """The answer to a client token, with its parameters."""

    signature: str
    answer: Any
    at: datetime


@dataclass(frozen=True)
class InterruptionNotice:
    """An interruption notice: EC2 will do `action` at `at`."""

    action: str
    at: datetime


@dataclass
class SpotRequest:
    """A spot instance request. `state` and `status` follow its instance."""

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

    def set_state(self, state: str, status: str) -> None:
        """Change the state that DescribeSpotInstanceRequests shows."""
        self.state, self.status, self.updated = state, status, now()

    def describe(self) -> dict[str, Any]:
        """Return the request in the format of DescribeSpotInstanceRequests."""
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
            "Tags": listed_tags(self.id),
        }

    def filter_values(self) -> dict[str, list[str]]:
        """Return the values that filters compare."""
        return {
            "spot-instance-request-id": [self.id],
            "instance-id": [self.instance_id],
            "state": [self.state],
            "status-code": [self.status],
            "type": [self.type],
            "launch.instance-type": [self.instance_type],
            "launch.image-id": [self.image_id],
            "launched-availability-zone": [self.zone],
            **tag_filters(self.id),
        }


@dataclass
class Fleet:
    """An instant fleet. Its members are stored by id."""

    id: str
    request: dict[str, Any]
    created: datetime
    rows: list[dict[str, Any]]
    errors: list[dict[str, Any]]
    state: str = "active"
    members: list[str] = field(default_factory=list)

    def describe(self) -> dict[str, Any]:
        """Return the fleet in the format of DescribeFleets."""
        capacity = self.request["TargetCapacitySpecification"]
        by_market = {
            market: sum(len(row["InstanceIds"]) for row in self.rows if row["Lifecycle"] == market)
            for market in MARKETS
        }
        return {
            "FleetId": self.id,
            "Type": "instant",
            "FleetState": self.state,
            "ActivityStatus": "fulfilled" if self.rows else "error",
            "CreateTime": self.created,
            "ClientToken": self.request.get("ClientToken"),
            "LaunchTemplateConfigs": self.request["LaunchTemplateConfigs"],
            "TargetCapacitySpecification": capacity,
            "SpotOptions": self.request.get("SpotOptions"),
            "OnDemandOptions": self.request.get("OnDemandOptions"),
            "FulfilledCapacity": float(len(self.members)),
            "FulfilledOnDemandCapacity": float(by_market["on-demand"]),
            "Instances": self.rows,
            "Errors": self.errors,
            "Tags": listed_tags(self.id),
        }


@dataclass
class Records:
    """Fleets, spot requests, client tokens and interruption notices of one account in one region."""

    fleets: dict[str, Fleet] = field(default_factory=dict)
    spot_requests: dict[str, SpotRequest] = field(default_factory=dict)
    tokens: dict[tuple[str, str], Answered] = field(default_factory=dict)
    notices: dict[str, InterruptionNotice] = field(default_factory=dict)
    beside: dict[str, Any] = field(default_factory=dict)
    """moto's stores of other services that hold objects of EC2, by the name of the service."""


_records: dict[tuple[str, str], Records] = {}


def records_of(account: str, region: str) -> Records:
    """Return the records of this account and region, created at the first call."""
    return _records.setdefault((account, region), Records())


def here() -> Records:
    """Return the records of the current request's account and region."""
    return records_of(get_account_id(), get_region())


def backend() -> Any:
    """Return moto's store of the current request's account and region."""
    here()  # saved together with our records
    return ec2_backends[get_account_id()][get_region()]


def tags_of(resource: Any) -> list[dict[str, str]]:
    """Return a resource's tags. Replaces moto's TaggedEC2Resource.get_tags, which scans all tags of the account."""
    if not resource.id:
        return []
    tags = resource.ec2_backend.tags.get(resource.id, {})
    return [{"key": key, "value": value, "resource_id": resource.id} for key, value in tags.items()]


def listed_tags(resource_id: str) -> list[dict[str, str]]:
    """Return a resource's tags in the format of answers."""
    return [{"Key": key, "Value": value} for key, value in backend().tags.get(resource_id, {}).items()]


def tag_filters(resource_id: str) -> dict[str, list[str]]:
    """Return the filter values of a resource's tags."""
    tags = backend().tags.get(resource_id, {})
    return {"tag-key": list(tags), **{f"tag:{key}": [value] for key, value in tags.items()}}


def instances() -> Iterator[Any]:
    """Yield every instance of the current account and region, including terminated ones."""
    for reservation in backend().reservations.values():
        yield from reservation.instances


def instance(instance_id: str) -> Any | None:
    return next((found for found in instances() if found.id == instance_id), None)


def find_anywhere(instance_id: str) -> Any | None:
    """Return the instance from any account and region, or None."""
    for account, region in list(everything()):
        with request_scope(account, region), LOCK:
            found = instance(instance_id)
        if found is not None:
            return found
    return None


def everything() -> dict[tuple[str, str], Records]:
    """Return the records of all accounts and regions."""
    return _records


Snapshot = dict[tuple[str, str], tuple[Any, Records]]


def snapshot() -> Snapshot:
    """Return moto's stores and our records. Both must be pickled together, because they share instances."""
    return {(a, r): (ec2_backends[a][r], records) for (a, r), records in _records.items()}


def restore(saved: Snapshot) -> None:
    """Restore the result of `snapshot`."""
    for (account, region), (store, records) in saved.items():
        ec2_backends[account][region] = store
        _records[account, region] = records
        vars(records).setdefault("beside", {})  # missing in the state of an earlier version
