"""Machines: boot, stop, terminate, kill, capture, execute. Every act is asynchronous; `listeners` get what happened.

A host is a process tree under one `boot.py` process, whose child is the host's init. The socket between this server and
init is the host's only cable to it: when it closes on this side, the host goes down.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

from localcloud.base.background import in_background
from localcloud.machine.boot import START, Specification
from localcloud.machine.hypervisor import firewall, nft
from localcloud.machine.hypervisor.disk import Disk, DiskError, Disks
from localcloud.machine.hypervisor.firewall import EVERYTHING, Rules
from localcloud.machine.hypervisor.host import VANISHED, Execution, Host, HostNotRunningError, python, stopped
from localcloud.machine.hypervisor.machine import ENDPOINT_ADDRESS, METADATA_ADDRESS, InstanceDetails, Machine
from localcloud.machine.hypervisor.metadata import MetadataServer
from localcloud.machine.hypervisor.netlink import FirewallError
from localcloud.machine.hypervisor.network import Network
from localcloud.machine.hypervisor.usage import Usage, measure

logger = logging.getLogger(__name__)

SESSION_SECONDS = 25 * 3600.0
"""A session lasts a day at most, and its end is another's to see to."""
CONSOLE_SHOWN = 64 * 1024  # as much as GetConsoleOutput gives

Change = Literal["running", "stopped", "terminated", "powered-off", "died"]


