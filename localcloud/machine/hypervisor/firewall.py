"""What security groups let through, in each host's own network namespace: nftables, spoken to by netlink.

A host's root may not touch them (boot.py takes CAP_NET_ADMIN). They are stateful, as EC2's: answers to what was let
through pass, whatever the rules say. A change is one transaction of the kernel: there is no moment without rules.
"""

from __future__ import annotations

import ctypes
import ipaddress
import itertools
import os
import socket
import struct
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from localcloud.machine.hypervisor.machine import METADATA_ADDRESS

TABLE = "security-groups"
TCP, UDP, ICMP = 6, 17, 1
ANYWHERE = "0.0.0.0/0"
CLONE_NEWNET = 0x40000000
ANSWER_SECONDS = 5

Expression = bytes

libc = ctypes.CDLL(None, use_errno=True)


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


class FirewallError(OSError):
    """The kernel does not take the rules; the text says why."""


def missing() -> str | None:
    """Why this kernel keeps no rules, tried in this process's own namespace; None where it does."""
    try:
        _talk([_message(_NEWTABLE, _text(1, TABLE)), _message(_DELTABLE, _text(1, TABLE))])
    except OSError as error:
        return str(error)
    return None


def apply(rules: Rules, pid: int) -> None:
    """Put these rules in place of all others in the network namespace of `pid`; fine when it is gone."""
    failed: list[Exception] = []

    def inside() -> None:
        try:
            with Path(f"/proc/{pid}/ns/net").open("rb") as namespace:
                if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            _talk(_messages(rules))
        except FileNotFoundError:
            return
        except OSError as error:
            failed.append(error)

    # a namespace is a thread's own: this one ends there
    entering = threading.Thread(target=inside, name=f"firewall of {pid}")
    entering.start()
    entering.join()
    if failed:
        raise FirewallError(f"the rules of a host: {failed[0]}") from failed[0]


def lets_out(rules: Rules, address: str) -> bool:
    """Whether anything may go to this address."""
    where = ipaddress.IPv4Address(address)
    return any(where in ipaddress.IPv4Network(network) for rule in rules.egress for network in rule.networks)


# --- rules as nftables has them ---


def _messages(rules: Rules) -> list[bytes]:
    own = Rule(frozenset({f"{METADATA_ADDRESS}/32"}))
    sets = _Sets()
    chains = [
        *_chain("in", 1, _interface(_IIFNAME), sets.passing(rules.ingress, _SOURCE, "in")),
        *_chain("out", 3, _interface(_OIFNAME), sets.passing(rules.egress | {own}, _DESTINATION, "out")),
    ]
    begin = [
        _message(_NEWTABLE, _text(1, TABLE)),
        _message(_DELTABLE, _text(1, TABLE)),
        _message(_NEWTABLE, _text(1, TABLE)),
    ]
    return [*begin, *sets.messages, *chains]


def _chain(name: str, hook: int, loopback: list[Expression], passing: Iterable[bytes]) -> list[bytes]:
    base = _message(
        _NEWCHAIN,
        _text(1, TABLE) + _text(3, name) + _nest(4, _number(1, hook) + _number(2, 0)) + _text(7, "filter"),
    )
    return [
        base,
        _rule(name, [*loopback, _ACCEPT]),
        _rule(name, [*_KNOWN, _ACCEPT]),
        *passing,
        _rule(name, [_DROP]),
    ]


