"""Gateway endpoints: the VPC of a request, for conditions in policies.

docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html, "Properties of the network"
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ministack.core.responses import get_account_id, get_region

from localcloud.services.ec2.store.records import LOCK, backend, everything, instances

OFF = ("stopped", "terminated")
"""States without traffic. A host that shuts down still uploads its work."""


def condition_keys(service: str, address: str) -> Mapping[str, str]:
    """Return the condition keys of the endpoint in the routes of the host's subnet.

    Empty for other sources, for services without an endpoint, and for unused regions.
    """
    if (get_account_id(), get_region()) not in everything():
        return {}
    with LOCK:
        there = (one for one in instances() if one.private_ip == address and one.state not in OFF)
        host = next(there, None)
        endpoint = _endpoint(service, host) if host else None
    if endpoint is None:
        return {}
    return {"aws:sourcevpc": endpoint.vpc_id, "aws:sourcevpce": endpoint.id, "aws:vpcsourceip": address}


def _endpoint(service: str, host: Any) -> Any | None:
    table = _route_table(host.subnet_id, host.vpc_id)
    return next(
        (
            each
            for each in backend().vpc_end_points.values()
            if each.vpc_endpoint_type == "Gateway"
            and each.service_name.endswith(f".{service}")
            and table in each.route_table_ids
        ),
        None,
    )


def _route_table(subnet: str, vpc: str) -> str | None:
    """Return the subnet's own route table, or the VPC's main one."""
    tables = [each for each in backend().route_tables.values() if each.vpc_id == vpc]
    by_subnet = {to.get("SubnetId"): each.id for each in tables for to in each.associations}
    main = next((each.id for each in tables if any(to["Main"] for to in each.associations)), None)
    return by_subnet.get(subnet, main)
