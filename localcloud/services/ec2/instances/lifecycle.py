"""Instance states: the transitions, their duration, and their events.

In moto, start, stop and terminate take effect at once, and instances never change on their own. Here a machine is
behind each instance, and the states follow the machine.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from ministack.core.responses import request_scope
from ministack.services import iam as ministack_iam
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import ec2_backends
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.models.instances import Instance, InstanceState, StateReason

from localcloud.base.background import Timers
from localcloud.base.settings import Settings
from localcloud.machine.hypervisor import HostNotRunningError, Hypervisor, Machine
from localcloud.services.ec2.instances import spot_requests
from localcloud.services.ec2.store.records import (
    LIVE,
    LOCK,
    backend,
    everything,
    find_anywhere,
    here,
    now,
)
from localcloud.services.eventbridge import service_events

log = logging.getLogger(__name__)

CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}


@dataclass(frozen=True)
class Reason:
    """Why an instance left the running state: `StateReason`, and the text of `StateTransitionReason`."""

    code: str
    text: str
    transition: str

    def state_reason(self) -> StateReason:
        """Return the reason in moto's form."""
        return StateReason(f"{self.code}: {self.text}", self.code)


BY_USER = Reason("Client.UserInitiatedShutdown", "User initiated shutdown", "User initiated")
BY_HOST = Reason("Client.InstanceInitiatedShutdown", "Instance initiated shutdown", "")
BY_SPOT = Reason(
    "Server.SpotInstanceTermination", "Spot instance termination", "Server.SpotInstanceTermination"
)
BY_FAILURE = Reason("Server.InternalError", "The host of the instance failed", "Server.InternalError")


def failed_launch(reason: str) -> Reason:
    """Return the reason for a pending instance whose machine did not start."""
    return Reason("Server.InternalError", f"Internal error on launch: {reason}", "Server.InternalError")


