"""The part of `nft --json --file -` that a host's root may use.

A host's root lacks CAP_NET_ADMIN, so init passes the ruleset to the server, which calls the kernel (netlink.py). The
table of the security groups is protected, because on AWS it is not on the host.
"""

from __future__ import annotations

import ipaddress
import json
import struct
from collections.abc import Callable, Mapping
from typing import Any

from localcloud.machine.hypervisor import firewall, netlink
from localcloud.machine.hypervisor.netlink import Expression, FirewallError, Message, Table

TRANSPORT = {"tcp": 6, "udp": 17}
HOW = {
    "==": netlink.EQUAL,
    "!=": netlink.UNEQUAL,
    "<": netlink.LOWER,
    "<=": netlink.LOWER_OR_EQUAL,
    ">": netlink.GREATER,
    ">=": netlink.GREATER_OR_EQUAL,
}
KNOWN_STATES = ["established", "related"]


class UnknownToNftError(Exception):
    """An unsupported or wrong part of a ruleset, in nft's words without `Error: `."""


def apply(ruleset: str, pid: int, *, enforced: bool) -> tuple[int, str]:
    """Apply a ruleset in the network namespace of `pid`, all or nothing. Return nft's exit code and output.

    If this machine cannot enforce rules, the ruleset is still validated.
    """
    try:
        messages = parse_ruleset(ruleset)
        if enforced:
            netlink.within(pid, messages)
    except UnknownToNftError as unknown:
        return 1, f"Error: {unknown}"
    except FirewallError as error:
        return 1, f"Error: Could not process rule: {error}"
    return 0, ""


def parse_ruleset(ruleset: str) -> list[Message]:
    """Return the messages of a ruleset. Raise UnknownToNftError for an unsupported part."""
    try:
        commands = json.loads(ruleset)["nftables"]
        return [message for command in commands for message in _command(command)]
    except (ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise UnknownToNftError(f"Invalid JSON schema or value: {error!r}") from error


def _command(command: Mapping[str, Any]) -> list[Message]:
    ((verb, target),) = command.items()
    ((kind, of),) = target.items()
    if kind not in ("table", "chain", "rule"):
        raise UnknownToNftError(f"{verb} {kind} is not known here")
    if of["family"] != "inet":
        raise UnknownToNftError(f"family {of['family']!r} is not known here (only inet)")
    table = Table(of["name"] if kind == "table" else of["table"])
    if table.name == firewall.TABLE:
        raise UnknownToNftError("Could not process rule: Operation not permitted")
    match verb, kind:
        case "add", "table":
            return [table.add()]
        case "delete", "table":
            return [table.delete()]
        case "add", "chain" if (of["type"], of["prio"], of.get("policy", "accept")) == (
            "filter",
            0,
            "accept",
        ):
            return [table.chain(of["name"], netlink.HOOKS[of["hook"]])]
        case "add", "rule":
            return _rule(table, of["chain"], of["expr"])
    raise UnknownToNftError(f"{verb} {kind} {of} is not known here")


def _rule(table: Table, chain: str, statements: list[dict[str, Any]]) -> list[Message]:
    made: list[Message] = []
    expressions: list[Expression] = []
    for statement in statements:
        ((word, of),) = statement.items()
        match word:
            case "match":
                sets, found = _match(table, of["op"], of["left"], of["right"])
                made += sets
                expressions += found
            case "accept":
                expressions.append(netlink.ACCEPT)
            case "drop":
                expressions.append(netlink.DROP)
            case "reject" if of is None:
                expressions.append(netlink.REJECT)
            case "reject" if of == {"type": "tcp reset"}:
                expressions.append(netlink.RESET)
            case _:
                raise UnknownToNftError(f"statement {statement} is not known here")
    return [*made, table.rule(chain, expressions)]


def _match(
    table: Table, how: str, left: Mapping[str, Any], right: Any
) -> tuple[list[Message], list[Expression]]:
    ((what, of),) = left.items()
    match what, of:
        case "ct", {"key": "state"} if (how, sorted(right)) == ("in", KNOWN_STATES):
            return [], list(netlink.KNOWN)
        case "meta", {"key": key} if how == "==" and key in META:
            return [], META[key](right)
        case "payload", {"protocol": "ip", "field": "saddr" | "daddr" as end} if how == "==":
            return _address(table, netlink.SOURCE if end == "saddr" else netlink.DESTINATION, right)
        case "payload", {"protocol": "ip6", "field": "daddr"} if how == "==":
            found = netlink.payload(1, netlink.DESTINATION_6, 16)
            packed = ipaddress.IPv6Address(right).packed
            return [], [*netlink.version(netlink.IPV6), found, netlink.compare(netlink.EQUAL, packed)]
        case "payload", {"protocol": "tcp" | "udp" as transport, "field": "dport"} if how in HOW:
            port = netlink.compare(HOW[how], struct.pack(">H", right))
            return [], [*netlink.protocol(TRANSPORT[transport]), netlink.payload(2, 2, 2), port]
    raise UnknownToNftError(f"match {how} of {dict(left)} and {right!r} is not known here")


def _address(table: Table, where: int, right: Any) -> tuple[list[Message], list[Expression]]:
    """Return the expressions for one address, or for an anonymous set of several."""
    ip = netlink.version(netlink.IPV4)
    if isinstance(right, str):
        packed = ipaddress.IPv4Address(right).packed
        return [], [*ip, netlink.address(where), netlink.compare(netlink.EQUAL, packed)]
    name, made = table.addresses(ipaddress.IPv4Address(each).packed for each in right["set"])
    return made, [*ip, netlink.address(where), netlink.lookup(name)]


META: Mapping[str, Callable[[Any], list[Expression]]] = {
    "iifname": lambda name: netlink.interface(netlink.IIFNAME, name),
    "oifname": lambda name: netlink.interface(netlink.OIFNAME, name),
    "l4proto": lambda name: netlink.protocol(TRANSPORT[name]),
    "skuid": lambda uid: [
        netlink.meta(netlink.SKUID),
        netlink.compare(netlink.EQUAL, struct.pack("=I", uid)),
    ],
}
