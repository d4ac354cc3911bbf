"""Views of moto's EC2 for other parts of ministack (Lambda in a VPC, SSM, reset), which read ministack's own EC2."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from localcloud.patches import MINISTACK
from localcloud.services.ec2.store.records import LOCK, backend, instances, listed_tags


class View(Mapping[str, Any]):
    """A read-only replacement for one of ministack's EC2 stores, computed at each access."""

    def __init__(self, rows: Callable[[], dict[str, Any]]) -> None:
        self._rows = rows

    def _now(self) -> dict[str, Any]:
        with LOCK:
            return self._rows()

    def __getitem__(self, key: str) -> Any:
        return self._now()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())


def install() -> None:
    """Replace the stores that other parts read."""
    for name, rows in {
        "_instances": _instances,
        "_tags": lambda: {key: listed_tags(key) for key in backend().tags},
        "_subnets": _subnets,
        "_security_groups": _security_groups,
        "_vpcs": lambda: {
            key: {"VpcId": key, "CidrBlock": v.cidr_block} for key, v in backend().vpcs.items()
        },
    }.items():
        MINISTACK.replace(f"services.ec2:{name}", View(rows))
    MINISTACK.replace("services.ec2:_ensure_defaults_initialized", lambda: None)


def _instances() -> dict[str, Any]:
    return {
        one.id: {
            "InstanceId": one.id,
            "State": {"Name": one.state, "Code": one.state_code},
            "PrivateIpAddress": one.private_ip,
            "SubnetId": one.subnet_id,
            "VpcId": one.vpc_id,
        }
        for one in instances()
    }


def _subnets() -> dict[str, Any]:
    return {
        one.id: {
            "SubnetId": one.id,
            "VpcId": one.vpc_id,
            "AvailabilityZone": one.availability_zone,
            "CidrBlock": one.cidr_block,
        }
        for one in backend().describe_subnets()
    }


def _security_groups() -> dict[str, Any]:
    return {
        group.id: {"GroupId": group.id, "GroupName": group.name, "VpcId": group.vpc_id}
        for groups in backend().groups.values()
        for group in groups.values()
    }
