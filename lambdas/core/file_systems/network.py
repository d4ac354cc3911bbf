"""Security groups and mount targets, compared with the network of the hosts."""

import ipaddress
from collections.abc import Iterator, Mapping, Sequence

from trainyard.protocol.file_systems import FileSystemKind
from trainyard.values.lazy import dataclass

ALL_PROTOCOLS = "-1"
TCP = ("tcp", "6", ALL_PROTOCOLS)
Ports = tuple[int, int]
"""The first and the last port of a range."""


@dataclass(frozen=True)
class Rule:
    """A rule of a security group."""

    protocol: str
    ports: Ports | None
    """None: all ports."""
    groups: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    has_prefix_list: bool = False
    """True if the rule names a prefix list, whose networks are not read."""

    def covers(self, ports: Ports) -> bool:
        first, last = self.ports or (0, 65535)
        all_ports = self.protocol == ALL_PROTOCOLS or (first <= ports[0] and ports[1] <= last)
        return self.protocol in TCP and all_ports

    def names(self, groups: Sequence[str], network: str) -> bool:
        """Return True if the rule is for a member of one of these groups, in this network."""
        if self.has_prefix_list or set(groups) & set(self.groups):
            return True
        inner = ipaddress.ip_network(network)
        return any(_contains(outer, inner) for outer in self.networks)


@dataclass(frozen=True)
class Group:
    """A security group."""

    id: str
    ingress: tuple[Rule, ...] = ()
    egress: tuple[Rule, ...] = ()


@dataclass(frozen=True)
class MountTarget:
    """An address at which hosts mount a file system."""

    zone: str
    address: str
    vpc: str
    groups: tuple[str, ...]
    is_available: bool = True
    name: str = ""
    """The DNS name that hosts mount instead of the address (FSx)."""


@dataclass(frozen=True)
class Subnet:
    """A subnet of the yard."""

    id: str
    zone: str
    vpc: str
    network: str


@dataclass(frozen=True)
class Network:
    """The network of the yard's hosts."""

    group: str
    """The security group of the hosts."""
    subnets: tuple[Subnet, ...]
    groups: Mapping[str, Group]
    """The security groups of hosts and mount targets, by id."""

    @property
    def vpc(self) -> str:
        return self.subnets[0].vpc

    @property
    def zones(self) -> tuple[str, ...]:
        return tuple(sorted({subnet.zone for subnet in self.subnets}))

    def closed(self, kind: FileSystemKind, target: MountTarget, subnet: Subnet) -> Iterator["Closed"]:
        """Yield the ports that a host of the subnet cannot reach at the target."""
        hosts = self.groups.get(self.group)
        allowing = [
            rule for name in target.groups if name in self.groups for rule in self.groups[name].ingress
        ]
        for ports in kind.ports:
            into = [rule for rule in allowing if rule.covers(ports)]
            if not any(rule.names([self.group], subnet.network) for rule in into):
                yield Closed(target.groups[0] if target.groups else "", ports, source=self.group)
            out = [rule for rule in hosts.egress if rule.covers(ports)] if hosts else []
            if not any(rule.names(target.groups, f"{target.address}/32") for rule in out):
                yield Closed(self.group, ports, toward=target.groups[0] if target.groups else "")


@dataclass(frozen=True)
class Closed:
    """Ports that a security group does not open."""

    group: str
    ports: Ports
    source: str = ""
    """The group of the hosts, if the inbound rules of `group` lack the ports."""
    toward: str = ""
    """The group of the file system, if `group` belongs to the hosts, whose outbound rules lack the ports."""


def _contains(outer: str, inner: "ipaddress.IPv4Network | ipaddress.IPv6Network") -> bool:
    network = ipaddress.ip_network(outer, strict=False)
    if isinstance(network, ipaddress.IPv4Network) and isinstance(inner, ipaddress.IPv4Network):
        return inner.subnet_of(network)
    return False