@dataclass(frozen=True)
class Lifecycle:
    """State transitions of instances. Methods that change an instance hold LOCK; the hypervisor never waits for it."""

    settings: Settings
    hypervisor: Hypervisor
    timers: Timers
    changed: Callable[[], None]

    # -- requested by the API

    def launch(self, new: Any, trouble: Reason | None = None) -> None:
        """Start a new instance: pending, then a machine after the boot latency, then running.

        With `trouble` it is terminated.
        """
        self._begin(new, self._boot if trouble is None else partial(self.terminate, reason=trouble))

    def start(self, stopped: Any, trouble: Reason | None = None) -> None:
        """Start a stopped instance on its disk. With `trouble` it is stopped again."""
        Instance.start(stopped)
        stopped.launch_time = now()
        self._begin(stopped, self._boot if trouble is None else partial(self._stopped_again, trouble))

    def stop(self, running: Any, reason: Reason) -> None:
        """End the processes of an instance, then stop it and keep its disk."""
        self._because(running, reason)
        self._set(running, "stopping")
        self.hypervisor.stop(running.id)

    def terminate(self, doomed: Any, reason: Reason) -> None:
        """End the processes of an instance, then delete it and its disk."""
        self._because(doomed, reason)
        had_a_machine = doomed.state != "pending" or getattr(doomed, "booted", False)
        self._set(doomed, "shutting-down")
        here().notices.pop(doomed.id, None)
        spot_requests.close_request_of(doomed, reason.code)
        if had_a_machine:
            self.hypervisor.terminate(doomed.id)
        else:
            self._later(self.settings.latencies.terminate, doomed, "shutting-down", self._finish_termination)

    def fail(self, failing: Any) -> None:
        """Fail an instance's power. Without a machine yet, its launch fails."""
        if failing.state == "pending" and not getattr(failing, "booted", False):
            self.terminate(failing, failed_launch("the host failed"))
        else:
            self.hypervisor.kill(failing.id)

    def reboot(self, running: Any) -> None:
        """Reboot a machine, unless it is already on its way down or up."""
        try:
            self.hypervisor.reboot(running.id)
        except HostNotRunningError:
            log.info("%s is already rebooting", running.id)

    def interrupt_after(self, warned: Any, seconds: float) -> None:
        """Interrupt a spot instance in `seconds`: stop or terminate it, as its request says."""

        def take_back() -> None:
            with request_scope(warned.owner_id, warned.region_name), LOCK:
                if warned.state not in LIVE or here().notices.pop(warned.id, None) is None:
                    return
                behind = spot_requests.request_of(warned)
                if (
                    behind is not None
                    and behind.interruption_behavior == "stop"
                    and warned.state == "running"
                ):
                    self.stop(warned, BY_SPOT)
                else:
                    self.terminate(warned, BY_SPOT)

        self.timers.after(seconds, take_back)

    # -- reported by the hypervisor

    def machine_changed(self, instance_id: str, what: str, reason: str) -> None:
        """Handle an event of the hypervisor."""
        found = find_anywhere(instance_id)
        if found is None:
            log.warning("a machine without an instance changed: %s %s (%s)", instance_id, what, reason)
            return
        with request_scope(found.owner_id, found.region_name), LOCK:
            self._machine_changed(found, what, reason)

    def _machine_changed(self, changed: Any, what: str, reason: str) -> None:
        latencies, state = self.settings.latencies, changed.state
        if what == "running" and state == "pending":
            self._set(changed, "running")
        elif what == "stopped" and state == "stopping":
            self._later(latencies.stop, changed, "stopping", self._finish_stop)
        elif what == "terminated" and state == "shutting-down":
            self._later(latencies.terminate, changed, "shutting-down", self._finish_termination)
        elif what == "powered-off" and state in LIVE:
            self._powered_off(changed)
        elif what == "died" and state in LIVE:
            log.info("%s died: %s", changed.id, reason)
            self.terminate(changed, BY_FAILURE if state == "running" else failed_launch(reason))
        elif what in ("powered-off", "died") and state in ("stopping", "shutting-down"):
            log.info("%s ended by itself while %s", changed.id, state)

    def _powered_off(self, off: Any) -> None:
        """Handle a shutdown from inside by InstanceInitiatedShutdownBehavior.

        Instances that cannot stop are terminated.
        """
        if off.instance_initiated_shutdown_behavior == "terminate" or not spot_requests.may_stop(off):
            self.terminate(off, BY_HOST)
            return
        self._because(off, BY_HOST)
        self._set(off, "stopping")
        self._later(self.settings.latencies.stop, off, "stopping", self._finish_stop)

    # -- transitions

    def _begin(self, starting: Any, then: Callable[[Any], None]) -> None:
        starting.nics[0].mac_address = mac_of(starting.private_ip)
        self._set(starting, "pending")
        self._later(self.settings.latencies.boot, starting, "pending", then)

    def _stopped_again(self, reason: Reason, pending: Any) -> None:
        self._because(pending, reason)
        self._finish_stop(pending)

    def _boot(self, pending: Any) -> None:
        pending.booted = True
        self.hypervisor.boot(machine_of(pending))

    def _finish_stop(self, stopping: Any) -> None:
        because = (stopping._reason, stopping.state_reason)
        Instance.stop(stopping)
        stopping._reason, stopping.state_reason = because
        stopping.booted = False
        spot_requests.disable_request_of(stopping)
        self._set(stopping, "stopped")

    def _finish_termination(self, doomed: Any) -> None:
        because = (doomed._reason, doomed.state_reason)
        Instance.terminate(doomed)
        doomed._reason, doomed.state_reason = because
        self._set(doomed, "terminated")
        self._later(self.settings.latencies.terminated_visible, doomed, "terminated", self._forget)

    def _forget(self, terminated: Any) -> None:
        """Remove a terminated instance from DescribeInstances."""
        reservations = backend().reservations
        for reservation in list(reservations.values()):
            if terminated in reservation.instances:
                reservation.instances.remove(terminated)
                if not reservation.instances:
                    del reservations[reservation.id]
        backend().tags.pop(terminated.id, None)

    def _set(self, changing: Any, state: str) -> None:
        changing._state = InstanceState(state, CODES[state])
        if state == "running":
            changing._reason, changing.state_reason = "", None
        arn = f"arn:aws:ec2:{changing.region_name}:{changing.owner_id}:instance/{changing.id}"
        detail = {"instance-id": changing.id, "state": state}
        service_events.emit("aws.ec2", "EC2 Instance State-change Notification", detail, [arn])
        self.changed()

    def _because(self, changing: Any, reason: Reason) -> None:
        stamp = now().strftime("%Y-%m-%d %H:%M:%S GMT")
        changing._reason = f"{reason.transition} ({stamp})" if reason.transition else ""
        changing.state_reason = reason.state_reason()

    def _later(self, seconds: float, changing: Any, expected: str, act: Callable[[Any], None]) -> None:
        """Call `act` on the instance after `seconds` if it is still in the `expected` state."""

        def fire() -> None:
            with request_scope(changing.owner_id, changing.region_name), LOCK:
                if changing.state == expected:
                    act(changing)

        self.timers.after(seconds, fire)

    def resume(self) -> None:
        """Continue transitions after a restart. Instances that ran are stopped."""
        for account, region in list(everything()):
            with request_scope(account, region), LOCK:
                for reservation in list(ec2_backends[account][region].reservations.values()):
                    for restored in list(reservation.instances):
                        self._resume(restored)
                        notice = here().notices.get(restored.id)
                        if notice is not None:
                            self.interrupt_after(restored, max(0.0, (notice.at - now()).total_seconds()))

    def _resume(self, restored: Any) -> None:
        latencies = self.settings.latencies
        if restored.state in LIVE:
            log.info("%s was running when the local cloud stopped, so it is now stopped", restored.id)
            self._powered_off(restored)
        elif restored.state == "stopping":
            self._later(latencies.stop, restored, "stopping", self._finish_stop)
        elif restored.state == "shutting-down":
            self.hypervisor.terminate(restored.id)
            self._later(latencies.terminate, restored, "shutting-down", self._finish_termination)
        elif restored.state == "terminated":
            self._later(latencies.terminated_visible, restored, "terminated", self._forget)


