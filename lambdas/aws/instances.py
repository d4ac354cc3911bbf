"""EC2 instances: found by their run's tag, and ended."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lambdas.aws.clients import client
from lambdas.core.model.gang import Gang
from lambdas.core.model.instance_types import Market

LIVE = ("pending", "running", "stopping", "stopped")
PAGE = 1000
WHEN = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)")
"""How EC2 writes when a state changed: `User initiated (2026-11-20 12:00:00 GMT)`."""
CHUNK = 500


@dataclass(frozen=True)
class Instance:
    id: str
    type: str
    zone: str
    market: Market
    state: str
    state_reason: str
    address: str | None
    launched: datetime
    image: str
    tags: Mapping[str, str]
    changed: datetime | None = None
    """When its state changed last, where EC2 says so."""

    @property
    def gang(self) -> Gang:
        return Gang(int(self.tags.get("trainyard:gang", Gang.GPU)))

    @property
    def gone(self) -> bool:
        return self.state in ("shutting-down", "terminated", "stopping", "stopped")


def of_run(run: str, *, attempt: int | None = None, states: Iterable[str] = LIVE) -> tuple[Instance, ...]:
    """Every instance that carries this run's tag, whatever the ledger knows: a crash cannot hide one."""
    filters = [
        {"Name": "tag:trainyard:run", "Values": [run]},
        {"Name": "instance-state-name", "Values": list(states)},
    ]
    if attempt is not None:
        filters.append({"Name": "tag:trainyard:attempt", "Values": [str(attempt)]})
    return _describe(Filters=filters)


def of_ids(ids: Collection[str]) -> tuple[Instance, ...]:
    """These instances, as far as EC2 knows them (a filter, not ids: one that is not visible yet is no error)."""
    return _describe(Filters=[{"Name": "instance-id", "Values": sorted(ids)}]) if ids else ()


def live() -> dict[str, tuple[str, Market]]:
    """(type, market) of every instance of the account in this region that counts against a vCPU quota."""
    states = [{"Name": "instance-state-name", "Values": ["pending", "running", "stopping"]}]
    return {instance.id: (instance.type, instance.market) for instance in _describe(Filters=states)}


def of_yard(yard: str) -> tuple[Instance, ...]:
    """Every instance of the yard, also those that ended within the last hour: a call for each thousand."""
    chosen = [{"Name": "tag:trainyard:yard", "Values": [yard]}]
    return _describe(Filters=chosen, PaginationConfig={"PageSize": PAGE})


def terminate(ids: Collection[str]) -> None:
    """End these; ending one twice is fine."""
    for chunk in _chunks(ids):
        client("ec2").terminate_instances(InstanceIds=chunk)


def stop(ids: Collection[str]) -> None:
    """Stop these; on-demand only, EC2 refuses it for the spot hosts of a fleet.

    From now on they stop where they would have ended: a host that is started again and shuts itself down keeps its
    disk."""
    for host in ids:
        client("ec2").modify_instance_attribute(
            InstanceId=host, InstanceInitiatedShutdownBehavior={"Value": "stop"}
        )
    for chunk in _chunks(ids):
        client("ec2").stop_instances(InstanceIds=chunk)


def start(ids: Collection[str]) -> None:
    """Start these again; one that runs goes on."""
    for chunk in _chunks(ids):
        client("ec2").start_instances(InstanceIds=chunk)


def subnets(ids: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """(subnet id, Availability Zone) of each."""
    answer = client("ec2").describe_subnets(SubnetIds=list(ids))
    return tuple((subnet["SubnetId"], subnet["AvailabilityZone"]) for subnet in answer["Subnets"])


def _describe(**request: Any) -> tuple[Instance, ...]:
    pages = client("ec2").get_paginator("describe_instances").paginate(**request)
    return tuple(
        _instance(instance)
        for page in pages
        for reservation in page["Reservations"]
        for instance in reservation["Instances"]
    )


def _instance(data: Mapping[str, Any]) -> Instance:
    return Instance(
        id=data["InstanceId"],
        type=data["InstanceType"],
        zone=data["Placement"]["AvailabilityZone"],
        market=Market.SPOT if data.get("InstanceLifecycle") == "spot" else Market.ON_DEMAND,
        state=data["State"]["Name"],
        state_reason=data.get("StateReason", {}).get("Message", ""),
        address=data.get("PrivateIpAddress"),
        launched=data["LaunchTime"],
        image=data["ImageId"],
        tags={tag["Key"]: tag["Value"] for tag in data.get("Tags", [])},
        changed=_changed(str(data.get("StateTransitionReason", ""))),
    )


def _changed(reason: str) -> datetime | None:
    said = WHEN.search(reason)
    return datetime.strptime(said.group(1), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC) if said else None


def _chunks(ids: Collection[str]) -> list[list[str]]:
    ordered = sorted(ids)
    return [ordered[first : first + CHUNK] for first in range(0, len(ordered), CHUNK)]
