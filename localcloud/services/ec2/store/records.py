"""What the local cloud remembers about EC2 beyond moto's store, per account and region."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ministack.core.responses import get_account_id, get_region, request_scope
from moto.ec2.models import ec2_backends

LOCK = threading.RLock()
"""moto is not thread-safe: everything that reads or writes its store holds this."""
MARKETS = {"spot": "SpotOptions", "on-demand": "OnDemandOptions"}
"""By market: the block of a fleet's request that has its rules."""
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
"""The states in which an instance takes room, counts against quotas, and can fail."""
GONE = ("shutting-down", "terminated")


def now() -> datetime:
    """The current instant, aware."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Answered:
    """What a client token was answered with, and for which parameters."""

    signature: str
    answer: Any
    at: datetime


@dataclass(frozen=True)
class Notice:
    """EC2 will do `action` to a spot instance at `at`."""

    action: str
    at: datetime


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

    def set_state(self, state: str, status: str) -> None:
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
            "Tags": listed_tags(self.id),
        }

    def filter_values(self) -> dict[str, list[str]]:
        """What filters can ask."""
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
    """An instant fleet that was created; its members are remembered by id."""

    id: str
    request: dict[str, Any]
    created: datetime
    rows: list[dict[str, Any]]
    errors: list[dict[str, Any]]
    state: str = "active"
    members: list[str] = field(default_factory=list)

    def described(self) -> dict[str, Any]:
        """As DescribeFleets shows it."""
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
    """One account's fleets, spot requests, client tokens and interruption notices in one region."""

    fleets: dict[str, Fleet] = field(default_factory=dict)
    spot_requests: dict[str, SpotRequest] = field(default_factory=dict)
    tokens: dict[tuple[str, str], Answered] = field(default_factory=dict)
    notices: dict[str, Notice] = field(default_factory=dict)


_records: dict[tuple[str, str], Records] = {}


def records_of(account: str, region: str) -> Records:
    """The records of this account and region; empty ones the first time."""
    return _records.setdefault((account, region), Records())


def here() -> Records:
    """The records of the current request's account and region."""
    return records_of(get_account_id(), get_region())


def backend() -> Any:
    """moto's store of the current request's account and region."""
    here()  # what moto knows of, we keep
    return ec2_backends[get_account_id()][get_region()]


def tags_of(resource: Any) -> list[dict[str, str]]:
    """Replaces moto's TaggedEC2Resource.get_tags, which looks at every tag of the account for each resource."""
    if not resource.id:
        return []
    tags = resource.ec2_backend.tags.get(resource.id, {})
    return [{"key": key, "value": value, "resource_id": resource.id} for key, value in tags.items()]


def listed_tags(resource_id: str) -> list[dict[str, str]]:
    """A resource's tags as answers list them."""
    return [{"Key": key, "Value": value} for key, value in backend().tags.get(resource_id, {}).items()]


def tag_filters(resource_id: str) -> dict[str, list[str]]:
    """What filters can ask of a resource's tags."""
    tags = backend().tags.get(resource_id, {})
    return {"tag-key": list(tags), **{f"tag:{key}": [value] for key, value in tags.items()}}


def instances() -> Iterator[Any]:
    """Every instance of the current account and region, terminated ones included."""
    for reservation in backend().reservations.values():
        yield from reservation.instances


def instance(instance_id: str) -> Any | None:
    """The instance, or None."""
    return next((found for found in instances() if found.id == instance_id), None)


def found_anywhere(instance_id: str) -> Any | None:
    """The instance in whatever account and region it is, or None."""
    for account, region in list(everything()):
        with request_scope(account, region), LOCK:
            found = instance(instance_id)
        if found is not None:
            return found
    return None


def everything() -> dict[tuple[str, str], Records]:
    """The records of every account and region that was used."""
    return _records


Snapshot = dict[tuple[str, str], tuple[Any, Records]]


def snapshot() -> Snapshot:
    """moto's stores and our records, to be pickled together: they share instances."""
    return {(a, r): (ec2_backends[a][r], records) for (a, r), records in _records.items()}


def restore(saved: Snapshot) -> None:
    """What `snapshot` answered, back in place."""
    for (account, region), (store, records) in saved.items():
        ec2_backends[account][region] = store
        _records[account, region] = records
