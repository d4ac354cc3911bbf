"""Machines: boot, stop, terminate, kill, capture, execute. All are asynchronous; `listeners` get the results.

A host is a process tree below one `boot.py` process, whose child is the host's init. The only connection between this
server and init is a socket. When it closes on this side, the host shuts down.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

from localcloud.base import registries
from localcloud.base.background import in_background
from localcloud.machine.boot import START, Specification
from localcloud.machine.hypervisor import firewall, mounts, nft
from localcloud.machine.hypervisor.disk import Disk, DiskError, Disks
from localcloud.machine.hypervisor.firewall import EVERYTHING, Rules
from localcloud.machine.hypervisor.host import VANISHED, Execution, Host, HostNotRunningError, pause, python
from localcloud.machine.hypervisor.machine import ENDPOINT_ADDRESS, METADATA_ADDRESS, InstanceDetails, Machine
from localcloud.machine.hypervisor.metadata import MetadataServer
from localcloud.machine.hypervisor.netlink import FirewallError
from localcloud.machine.hypervisor.network import Network
from localcloud.machine.hypervisor.usage import Usage, measure

logger = logging.getLogger(__name__)

SESSION_SECONDS = 25 * 3600.0
"""A session lasts a day at most. Another part ends it earlier."""
CONSOLE_SHOWN = 64 * 1024  # limit of GetConsoleOutput

Change = Literal["running", "stopped", "terminated", "powered-off", "died"]


class Hypervisor:
    """All hosts of one state folder. Requires the local cloud's network, process and mount namespaces."""

    def __init__(
        self,
        state: Path,
        endpoint_port: int,
        *,
        grace: float = 150.0,
    ) -> None:
        """`grace` is the number of seconds between a shutdown request and the kill, longer than init's own timeouts.

        Afterwards the bridge has the metadata and endpoint addresses, so that a server can listen on them.
        """
        self.listeners: list[Callable[[str, str, str], None]] = []
        """Called with instance id, event (`Change`) and reason."""
        self.metadata: Callable[[str], InstanceDetails] = lambda instance_id: InstanceDetails()
        self.share: mounts.FindShare = mounts.no_share
        self.rules: Callable[[Collection[str]], Mapping[str, Rules]] = lambda ids: dict.fromkeys(
            ids, EVERYTHING
        )
        """Returns the security group rules of instances. Call `rules_changed` after a change."""
        self.no_firewall = firewall.missing()
        """Why this machine cannot enforce rules, so that all traffic passes; None if it can."""
        self._rules_changed = threading.Event()
        self._wheels: dict[str, Path] = {}
        self._state = state.resolve()
        self._endpoint = f"http://{ENDPOINT_ADDRESS}:{endpoint_port}"
        self._grace = grace
        self._is_closed = False
        self._hosts: dict[str, Host] = {}
        self._lock = threading.RLock()
        self._disks = Disks(self._state)
        self._network = Network()
        self._metadata_server = MetadataServer(self._machine_at, lambda instance: self.metadata(instance))
        self._metadata_server.start()
        if self.no_firewall is None:
            threading.Thread(target=self._keep_rules, name="firewall", daemon=True).start()
        else:
            logger.warning("security groups are not enforced: %s", self.no_firewall)

    def provide_base_image(self, image_id: str, files: Mapping[str, str], wheels: Path | None) -> None:
        """Set the disk content of a base image: files by path, and a folder of this machine at /opt/wheels.

        The folder may be missing until the first host boots. Call this before the first boot.
        """
        self._disks.provide(image_id, files)
        if wheels is not None:
            self._wheels[image_id] = wheels

    # --- interface for EC2 ---

    def boot(self, machine: Machine) -> None:
        """Boot a machine.

        Without a disk of its own it gets a clone of its image's disk. Reports `running` or `died`.
        """
        with self._lock:
            if machine.instance_id in self._hosts:
                raise ValueError(f"{machine.instance_id} is already up")
            host = Host(machine, self._state / "instances" / machine.instance_id)
            self._hosts[machine.instance_id] = host
        in_background(f"host {machine.instance_id}", lambda: self._run(host))

    def stop(self, instance_id: str) -> None:
        """Shut a host down, kill it after the grace period, and keep its disk. Reports `stopped`."""
        self._end(instance_id, "stopped")

    def terminate(self, instance_id: str) -> None:
        """Shut a host down, kill it after the grace period, and delete its disk. Reports `terminated`."""
        self._end(instance_id, "terminated")

    def kill(self, instance_id: str) -> None:
        """Cut a host's power. Reports `died` if the host was up."""
        host = self._hosts.get(instance_id)
        if host is not None:
            host.kill()

    def reboot(self, instance_id: str) -> None:
        """Reboot a host with the same disk and address, which ends a freeze. Reports `running` again."""
        self._up(instance_id).reboot()

    def freeze(self, instance_id: str) -> None:
        """Stop all processes of a running host, including init, without notice."""
        self._up(instance_id).freeze()

    def thaw(self, instance_id: str) -> None:
        """Continue the frozen processes of a host, if it still exists."""
        host = self._hosts.get(instance_id)
        if host is not None:
            host.thaw()

    def send(self, instance_id: str, **order: str) -> None:
        """Send an order to the init of a running host."""
        self._up(instance_id).send(**order)

    def cut(self, instance_id: str) -> None:
        """Drop all packets from and to a running host, also after a reboot."""
        host = self._up(instance_id)
        host.is_cut = True
        self._network.cut(host.machine)

    def reconnect(self, instance_id: str) -> None:
        """End the packet drop of a host, if it still exists."""
        host = self._hosts.get(instance_id)
        if host is not None:
            host.is_cut = False
            self._network.reconnect(host.machine)

    def rules_changed(self) -> None:
        """Apply changed security group rules to every host soon."""
        self._rules_changed.set()

    def capture(
        self, instance_id: str, image_id: str, done: Callable[[str | None], None], *, reboot: bool = False
    ) -> None:
        """Copy a host's disk to a new image, from one instant. `done` gets the error or None.

        A running host is frozen during the copy or, with `reboot`, shut down and booted again.
        """

        def copy() -> None:
            try:
                with pause(host):
                    self._disks.capture(instance_id, image_id)
            except (DiskError, OSError) as error:
                done(str(error))
            else:
                done(None)

        with self._lock:
            host = self._hosts.get(instance_id)
        if reboot and host is not None and host.reboot_around(copy):
            return
        in_background(f"capture {instance_id}", copy)

    def delete_image(self, image_id: str) -> None:
        """Delete an image. Hosts that were launched from it keep working."""
        self._disks.delete_image(image_id)

    def console(self, instance_id: str) -> str:
        """Return the last 64 KiB of output from boot, init and units since the last boot."""
        path = self._state / "instances" / instance_id / "console.log"
        if not path.exists():
            return ""
        with path.open("rb") as console:
            console.seek(max(0, path.stat().st_size - CONSOLE_SHOWN))
            return console.read().decode(errors="replace")

    # --- interface for the SSM agent ---

    def running(self) -> Mapping[str, Machine]:
        """Return the machines whose init is up."""
        with self._lock:
            return {name: host.machine for name, host in self._hosts.items() if host.is_up}

    def impairments(self, instance_id: str) -> frozenset[str]:
        """Return what disconnects software on a host: `frozen`, `cut`, or `fenced` (no rule allows the endpoint)."""
        with self._lock:
            host = self._hosts.get(instance_id)
        if host is None:
            return frozenset()
        found = {"frozen": host.is_frozen, "cut": host.is_cut, "fenced": host.is_fenced}
        return frozenset(word for word in found if found[word])

    def usage(self) -> Mapping[str, Usage]:
        """Return the resource usage of every running host."""
        with self._lock:
            boots = {host.machine.instance_id: host.boot_process() for host in self._hosts.values()}
        return measure({name: pid for name, pid in boots.items() if pid is not None})

    def execute(
        self,
        instance_id: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        timeout: float,
        *,
        output: Path | None = None,
        cwd: str = "/",
        control: socket.socket | None = None,
    ) -> Execution:
        """Run a command as root in its own process group, with the host's environment plus `env`.

        Its output goes to `output`/stdout and `output`/stderr (default: a folder beside the disk). `control` becomes
        its descriptor 3.
        """
        return self._up(instance_id).execute(argv, env, timeout, output, cwd, control)

    def start_session(self, instance_id: str, control: socket.socket, output: Path) -> Execution:
        """Start the agent's part of a session (`guest/session.py`) on the host. `control` carries its order."""
        argv = [python(), "-I", "-S", "-c", START.format("session")]
        return self.execute(instance_id, argv, {}, SESSION_SECONDS, output=output, control=control)

    def close(self) -> None:
        """Kill all hosts at the end of the local cloud. Disks stay, and listeners get no events."""
        with self._lock:
            hosts = list(self._hosts.values())
            self._is_closed = True
        for host in hosts:
            host.kill()
        for host in hosts:
            host.gone.wait(10)
        self._metadata_server.stop()

    # --- internal ---

    def _up(self, instance_id: str) -> Host:
        host = self._hosts.get(instance_id)
        if host is None or not host.is_up:
            raise HostNotRunningError(f"{instance_id} is not running")
        return host

    def _machine_at(self, address: str) -> Machine | None:
        with self._lock:
            return next((h.machine for h in self._hosts.values() if h.machine.private_ip == address), None)

    def _end(self, instance_id: str, wanted: Literal["stopped", "terminated"]) -> None:
        with self._lock:
            host = self._hosts.get(instance_id)
            if host is not None:
                host.wanted = wanted
        if host is None:
            in_background(
                f"end {instance_id}", lambda: self._handle_end(instance_id, wanted, "it was not up")
            )
            return
        host.request_shutdown(self._grace)

    def _run(self, host: Host) -> None:
        """Run a host from boot to end, including reboots."""
        machine = host.machine
        reason = "did not start"
        again = True
        try:
            while again:
                self._start(host)
                reason = self._follow(host)
                host.do_while_down()
                again = host.rebooting and host.wanted is None
        except (OSError, DiskError) as error:
            logger.exception("host %s", machine.instance_id)
            reason = str(error)
            host.kill()
        finally:
            host.do_while_down()
            host.forget_executions()
            self._network.unplug(machine)
            self._release(machine.instance_id)
            with self._lock:
                self._hosts.pop(machine.instance_id, None)
                what: Change = host.wanted or ("powered-off" if host.powered_off else "died")
            host.gone.set()
            self._handle_end(machine.instance_id, what, reason)

    def _keep_rules(self) -> None:
        while True:
            self._rules_changed.wait()
            self._rules_changed.clear()
            with self._lock:
                hosts = dict(self._hosts)
            for instance_id, rules in self.rules(hosts).items():
                try:
                    hosts[instance_id].guard(rules)
                except FirewallError:
                    logger.exception("the rules of %s", instance_id)

    def _guard(self, host: Host) -> None:
        """Apply the first rules before the first packet. Changes in the meantime are applied, too."""
        if self.no_firewall is None:
            name = host.machine.instance_id
            host.guard(self.rules([name]).get(name, Rules()), first=True)
            self.rules_changed()

    def _release(self, instance_id: str) -> None:
        """Release the host's disk before its next boot, and reset its impairments."""
        try:
            self._disks.release(instance_id)
        except OSError:
            logger.exception("the disk of %s", instance_id)

    def _start(self, host: Host) -> None:
        disk = self._disks.prepare(host.machine.instance_id, host.machine.image_id)
        host.start(self._specification(host.machine, disk))

    def _follow(self, host: Host) -> str:
        """Handle the host's messages until its end, and return the reason."""
        reason = VANISHED
        for message in host.messages():
            match message["event"]:
                case "namespaces":
                    self._guard(host)
                    self._network.plug_in(host.machine, host.pid)
                    if host.is_cut:
                        self._network.cut(host.machine)
                    host.send(op="wired")
                case "running":
                    host.is_up = True
                    self._notify(host.machine.instance_id, "running", "init is up")
                case "exited" if not host.powered_off:  # a host that goes down reports nothing more
                    host.finish(message["id"], message["code"])
                case "nft":
                    enforced = self.no_firewall is None
                    code, text = nft.apply(message["ruleset"], host.pid, enforced=enforced)
                    host.send(op="answer", id=message["id"], code=code, text=text)
                case "mount" | "umount":
                    mounts.carry_out(message, host, self._state, self.share)
                case "powering-off":
                    host.powered_off = True
                    host.rebooting = message["reboot"]
                    reason = message["reason"]
                case "failed":
                    reason = message["reason"]
        host.reap()
        if reason == VANISHED:
            logger.warning(
                "host %s: its console ends with: %s", host.machine.instance_id, host.last_printed()
            )
        return reason

    def _handle_end(self, instance_id: str, what: Change, reason: str) -> None:
        if what == "terminated":
            self._disks.delete(instance_id)
        self._notify(instance_id, what, reason)

    def _notify(self, instance_id: str, what: Change, reason: str) -> None:
        logger.info("host %s: %s (%s)", instance_id, what, reason)
        if self._is_closed:
            return
        try:
            for listener in self.listeners:
                listener(instance_id, what, reason)
        except Exception:  # an error in a listener must not prevent the cleanup
            logger.exception("a listener failed at %s: %s", instance_id, what)

    def _specification(self, machine: Machine, disk: Disk) -> Specification:
        wheels = self._wheels.get(disk.base)
        return {
            "instance_id": machine.instance_id,
            "state": str(self._state),
            "layers": disk.layers,
            "hostname": machine.hostname,
            "private_ip": machine.private_ip,
            "neighbours": [METADATA_ADDRESS, ENDPOINT_ADDRESS],
            "python": python(),
            "python_home": sys.base_prefix,
            "wheels": str(wheels.resolve()) if wheels and wheels.is_dir() else None,
            "shared_memory_mib": machine.memory_mib // 2,
            "names": registries.hosts_lines(ENDPOINT_ADDRESS),
            "trusted": str(registries.trusted_in(self._state)),
            "host": {
                "environment": {
                    "PATH": "/run/localcloud/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                    "LANG": "C.UTF-8",
                    "AWS_ENDPOINT_URL": self._endpoint,
                    "AWS_REGION": machine.region,
                },
                "user_data": machine.user_data.decode("latin-1") if machine.user_data else None,
                "instance_id": machine.instance_id,
            },
        }
