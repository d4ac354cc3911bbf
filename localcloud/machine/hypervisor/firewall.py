"""What security groups let through, in each host's own network namespace: nftables, spoken to by netlink.

A host's root may not touch them (boot.py takes CAP_NET_ADMIN). They are stateful, as EC2's: answers to what was let
through pass, whatever the rules say. A change is one transaction of the kernel: there is no moment without rules.
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
    """Packets that pass: to or from these networks, of this protocol's number (None: of all), to these ports (of ICMP:
    of these types; None: to all)."""

    networks: frozenset[str]
    protocol: int | None = None
    ports: tuple[int, int] | None = None


@dataclass(frozen=True)
class Rules:
    """What reaches a host, and what it may reach. A host also reaches itself and its metadata service."""

    ingress: frozenset[Rule] = field(default_factory=frozenset)
    egress: frozenset[Rule] = field(default_factory=frozenset)


OPEN = frozenset({Rule(frozenset({ANYWHERE}))})
EVERYTHING = Rules(OPEN, OPEN)


def missing() -> str | None:
    """Why this kernel keeps no rules, tried in this process's own namespace; None where it does."""
    table = Table(TABLE)
    try:
        netlink.talk([table.add(), table.delete()])
    except OSError as error:
        return str(error)
    return None


def apply(rules: Rules, pid: int) -> None:
    """Put these rules in place of all others in the network namespace of `pid`; fine when it is gone. Raises
    FirewallError."""
    netlink.within(pid, _messages(rules))


def lets_out(rules: Rules, address: str) -> bool:
    """Whether anything may go to this address."""
    where = ipaddress.IPv4Address(address)
    return any(where in ipaddress.IPv4Network(network) for rule in rules.egress for network in rule.networks)


# --- rules as nftables has them ---


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
    passing = [message for rule in sorted(rules, key=repr) for message in _passing(table, name, rule, where)]
    return [
        table.chain(name, netlink.HOOKS[hook]),
        table.rule(name, [*netlink.interface(interface, "lo"), netlink.ACCEPT]),
        table.rule(name, [*netlink.KNOWN, netlink.ACCEPT]),
        *passing,
        table.rule(name, [netlink.DROP]),
    ]


def _passing(table: Table, chain: str, rule: Rule, where: int) -> list[Message]:
    """Addresses of many hosts are one set: a rule for each would be slow to make."""
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
