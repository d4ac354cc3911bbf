"""Security groups as firewall rules of each host: traffic to other hosts, and to AWS.

A network in a rule means the hosts of the same VPC in that network, because VPCs are isolated. The endpoint stands for
AWS: a host reaches it, and Systems Manager reaches the host, if a rule allows outbound TCP to port 443 at an address of
AWS.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ministack.core.responses import request_scope
from moto.ec2.models.security_groups import SecurityGroupRule

from localcloud.machine.hypervisor import ENDPOINT_ADDRESS, Rule, Rules
from localcloud.services.ec2.store.records import LOCK, backend, everything, instances

ENDED = ("terminated",)
ALL_PROTOCOLS = "-1"
PROTOCOLS = {"icmp": 1, "tcp": 6, "udp": 17, "icmpv6": 58}
ICMP = PROTOCOLS["icmp"]
HTTPS = 443
AWS = ipaddress.IPv4Address("52.94.0.1")
"""An address of AWS (ip-ranges.amazonaws.com)."""
ENDPOINT = Rule(frozenset({f"{ENDPOINT_ADDRESS}/32"}), PROTOCOLS["tcp"])


@dataclass(frozen=True)
class _Member:
    """A host in the network."""

    address: str
    vpc: str
    groups: tuple[Any, ...]


def rules_of(instance_ids: Collection[str]) -> Mapping[str, Rules]:
    """Return the current rules of these instances. Instances that are gone have no entry."""
    found: dict[str, Rules] = {}
    for account, region in list(everything()):
        with request_scope(account, region), LOCK:
            members = {each.id: _member(each) for each in instances() if each.state not in ENDED}
            others = tuple(members.values())
            asked = members.keys() & set(instance_ids)
            found |= {instance_id: _rules(members[instance_id], others) for instance_id in asked}
    return found


def reaches(instance: Any, address: str, vpc: str, group_ids: Collection[str], port: int) -> bool:
    """Return True if rules let the instance reach a TCP port at this address, whose interface has these groups. The
    caller holds LOCK in the account and region of both."""
    found = {group.id: group for group in backend().describe_security_groups()}
    host, target = (
        _member(instance),
        _Member(address, vpc, tuple(found[each] for each in group_ids if each in found)),
    )
    out = [rule for group in host.groups for rule in group.egress_rules if _is_peer(rule, target)]
    into = [rule for group in target.groups for rule in group.ingress_rules if _is_peer(rule, host)]
    return host.vpc == vpc and all(any(_lets_pass(rule, port) for rule in rules) for rules in (out, into))


def _lets_pass(rule: Any, port: int) -> bool:
    first, last = _ports(rule) or (0, 65535)
    return _number(rule) in (None, PROTOCOLS["tcp"]) and first <= port <= last


def create_group(store: Any, stock: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Let the members of a VPC's default group reach each other, by a rule in the group."""
    group = stock(store, *arguments, **named)
    if group.is_default:
        group.add_ingress_rule(
            SecurityGroupRule(
                store, ALL_PROTOCOLS, group.id, None, None, None, {"GroupId": group.id}, is_egress=False
            )
        )
    return group


def _member(instance: Any) -> _Member:
    groups = tuple(instance.nics[0].group_set)
    vpc = instance.vpc_id
    return _Member(instance.private_ip, vpc, groups or (backend().get_default_security_group(vpc),))


def _rules(member: _Member, others: Iterable[_Member]) -> Rules:
    neighbours = [other for other in others if other.vpc == member.vpc]
    ingress = [rule for group in member.groups for rule in group.ingress_rules]
    egress = [rule for group in member.groups for rule in group.egress_rules]
    out = _let_through(egress, neighbours)
    return Rules(
        _let_through(ingress, neighbours), out | ({ENDPOINT} if any(map(_to_aws, egress)) else set())
    )


def _let_through(rules: Iterable[Any], neighbours: Iterable[_Member]) -> frozenset[Rule]:
    return frozenset(
        Rule(networks, _number(rule), _ports(rule))
        for rule in rules
        if (networks := frozenset(f"{n.address}/32" for n in neighbours if _is_peer(rule, n)))
    )


def _is_peer(rule: Any, neighbour: _Member) -> bool:
    if rule.source_group:
        return any(group.id == rule.source_group.get("GroupId") for group in neighbour.groups)
    return bool(rule.cidr_ipv4) and ipaddress.IPv4Address(neighbour.address) in _network(rule)


def _to_aws(rule: Any) -> bool:
    if not (rule.prefix_list_id or (rule.cidr_ipv4 and AWS in _network(rule))):
        return False
    ports = _ports(rule) or (0, 65535)
    return _number(rule) in (None, PROTOCOLS["tcp"]) and ports[0] <= HTTPS <= ports[1]


def _network(rule: Any) -> ipaddress.IPv4Network:
    return ipaddress.IPv4Network(rule.cidr_ipv4, strict=False)


def _number(rule: Any) -> int | None:
    if rule.ip_protocol == ALL_PROTOCOLS:
        return None
    return PROTOCOLS.get(rule.ip_protocol) or int(rule.ip_protocol)


def _ports(rule: Any) -> tuple[int, int] | None:
    """Return the range of ports or ICMP types, or None for all."""
    first, last = rule.from_port, rule.to_port
    if first is None or first == -1 or _number(rule) not in (ICMP, PROTOCOLS["tcp"], PROTOCOLS["udp"]):
        return None
    return (first, first) if _number(rule) == ICMP else (first, last)
