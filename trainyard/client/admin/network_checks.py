"""Checks of the customer's network: the hosts' route to the internet and to S3."""

from __future__ import annotations

from typing import Any

from trainyard.client.admin.requirements import AWS_IMAGES, Network, Row, Verdict
from trainyard.client.session import Session

ANYWHERE = frozenset({"0.0.0.0/0", "::/0"})


def check_way_out(session: Session, network: Network) -> Row:
    """Check that a bake can reach the package indexes. A route to the internet may still end at a firewall, which this
    check cannot see."""
    subject, needed = "way out of the hosts", "package indexes, for a bake"
    if not network.base_image_parameter.startswith(AWS_IMAGES):
        return Row(subject, "the yard's own base image", needed, Verdict.READY)
    if not network.vpc:
        closed, found = network.private, "none (private)" if network.private else "an internet gateway"
    else:
        shut = [subnet for subnet in network.subnets if not _leads_out(session, network.vpc, subnet)]
        closed, found = bool(shut), f"none from {', '.join(shut)}" if shut else f"a route of {network.vpc}"
    step = "deploy with -c base_image_parameter=..., an image whose pip, uv and apt-get use a mirror in the network"
    return Row(subject, found, needed, Verdict.SHORT if closed else Verdict.READY, step if closed else "")


def check_way_to_s3(session: Session, network: Network) -> Row:
    """Check that credentials of hosts can be restricted to the network, which requires an endpoint."""
    subject, needed = (
        "way to S3",
        "a gateway endpoint, so that credentials of hosts are valid only in the network",
    )
    if not network.vpc:
        return Row(subject, "the yard's own endpoint", needed, Verdict.READY)
    by_endpoint = _tables_with_endpoint(session, network.vpc)
    past = [
        subnet
        for subnet in network.subnets
        if not by_endpoint & {table["RouteTableId"] for table in _route_tables(session, network.vpc, subnet)}
    ]
    found = f"no endpoint in the routes of {', '.join(past)}" if past else f"an endpoint of {network.vpc}"
    if past and network.s3_endpoint:
        step = (
            "add com.amazonaws.REGION.s3, a gateway, to their route tables, or deploy without -c s3_endpoint"
        )
        return Row(subject, found, needed, Verdict.SHORT, f"{step}: otherwise hosts cannot reach the bucket")
    step = "" if past or network.s3_endpoint else "deploy with -c s3_endpoint=true"
    return Row(subject, found, needed, Verdict.READY, step)


def _tables_with_endpoint(session: Session, vpc: str) -> set[str]:
    """Return the route tables that lead to S3 through a gateway endpoint."""
    wanted = [
        {"Name": "vpc-id", "Values": [vpc]},
        {"Name": "service-name", "Values": [f"com.amazonaws.{session.region}.s3"]},
        {"Name": "vpc-endpoint-type", "Values": ["Gateway"]},
    ]
    endpoints = session.client("ec2").describe_vpc_endpoints(Filters=wanted)["VpcEndpoints"]
    return {table for endpoint in endpoints for table in endpoint["RouteTableIds"]}


def _leads_out(session: Session, vpc: str, subnet: str) -> bool:
    return any(
        ANYWHERE & {route.get("DestinationCidrBlock"), route.get("DestinationIpv6CidrBlock")}
        and route.get("State") == "active"
        for table in _route_tables(session, vpc, subnet)
        for route in table["Routes"]
    )


def _route_tables(session: Session, vpc: str, subnet: str) -> list[dict[str, Any]]:
    """Return the subnet's route table, or the main one of its VPC."""
    ask = session.client("ec2").describe_route_tables
    own = ask(Filters=[{"Name": "association.subnet-id", "Values": [subnet]}])["RouteTables"]
    main = [{"Name": "vpc-id", "Values": [vpc]}, {"Name": "association.main", "Values": ["true"]}]
    return list(own or ask(Filters=main)["RouteTables"])
