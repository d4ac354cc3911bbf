"""nftables over netlink: expressions, rules, and changes of a network namespace in one kernel transaction.

Not every system has nft or iptables (docs/decisions/0027). Numbers are from linux/netfilter/nf_tables.h.
"""

from __future__ import annotations

import ctypes
import ipaddress
import itertools
import os
import socket
import struct
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

ICMP = 1
ANSWER_SECONDS = 5
CLONE_NEWNET = 0x40000000

EQUAL, LOWER, LOWER_OR_EQUAL, GREATER, GREATER_OR_EQUAL, UNEQUAL = 0, 2, 3, 4, 5, 1
IIFNAME, OIFNAME, SKUID, NFPROTO, L4PROTO = 6, 7, 10, 15, 16
SOURCE, DESTINATION = 12, 16
"""Offsets in an IPv4 header."""
DESTINATION_6 = 24
"""Offset in an IPv6 header."""
IPV4, IPV6 = 2, 10
HOOKS = {"input": 1, "output": 3}

_NEWTABLE, _DELTABLE, _NEWCHAIN, _NEWRULE, _NEWSET, _NEWSETELEM = 0, 2, 3, 6, 9, 12
_NETFILTER, _SUBSYSTEM, _INET = 12, 10, 1
_BATCH_BEGIN, _BATCH_END, _ERROR = 0x10, 0x11, 0x2
_REQUEST, _ACKNOWLEDGE, _CREATE, _APPEND = 0x1, 0x4, 0x400, 0x800
_NESTED = 0x8000
_TCP_RESET, _ANY_ICMP, _PORT_UNREACHABLE = 1, 2, 1

Expression = bytes
Message = bytes

libc = ctypes.CDLL(None, use_errno=True)


class FirewallError(OSError):
    """The kernel refuses the rules. The text has the reason."""


# --- transactions ---


def within(pid: int, messages: Sequence[Message]) -> None:
    """Apply all messages or none in the network namespace of `pid`, if it still exists."""
    failed: list[OSError] = []

    def inside() -> None:
        try:
            with Path(f"/proc/{pid}/ns/net").open("rb") as namespace:
                if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            talk(messages)
        except FileNotFoundError:
            return
        except OSError as error:
            failed.append(error)

    # a namespace belongs to a thread, so this thread ends here
    entering = threading.Thread(target=inside, name=f"firewall of {pid}")
    entering.start()
    entering.join()
    if failed:
        raise FirewallError(f"the rules of a host: {failed[0]}") from failed[0]


def talk(messages: Sequence[Message]) -> None:
    """Apply messages in this thread's namespace. Raise FirewallError for the first refused one."""
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


# --- tables, chains, sets, rules ---


class Table:
    """Messages about a table of the family inet."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._sets = itertools.count(1)

    def add(self) -> Message:
        return _message(_NEWTABLE, text(1, self.name))

    def delete(self) -> Message:
        return _message(_DELTABLE, text(1, self.name))

    def chain(self, name: str, hook: int) -> Message:
        """Return the message that creates a chain. Packets that pass all its rules are accepted."""
        content = nest(4, number(1, hook) + number(2, 0)) + text(7, "filter")
        return _message(_NEWCHAIN, text(1, self.name) + text(3, name) + content)

    def rule(self, chain: str, expressions: Iterable[Expression]) -> Message:
        return _message(_NEWRULE, text(1, self.name) + text(2, chain) + nest(4, b"".join(expressions)))

    def addresses(self, packed: Iterable[bytes]) -> tuple[str, list[Message]]:
        """Return the name of a set of IPv4 addresses, and the messages that create it. One set replaces many rules."""
        count = next(self._sets)
        name = f"hosts{count}"
        elements = b"".join(nest(1, nest(1, attribute(1, address))) for address in packed)
        key = number(4, 7) + number(5, 4)  # IPv4 addresses, of four bytes
        made = text(1, self.name) + text(2, name) + number(3, 0) + key + number(10, count)
        filled = text(1, self.name) + text(2, name) + number(4, count) + nest(3, elements)
        return name, [_message(_NEWSET, made), _message(_NEWSETELEM, filled)]


# --- expressions ---


def attribute(kind: int, content: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(content), kind) + content + b"\0" * (-len(content) % 4)


def nest(kind: int, content: bytes) -> bytes:
    return attribute(kind | _NESTED, content)


def number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack(">I", value))


def text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


def data(kind: int, value: bytes) -> bytes:
    return nest(kind, attribute(1, value))


def expression(name: str, content: bytes) -> Expression:
    return nest(1, text(1, name) + nest(2, content))


def meta(key: int) -> Expression:
    return expression("meta", number(1, 1) + number(2, key))


def payload(base: int, offset: int, length: int) -> Expression:
    return expression("payload", number(1, 1) + number(2, base) + number(3, offset) + number(4, length))


def address(where: int) -> Expression:
    """Load an address from an IPv4 header."""
    return payload(1, where, 4)


def mask(value: bytes) -> Expression:
    content = number(1, 1) + number(2, 1) + number(3, 4) + data(4, value) + data(5, b"\0" * 4)
    return expression("bitwise", content)


def compare(how: int, value: bytes) -> Expression:
    return expression("cmp", number(1, 1) + number(2, how) + data(3, value))


def between(low: bytes, high: bytes) -> list[Expression]:
    return [compare(GREATER_OR_EQUAL, low), compare(LOWER_OR_EQUAL, high)]


def in_network(network: ipaddress.IPv4Network, where: int) -> list[Expression]:
    return [address(where), mask(network.netmask.packed), compare(EQUAL, network.network_address.packed)]


def lookup(name: str) -> Expression:
    return expression("lookup", text(1, name) + number(2, 1))


def interface(key: int, name: str) -> list[Expression]:
    return [meta(key), compare(EQUAL, name.encode().ljust(16, b"\0"))]


def version(of_ip: int) -> list[Expression]:
    return [meta(NFPROTO), compare(EQUAL, bytes([of_ip]))]


def protocol(its: int) -> list[Expression]:
    return [meta(L4PROTO), compare(EQUAL, bytes([its]))]


def _verdict(code: int) -> Expression:
    return expression("immediate", number(1, 0) + nest(2, nest(2, number(1, code))))


ACCEPT, DROP = _verdict(1), _verdict(0)
RESET = expression("reject", number(1, _TCP_RESET) + attribute(2, b"\0"))
REJECT = expression("reject", number(1, _ANY_ICMP) + attribute(2, bytes([_PORT_UNREACHABLE])))
KNOWN = [
    expression("ct", number(1, 1) + number(2, 0)),
    mask(struct.pack("=I", 0b110)),  # established, related
    compare(UNEQUAL, b"\0" * 4),
]


def _message(kind: int, content: bytes) -> Message:
    """Return a message without its number, which `talk` adds."""
    flags = _REQUEST | _ACKNOWLEDGE | (0 if kind == _DELTABLE else _CREATE | _APPEND)
    return struct.pack("=HH", _SUBSYSTEM << 8 | kind, flags) + struct.pack("=BBH", _INET, 0, 0) + content


def _edge(kind: int) -> Message:
    return struct.pack("=HH", kind, _REQUEST) + struct.pack("=BBH", 0, 0, socket.htons(_SUBSYSTEM))