class _Sets:
    """Addresses of many hosts are one set: a rule for each would be slow to make."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self._numbers = itertools.count(1)

    def passing(self, rules: Iterable[Rule], where: int, chain: str) -> list[bytes]:
        return [
            _rule(chain, [*_IPV4, *peers, *_protocol(rule), _ACCEPT])
            for rule in sorted(rules, key=repr)
            for peers in self._peers(rule.networks, where)
        ]

    def _peers(self, networks: Iterable[str], where: int) -> list[list[Expression]]:
        parsed = sorted(map(ipaddress.IPv4Network, networks))
        single = [network.network_address.packed for network in parsed if network.prefixlen == 32]
        wide = [_within(network, where) for network in parsed if network.prefixlen < 32]
        return [*wide, [_load(where), _lookup(self._set(single))]] if single else wide

    def _set(self, addresses: list[bytes]) -> str:
        number = next(self._numbers)
        name = f"hosts{number}"
        elements = b"".join(_nest(1, _nest(1, _attribute(1, address))) for address in addresses)
        key = _number(4, 7) + _number(5, 4)  # IPv4 addresses, of four bytes
        self.messages += [
            _message(_NEWSET, _text(1, TABLE) + _text(2, name) + _number(3, 0) + key + _number(10, number)),
            _message(_NEWSETELEM, _text(1, TABLE) + _text(2, name) + _number(4, number) + _nest(3, elements)),
        ]
        return name


def _protocol(rule: Rule) -> list[Expression]:
    if rule.protocol is None:
        return []
    found = [_meta(_L4PROTO), _compare(_EQUAL, bytes([rule.protocol]))]
    if rule.ports is None:
        return found
    if rule.protocol == ICMP:
        return [*found, _payload(2, 0, 1), *_between(bytes([rule.ports[0]]), bytes([rule.ports[1]]))]
    low, high = (struct.pack(">H", port) for port in rule.ports)
    return [*found, _payload(2, 2, 2), *_between(low, high)]


# --- netlink; numbers of linux/netfilter/nf_tables.h ---

_NEWTABLE, _DELTABLE, _NEWCHAIN, _NEWRULE, _NEWSET, _NEWSETELEM = 0, 2, 3, 6, 9, 12
_NETFILTER, _SUBSYSTEM, _INET = 12, 10, 1
_BATCH_BEGIN, _BATCH_END, _ERROR = 0x10, 0x11, 0x2
_REQUEST, _ACKNOWLEDGE, _CREATE, _APPEND = 0x1, 0x4, 0x400, 0x800
_NESTED = 0x8000
_EQUAL, _LOWER_OR_EQUAL, _GREATER_OR_EQUAL, _UNEQUAL = 0, 3, 5, 1
_IIFNAME, _OIFNAME, _NFPROTO, _L4PROTO = 6, 7, 15, 16
_SOURCE, _DESTINATION = 12, 16
"""Where an IPv4 header has them."""


def _attribute(kind: int, content: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(content), kind) + content + b"\0" * (-len(content) % 4)


def _nest(kind: int, content: bytes) -> bytes:
    return _attribute(kind | _NESTED, content)


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack(">I", value))


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _data(kind: int, value: bytes) -> bytes:
    return _nest(kind, _attribute(1, value))


def _expression(name: str, content: bytes) -> Expression:
    return _nest(1, _text(1, name) + _nest(2, content))


def _meta(key: int) -> Expression:
    return _expression("meta", _number(1, 1) + _number(2, key))


def _payload(base: int, offset: int, length: int) -> Expression:
    return _expression("payload", _number(1, 1) + _number(2, base) + _number(3, offset) + _number(4, length))


def _load(where: int) -> Expression:
    return _payload(1, where, 4)


def _mask(value: bytes) -> Expression:
    content = _number(1, 1) + _number(2, 1) + _number(3, 4) + _data(4, value) + _data(5, b"\0" * 4)
    return _expression("bitwise", content)


def _compare(how: int, value: bytes) -> Expression:
    return _expression("cmp", _number(1, 1) + _number(2, how) + _data(3, value))


def _between(low: bytes, high: bytes) -> list[Expression]:
    return [_compare(_GREATER_OR_EQUAL, low), _compare(_LOWER_OR_EQUAL, high)]


def _within(network: ipaddress.IPv4Network, where: int) -> list[Expression]:
    return [_load(where), _mask(network.netmask.packed), _compare(_EQUAL, network.network_address.packed)]


def _lookup(name: str) -> Expression:
    return _expression("lookup", _text(1, name) + _number(2, 1))


def _interface(key: int) -> list[Expression]:
    return [_meta(key), _compare(_EQUAL, b"lo".ljust(16, b"\0"))]


def _verdict(code: int) -> Expression:
    return _expression("immediate", _number(1, 0) + _nest(2, _nest(2, _number(1, code))))


_ACCEPT, _DROP = _verdict(1), _verdict(0)
_IPV4 = [_meta(_NFPROTO), _compare(_EQUAL, bytes([2]))]
_KNOWN = [
    _expression("ct", _number(1, 1) + _number(2, 0)),
    _mask(struct.pack("=I", 0b110)),  # established, related
    _compare(_UNEQUAL, b"\0" * 4),
]


def _rule(chain: str, expressions: list[Expression]) -> bytes:
    return _message(_NEWRULE, _text(1, TABLE) + _text(2, chain) + _nest(4, b"".join(expressions)))


def _message(kind: int, content: bytes) -> bytes:
    """Without its number, which `_talk` gives."""
    flags = _REQUEST | _ACKNOWLEDGE | (0 if kind == _DELTABLE else _CREATE | _APPEND)
    return struct.pack("=HH", _SUBSYSTEM << 8 | kind, flags) + struct.pack("=BBH", _INET, 0, 0) + content


def _edge(kind: int) -> bytes:
    return struct.pack("=HH", kind, _REQUEST) + struct.pack("=BBH", 0, 0, socket.htons(_SUBSYSTEM))


def _talk(messages: list[bytes]) -> None:
    """All messages in one transaction; FirewallError for the first that the kernel refuses."""
    batch = b""
    for number, message in enumerate([_edge(_BATCH_BEGIN), *messages, _edge(_BATCH_END)]):
        batch += (
            struct.pack("=I", 12 + len(message)) + message[:4] + struct.pack("=II", number, 0) + message[4:]
        )
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER) as netlink:
        netlink.settimeout(ANSWER_SECONDS)
        netlink.bind((0, 0))
        netlink.send(batch)
        waiting = set(range(1, len(messages) + 1))
        while waiting:
            answers = netlink.recv(1 << 16)
            while answers:
                length, kind, _, number, _, error = struct.unpack_from("=IHHIIi", answers)
                if kind == _ERROR and error:
                    raise FirewallError(
                        f"nftables: {os.strerror(-error)} (message {number} of {len(messages)})"
                    )
                waiting.discard(number)
                answers = answers[length + -length % 4 :]
