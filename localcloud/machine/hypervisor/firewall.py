"""Security group rules, applied with nftables over netlink in each host's network namespace.

A host's root cannot change them (boot.py drops CAP_NET_ADMIN). As on EC2 they are stateful, so answers to allowed
packets pass. Each change is one kernel transaction, without a moment that lacks rules.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from localcloud.machine.hypervisor import netlink
from localcloud.machine.hypervisor.machine import METADATA_ADDRESS
from localcloud.machine.hypervisor.netlink import Expression, Message, Table

TABLE = "security-groups"
ANYWHERE = "0.0.0.0/0"


@dataclass(frozen=True)
class Rule:
    """Allowed packets: peer networks, protocol number (None: all), and ports (for ICMP: types; None: all)."""

    networks: frozenset[str]
    protocol: int | None = None
    ports: tuple[int, int] | None = None


@dataclass(frozen=True)
class Rules:
    """Inbound and outbound rules of a host. Traffic to itself and its metadata service is always allowed."""

    ingress: frozenset[Rule] = field(default_factory=frozenset)
    egress: frozenset[Rule] = field(default_factory=frozenset)


OPEN = frozenset({Rule(frozenset({ANYWHERE}))})
EVERYTHING = Rules(OPEN, OPEN)


def missing() -> str | None:
    """Return why this kernel cannot enforce rules, tested in this process's namespace, or None."""
    table = Table(TABLE)
    try:
        netlink.talk([table.add(), table.delete()])
    except OSError as error:
        return str(error)
    return None


def apply(rules: Rules, pid: int) -> None:
    """Replace all rules in the network namespace of `pid`, if it still exists. May raise FirewallError."""
    netlink.within(pid, _messages(rules))


def allows_outbound(rules: Rules, address: str) -> bool:
    """Return True if any rule allows traffic to the address."""
    where = ipaddress.IPv4Address(address)
    return any(where in ipaddress.IPv4Network(network) for rule in rules.egress for network in rule.networks)


# --- rules in nftables ---


def _messages(rules: Rules) -> list[Message]:
    own = Rule(frozenset({f"{METADATA_ADDRESS}/32"}))
    table = Table(TABLE)
    return [
        table.add(),
        table.delete(),
        table.add(),
        *_chain(table, "in", "input", netlink.IIFNAME, rules.ingress, netlink.SOURCE),
        *_chain(table, "out", "output", netlink.OIFNAME, rules.egress | {own}, netlink.DESTINATION),
    ]


def _chain(
    table: Table, name: str, hook: str, interface: int, rules: Iterable[Rule], where: int
) -> list[Message]:
    passing = [
        message for rule in sorted(rules, key=repr) for message in _accept_messages(table, name, rule, where)
    ]
    return [
        table.chain(name, netlink.HOOKS[hook]),
        table.rule(name, [*netlink.interface(interface, "lo"), netlink.ACCEPT]),
        table.rule(name, [*netlink.KNOWN, netlink.ACCEPT]),
        *passing,
        table.rule(name, [netlink.DROP]),
    ]


def _accept_messages(table: Table, chain: str, rule: Rule, where: int) -> list[Message]:
    """Return the messages of a rule. Many addresses become one set, because a rule for each is slow to create."""
    parsed = sorted(map(ipaddress.IPv4Network, rule.networks))
    single = [network.network_address.packed for network in parsed if network.prefixlen == 32]
    peers = [netlink.in_network(network, where) for network in parsed if network.prefixlen < 32]
    made: list[Message] = []
    if single:
        name, made = table.addresses(single)
        peers.append([netlink.address(where), netlink.lookup(name)])
    ip = netlink.version(netlink.IPV4)
    return [
        *made,
        *(table.rule(chain, [*ip, *each, *_protocol(rule), netlink.ACCEPT]) for each in peers),
    ]


def _protocol(rule: Rule) -> list[Expression]:
    if rule.protocol is None:
        return []
    found = netlink.protocol(rule.protocol)
    if rule.ports is None:
        return found
    if rule.protocol == netlink.ICMP:
        low, high = (bytes([port]) for port in rule.ports)
        return [*found, netlink.payload(2, 0, 1), *netlink.between(low, high)]
    low, high = (struct.pack(">H", port) for port in rule.ports)
    return [*found, netlink.payload(2, 2, 2), *netlink.between(low, high)]
