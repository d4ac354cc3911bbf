"""Security groups, and reachability of a port through them."""

from __future__ import annotations

from typing import Any

from tests.contract.conftest import eventually
from tests.contract.hosts.conftest import Hosts, unique

REFUSED, LOST = "there", "lost"
"""Results for a port without a listener: an answer from the host, or none."""


def group(hosts: Hosts, vpc: str | None = None) -> str:
    wanted = {"VpcId": vpc} if vpc else {}
    made = hosts.ec2.create_security_group(GroupName=unique("group"), Description="of a test", **wanted)
    return str(made["GroupId"])


def port_9(source: str | None = None, protocol: str = "tcp") -> dict[str, Any]:
    """Return a rule for `knock`, from a group or from anywhere."""
    whom = {"UserIdGroupPairs": [{"GroupId": source}]} if source else {"IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    return {"IpProtocol": protocol, "FromPort": 9, "ToPort": 9, **whom}


def becomes(hosts: Hosts, instance_id: str, command: str, answer: str) -> None:
    eventually(lambda: hosts.run(instance_id, command) == answer)
