"""Injected faults in EC2: failing or slow images, and frozen or disconnected hosts."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from localcloud.base.background import Timers
from localcloud.base.injected import Injected
from localcloud.base.quantities import format_count
from localcloud.machine.hypervisor import Hypervisor
from localcloud.services.ec2 import gpu_faults
from localcloud.services.ec2.store.records import now

KEPT_SNAPSHOT_CODES = ("internal-error", "missing-permissions", "client-error", "skipped")
"""Return codes of DeregisterImage for a snapshot that was not deleted."""
CREATED, DEREGISTERED = "created", "deregistered"

Impairment = Literal["frozen", "cut"]


@dataclass
class DelayedImage:
    """An image delayed by `seconds` beyond the settings. Ending the fault completes it at once."""

    seconds: float
    finish: Callable[[], None] = lambda: None
    """Set once the disk is copied and only the delay remains."""


class ImageFaults:
    """Faults of images: the next ones fail or leave their snapshot behind, or all are delayed."""

    def __init__(self) -> None:
        self._faults: Injected[str] = Injected()
        self._extra_seconds = 0.0
        self._slowed: list[DelayedImage] = []

    def fail(self, reason: str, times: int) -> None:
        """Fail the next `times` images with this reason. 0 removes the fault."""
        self._faults.set(CREATED, reason, times)

    def keep_snapshots(self, code: str, times: int) -> None:
        """Keep the snapshots of the next `times` deregistered images and answer `code`. 0 removes the fault."""
        self._faults.set(DEREGISTERED, code, times)

    def take_failure(self) -> str | None:
        """Return the failure reason for this image and count it, or None."""
        return self._faults.take(CREATED)

    def take_kept_snapshot(self) -> str | None:
        """Return the code for a snapshot that must stay and count it, or None."""
        return self._faults.take(DEREGISTERED)

    def slow_down(self, seconds: float) -> None:
        """Delay each image that is created from now on by `seconds` beyond the settings; 0 completes delayed ones."""
        self._extra_seconds = seconds
        if not seconds:
            ended, self._slowed = self._slowed, []
            for slowed in ended:
                slowed.seconds = 0.0
                slowed.finish()

    def take_delay(self) -> DelayedImage:
        """Return the delay for this image."""
        slowed = DelayedImage(self._extra_seconds)
        if slowed.seconds:
            self._slowed.append(slowed)
        return slowed

    def clear(self) -> None:
        """End all image faults and complete delayed images."""
        self._faults.clear()
        self.slow_down(0)

    def active(self) -> list[str]:
        """Return a description of each active fault."""
        faults = self._faults.active()
        found = [f"every image takes {self._extra_seconds:g} s longer"] if self._extra_seconds else []
        if CREATED in faults:
            found.append(
                f"fails the next {format_count(faults[CREATED][1] or 0, 'image')}: {faults[CREATED][0]}"
            )
        if DEREGISTERED in faults:
            found.append(
                f"keeps the next {format_count(faults[DEREGISTERED][1] or 0, 'snapshot')}: {faults[DEREGISTERED][0]}"
            )
        return found


class Impairments:
    """Running hosts that are frozen or disconnected, with end times.

    An impairment ends with its host. The end times here only matter for hosts that still have it.
    """

    def __init__(self, hypervisor: Hypervisor, timers: Timers) -> None:
        self._hypervisor = hypervisor
        self._timers = timers
        self._lock = threading.RLock()
        self._until: dict[tuple[str, Impairment], datetime | None] = {}

    def impair(self, instance_id: str, kind: Impairment, seconds: float | None) -> datetime | None:
        """Freeze or disconnect a host for `seconds` (None: until cleared). Return the end time.

        A second call only changes the end time. Raise HostNotRunningError if the host is not up.
        """
        until = None if seconds is None else now() + timedelta(seconds=seconds)
        with self._lock:
            if kind == "frozen":
                self._hypervisor.freeze(instance_id)
            else:
                self._hypervisor.cut(instance_id)
            self._until[instance_id, kind] = until
        if seconds is not None:
            self._timers.after(seconds, lambda: self._end_if_due(instance_id, kind, until))
        return until

    def run_out_of_memory(self, instance_id: str, process: str) -> None:
        """Kill a process of the host as its kernel does. Raise HostNotRunningError if the host is not up."""
        self._hypervisor.send(instance_id, op="oom", process=process)

    def report_xid(self, instance_id: str, number: int) -> None:
        """Write an Xid into the kernel's log, as NVIDIA's driver does. Raise HostNotRunningError if the host is not
        up."""
        self.report_kernel(instance_id, f"NVRM: Xid (PCI:0000:00:1e): {number}, injected fault")

    def report_kernel(self, instance_id: str, text: str) -> None:
        """Write a message into the kernel's log. Raise HostNotRunningError if the host is not up."""
        self._hypervisor.send(instance_id, op="kernel", text=text)

    def set_gpus(self, instance_id: str, kind: str, gpu: int, count: int) -> None:
        """Give `nvidia-smi` to a host, with a fault of one GPU. Raise HostNotRunningError if the host is not up."""
        state = gpu_faults.state(kind, gpu, count)
        self._hypervisor.send(instance_id, op="gpus", text=json.dumps(state))

    def end_all(self) -> list[str]:
        """End all impairments and return them."""
        with self._lock:
            ended = [
                f"{instance_id} {kind}" for instance_id, kinds in self.active().items() for kind in kinds
            ]
            for instance_id, kind in list(self._until):
                self._end(instance_id, kind)
        return ended

    def active(self) -> dict[str, dict[str, str | None]]:
        """Return the impairments by instance id, each with its end time (None: until cleared)."""
        found: dict[str, dict[str, str | None]] = {}
        with self._lock:
            for (instance_id, kind), until in self._until.items():
                if kind in self._hypervisor.impairments(instance_id):
                    found.setdefault(instance_id, {})[kind] = until.isoformat() if until else None
        return found

    def _end_if_due(self, instance_id: str, kind: Impairment, until: datetime | None) -> None:
        with self._lock:
            if (instance_id, kind) in self._until and self._until[instance_id, kind] == until:
                self._end(instance_id, kind)

    def _end(self, instance_id: str, kind: Impairment) -> None:
        del self._until[instance_id, kind]
        if kind == "frozen":
            self._hypervisor.thaw(instance_id)
        else:
            self._hypervisor.reconnect(instance_id)
