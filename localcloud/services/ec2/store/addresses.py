"""Private addresses. All hosts share one bridge, so each address is unique across networks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import ec2_backends

from localcloud.services.ec2.store.records import everything

FIRST = 4
"""AWS reserves the first four addresses of a subnet, and the last one."""


def next_address(subnet: Any, instance: Any) -> str:
    """Return the next free address after the one assigned last.

    Replaces moto's Subnet.get_available_subnet_ip, which after a restart assigns AWS's reserved addresses and ignores
    other networks.
    """
    end, start = subnet.cidr.num_addresses - 1, getattr(subnet, "last_given", FIRST - 1) + 1
    everywhere = list(_subnets())
    for position in itertools.chain(range(start, end), range(FIRST, start)):
        address = str(subnet.cidr[position])
        if not any(address in other._subnet_ips for other in everywhere):
            subnet.last_given = position
            subnet._subnet_ips[address] = instance
            return address
    raise EC2ClientError(
        "InsufficientFreeAddressesInSubnet", f"There are not enough free addresses in subnet '{subnet.id}'."
    )


def _subnets() -> Iterator[Any]:
    """Yield every subnet of every account and region."""
    for account, region in everything():
        for by_id in ec2_backends[account][region].subnets.values():
            yield from by_id.values()