def role_of(profile: dict[str, Any] | None) -> str | None:
    """Return the name of the role in an instance profile of DescribeInstances."""
    if not profile:
        return None
    known = ministack_iam._lookup_instance_profile("", profile["Arn"])
    roles = known.get("Roles", []) if known else []
    return next((role if isinstance(role, str) else role["RoleName"] for role in roles), None)


def gpus_of(instance_type: str) -> int:
    """Return the number of GPUs of an instance type."""
    gpus = INSTANCE_TYPES[instance_type].get("GpuInfo", {}).get("Gpus", [])
    return sum(int(gpu.get("Count", 0)) for gpu in gpus)


def machine_of(instance: Any) -> Machine:
    """Return the hypervisor's machine for an instance."""
    known = INSTANCE_TYPES[instance.instance_type]
    return Machine(
        instance_id=instance.id,
        image_id=instance.image_id,
        instance_type=instance.instance_type,
        zone=instance.placement.zone,
        region=instance.region_name,
        private_ip=instance.private_ip,
        mac=instance.nics[0].mac_address,
        gpus=gpus_of(instance.instance_type),
        vcpus=int(known["VCpuInfo"]["DefaultVCpus"]),
        memory_mib=int(known["MemoryInfo"]["SizeInMiB"]),
        role=role_of(instance.iam_instance_profile),
        user_data=user_data_of(instance),
        launched_at=aware(instance.launch_time),
    )


def mac_of(private_ip: str) -> str:
    """Return the MAC address for an IP address.

    With random addresses, hosts would send packets to the previous holder of an IP address for a minute.
    """
    return ":".join(f"{byte:02x}" for byte in (0x02, 0x00, *map(int, private_ip.split("."))))


def user_data_of(instance: Any) -> bytes | None:
    """Return the decoded user data for the metadata service."""
    return base64.b64decode(str(instance.user_data)) if instance.user_data else None


def aware(moment: datetime) -> datetime:
    """Convert moto's naive UTC times."""
    return moment if moment.tzinfo else moment.replace(tzinfo=now().tzinfo)


def wrong_state(instance: Any, wanted: str) -> EC2ClientError:
    """Return AWS's error for an action that the instance's state forbids."""
    return EC2ClientError(
        "IncorrectInstanceState",
        f"The instance '{instance.id}' is not in a state from which it can be {wanted}.",
    )