class Hypervisor:
    """All hosts of one state folder. Needs the network, process and mount namespaces of the local cloud around it."""

    def __init__(
        self,
        state: Path,
        endpoint_port: int,
        *,
        grace: float = 150.0,
    ) -> None:
        """`grace`: seconds between asking a host down and killing it; its init has given up long before.

        Once this returns the bridge has the metadata and endpoint addresses, so that a server can listen on them.
        """
        self.listeners: list[Callable[[str, str, str], None]] = []
        """Called with the instance id, what happened (`Change`) and why."""
        self.metadata: Callable[[str], InstanceDetails] = lambda instance_id: InstanceDetails()
        self.rules: Callable[[Collection[str]], Mapping[str, Rules]] = lambda ids: dict.fromkeys(
            ids, EVERYTHING
        )
        """What security groups let through, of each of these instances; `rules_changed` has it asked again."""
        self.no_firewall = firewall.missing()
        """Why this machine cannot enforce it, then everything passes; None where it can."""
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
        self._metadata_server = MetadataServer(
            self._machine_at, lambda instance_id: self.metadata(instance_id)
        )
        self._metadata_server.start()
        if self.no_firewall is None:
            threading.Thread(target=self._keep_rules, name="firewall", daemon=True).start()
        else:
            logger.warning("security groups are not enforced: %s", self.no_firewall)

    def provide_base_image(self, image_id: str, files: Mapping[str, str], wheels: Path | None) -> None:
        """What hosts of this image, and of images made from it, find on their disk: files by path, and a folder of
        this machine at /opt/wheels, which need not exist yet. Before the first host boots.
        """
        self._disks.provide(image_id, files)
        if wheels is not None:
            self._wheels[image_id] = wheels

    # --- for EC2 ---

    def boot(self, machine: Machine) -> None:
        """Start it; with a clone of its image's disk when it has none of its own. Answers `running` or `died`."""
        with self._lock:
            if machine.instance_id in self._hosts:
                raise ValueError(f"{machine.instance_id} is already up")
            host = Host(machine, self._state / "instances" / machine.instance_id)
            self._hosts[machine.instance_id] = host
        in_background(f"host {machine.instance_id}", lambda: self._run(host))

    def stop(self, instance_id: str) -> None:
        """Ask it down, kill it after the grace, keep its disk. Answers `stopped`; at once when it is not up."""
        self._end(instance_id, "stopped")

    def terminate(self, instance_id: str) -> None:
        """The same and delete its disk. Answers `terminated`."""
        self._end(instance_id, "terminated")

    def kill(self, instance_id: str) -> None:
        """As if its power failed: nothing on it is asked or warned. Answers `died`; nothing when it is not up."""
        host = self._hosts.get(instance_id)
        if host is not None:
            host.kill()

    def reboot(self, instance_id: str) -> None:
        """Down and up again with the same disk and address, which ends a hang. Answers `running` once more."""
        self._up(instance_id).reboot()

    def freeze(self, instance_id: str) -> None:
        """Every process on it stops where it is, init too, and nobody is told: it hangs. For a host that is up."""
        self._up(instance_id).freeze()

    def thaw(self, instance_id: str) -> None:
        """The frozen processes go on; nothing when it is gone."""
        host = self._hosts.get(instance_id)
        if host is not None:
            host.thaw()

    def run_out_of_memory(self, instance_id: str, process: str) -> None:
        """Its kernel ends the process that has most memory, of those with `process` in their command line."""
        self._up(instance_id).send(op="oom", process=process)

    def cut(self, instance_id: str) -> None:
        """No packet reaches it or comes from it, a reboot included. For a host that is up."""
        host = self._up(instance_id)
        host.is_cut = True
        self._network.cut(host.machine)

    def reconnect(self, instance_id: str) -> None:
        """Its cable carries packets again; nothing when it is gone."""
        host = self._hosts.get(instance_id)
        if host is not None:
            host.is_cut = False
            self._network.reconnect(host.machine)

    def rules_changed(self) -> None:
        """What security groups let through may be something else now: every host gets its rules anew, soon."""
        self._rules_changed.set()

    def capture(
        self, instance_id: str, image_id: str, done: Callable[[str | None], None], *, reboot: bool = False
    ) -> None:
        """Copy its disk as a new image, at one instant: a running host is frozen meanwhile or, with `reboot`, taken
        down, copied and brought up again. `done` is given what went wrong, or None.
        """

        def copy() -> None:
            try:
                with stopped(host):
                    self._disks.capture(instance_id, image_id)
            except (DiskError, OSError) as error:
                done(str(error))
                return
            done(None)

        with self._lock:
            host = self._hosts.get(instance_id)
        if reboot and host is not None and host.reboot_around(copy):
            return
        in_background(f"capture {instance_id}", copy)

    def delete_image(self, image_id: str) -> None:
        """Hosts that were launched from it keep working."""
        self._disks.delete_image(image_id)

    def console(self, instance_id: str) -> str:
        """What boot, init and units printed since the last boot, the last 64 KiB of it."""
        path = self._state / "instances" / instance_id / "console.log"
        if not path.exists():
            return ""
        with path.open("rb") as console:
            console.seek(max(0, path.stat().st_size - CONSOLE_SHOWN))
            return console.read().decode(errors="replace")

    # --- for the SSM agent ---

    def running(self) -> Mapping[str, Machine]:
        """The machines whose init is up."""
        with self._lock:
            return {name: host.machine for name, host in self._hosts.items() if host.is_up}

    def impairments(self, instance_id: str) -> frozenset[str]:
        """What keeps the software on it from hearing and answering: `frozen`, `cut`, `fenced` (its rules let nothing
        out to the endpoint)."""
        with self._lock:
            host = self._hosts.get(instance_id)
        if host is None:
            return frozenset()
        found = (("frozen", host.is_frozen), ("cut", host.is_cut), ("fenced", host.is_fenced))
        return frozenset(word for word, holds in found if holds)

    def usage(self) -> Mapping[str, Usage]:
        """What the processes of every host use that is up."""
        with self._lock:
            hosts = list(self._hosts.values())
        boots = {host.machine.instance_id: host.boot_process() for host in hosts}
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
        """Run as root in a process group of its own, with the host's environment plus `env`.

        Its output is in `output`/stdout and `output`/stderr (a folder beside the disk when not given). `control` is its
        descriptor 3.
        """
        return self._up(instance_id).execute(argv, env, timeout, output, cwd, control)

    def start_session(self, instance_id: str, control: socket.socket, output: Path) -> Execution:
        """The agent's part of a session (`guest/session.py`), on the host; through `control` it is told what it is."""
        argv = [python(), "-I", "-S", "-c", START.format("session")]
        return self.execute(instance_id, argv, {}, SESSION_SECONDS, output=output, control=control)

    def close(self) -> None:
        """Take every host down at once, as at the end of the local cloud; disks stay, and nobody is told."""
        with self._lock:
            hosts = list(self._hosts.values())
            self._is_closed = True
        for host in hosts:
            host.kill()
        for host in hosts:
            host.gone.wait(10)
        self._metadata_server.stop()

    # --- inside ---

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
            in_background(f"end {instance_id}", lambda: self._ended(instance_id, wanted, "it was not up"))
            return
        host.ask_down(self._grace)

    def _run(self, host: Host) -> None:
        """A host's whole life, boot to end; reboots included."""
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
            self._ended(machine.instance_id, what, reason)

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
        """Its first rules, before its first packet; changes that come meanwhile are not missed."""
        if self.no_firewall is None:
            name = host.machine.instance_id
            host.guard(self.rules([name]).get(name, Rules()), first=True)
            self.rules_changed()

    def _release(self, instance_id: str) -> None:
        """What is left lying is taken away before the next boot; a host that has ended is told of whatever happens."""
        try:
            self._disks.release(instance_id)
        except OSError:
            logger.exception("the disk of %s", instance_id)

    def _start(self, host: Host) -> None:
        disk = self._disks.prepare(host.machine.instance_id, host.machine.image_id)
        host.start(self._specification(host.machine, disk))

    def _follow(self, host: Host) -> str:
        """Serve the host's messages until it is gone; why it went."""
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
                case "exited" if not host.powered_off:  # going down, a host's agent reports nothing any more
                    host.finish(message["id"], message["code"])
                case "nft":
                    enforced = self.no_firewall is None
                    code, text = nft.apply(message["ruleset"], host.pid, enforced=enforced)
                    host.send(op="answer", id=message["id"], code=code, text=text)
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

    def _ended(self, instance_id: str, what: Change, reason: str) -> None:
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
        except Exception:  # a listener's fault must not keep the host from being cleaned up
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
