"""The hosts' network: one bridge, a cable to each host, and no route out.

Requires the local cloud's network namespace, because the bridge gets the two link-local addresses. The address
identifies a host; boot.py removes the right to change it.
"""

from __future__ import annotations

import errno
import threading

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from localcloud.machine.hypervisor.machine import ENDPOINT_ADDRESS, METADATA_ADDRESS, Machine

BRIDGE = "hosts0"
BRIDGE_MAC = "02:00:a9:fe:a9:fe"
"""A fixed address, because a bridge without one takes the lowest address of its cables.

It would change as hosts come and go, and remaining hosts would send to the old one for a minute.
"""


class Network:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bridge = self._prepare_bridge()

    def _prepare_bridge(self) -> int:
        with self._lock, IPRoute() as ip:
            _set_up(ip, ip.link_lookup(ifname="lo")[0])
            found = ip.link_lookup(ifname=BRIDGE)
            if not found:
                ip.link("add", ifname=BRIDGE, kind="bridge", address=BRIDGE_MAC)
                found = ip.link_lookup(ifname=BRIDGE)
            bridge: int = found[0]
            for address in (METADATA_ADDRESS, ENDPOINT_ADDRESS):
                ip.addr("replace", index=bridge, address=address, prefixlen=32)
            _set_up(ip, bridge)
            return bridge

    def plug_in(self, machine: Machine, pid: int) -> None:
        """Connect the bridge with `eth0` in the network namespace of `pid`."""
        cable = _cable_name(machine)
        with self._lock, IPRoute() as ip:
            _remove(ip, cable)
            ip.link(
                "add",
                ifname=cable,
                kind="veth",
                peer={"ifname": "eth0", "address": machine.mac, "net_ns_pid": pid},
            )
            index = ip.link_lookup(ifname=cable)[0]
            ip.link("set", index=index, master=self._bridge, state="up")
            ip.route("replace", dst=f"{machine.private_ip}/32", oif=self._bridge, scope="link")

    def cut(self, machine: Machine) -> None:
        """Drop all packets of a machine in both directions, without notice."""
        self._switch(machine, "down")

    def reconnect(self, machine: Machine) -> None:
        self._switch(machine, "up")

    def _switch(self, machine: Machine, state: str) -> None:
        with self._lock, IPRoute() as ip:
            for index in ip.link_lookup(ifname=_cable_name(machine)):
                ip.link("set", index=index, state=state)

    def unplug(self, machine: Machine) -> None:
        """Remove the cable, if it still exists."""
        with self._lock, IPRoute() as ip:
            _remove(ip, _cable_name(machine))
            try:
                ip.route("del", dst=f"{machine.private_ip}/32", oif=self._bridge, scope="link")
            except NetlinkError as error:
                if error.code != errno.ESRCH:  # it was never connected
                    raise


def _set_up(ip: IPRoute, index: int) -> None:
    ip.link("set", index=index, state="up")


def _remove(ip: IPRoute, cable: str) -> None:
    for index in ip.link_lookup(ifname=cable):
        try:
            ip.link("del", index=index)
        except NetlinkError as error:
            if error.code != errno.ENODEV:
                raise


def _cable_name(machine: Machine) -> str:
    """Return an interface name of at most 15 characters. An instance id has 19."""
    return "h-" + machine.instance_id.removeprefix("i-")[-13:]
