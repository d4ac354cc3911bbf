"""What is made to go wrong in EC2: images that go wrong, hosts that hang or are cut off."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from localcloud.base.background import Timers
from localcloud.base.injected import Injected
from localcloud.base.quantities import counted
from localcloud.machine.hypervisor import Hypervisor
from localcloud.services.ec2.store.records import now

KEPT_SNAPSHOT_CODES = ("internal-error", "missing-permissions", "client-error", "skipped")
"""What DeregisterImage answers for a snapshot that it did not delete."""
CREATED, DEREGISTERED = "created", "deregistered"

Impairment = Literal["frozen", "cut"]


@dataclass
class Slowed:
    """An image delayed by `seconds` beyond the settings. Ending the fault completes it at once."""

    seconds: float
    finish: Callable[[], None] = lambda: None
    """Set when the disk is copied and nothing but this waiting is left."""


class ImageFaults:
    """Images that go wrong: the next so many end failed or leave their snapshot behind, all take longer."""

    def __init__(self) -> None:
        self._faults: Injected[str] = Injected()
        self._extra_seconds = 0.0
        self._slowed: list[Slowed] = []

    def fail(self, reason: str, times: int) -> None:
        """The next `times` images end `failed` for this reason; 0 takes it back."""
        self._faults.set(CREATED, reason, times)

    def keep_snapshots(self, code: str, times: int) -> None:
        """The next `times` deregistered images leave their snapshot, which is answered with `code`; 0 takes it back."""
        self._faults.set(DEREGISTERED, code, times)

    def take_failure(self) -> str | None:
        """Why the image that is being made will end failed, counted; None when it will not."""
        return self._faults.take(CREATED)

    def take_kept_snapshot(self) -> str | None:
        """What DeregisterImage must answer instead of deleting the snapshot, counted; None when it deletes it."""
        return self._faults.take(DEREGISTERED)

    def slow_down(self, seconds: float) -> None:
        """Delay each image that is created from now on by `seconds` beyond the settings; 0 completes delayed ones."""
        self._extra_seconds = seconds
        if not seconds:
            ended, self._slowed = self._slowed, []
            for slowed in ended:
                slowed.seconds = 0.0
                slowed.finish()

    def take_slowness(self) -> Slowed:
        """How much longer than the settings say the image that is being made takes."""
        slowed = Slowed(self._extra_seconds)
        if slowed.seconds:
            self._slowed.append(slowed)
        return slowed

    def clear(self) -> None:
        """Images are made and go as they should; those that wait are finished now."""
        self._faults.clear()
        self.slow_down(0)

    def active(self) -> list[str]:
        """Which of these faults last, in words."""
        faults = self._faults.active()
        found = [f"every image takes {self._extra_seconds:g} s longer"] if self._extra_seconds else []
        if CREATED in faults:
            found.append(f"fails the next {counted(faults[CREATED][1] or 0, 'image')}: {faults[CREATED][0]}")
        if DEREGISTERED in faults:
            found.append(
                f"keeps the next {counted(faults[DEREGISTERED][1] or 0, 'snapshot')}: {faults[DEREGISTERED][0]}"
            )
        return found


class Impairments:
    """Hosts that hang or are cut off though EC2 calls them running: which, and until when.

    A host's impairments end with it: what is kept here only says when one that still lasts shall end.
    """

    def __init__(self, hypervisor: Hypervisor, timers: Timers) -> None:
        self._hypervisor = hypervisor
        self._timers = timers
        self._lock = threading.RLock()
        self._until: dict[tuple[str, Impairment], datetime | None] = {}

    def impair(self, instance_id: str, kind: Impairment, seconds: float | None) -> datetime | None:
        """Freeze the host or cut its cable, for so many seconds or without end; the instant it will end.

        A second time, only the end changes. HostNotRunningError while the host is not up.
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
        """End a process of the host as its kernel does. HostNotRunningError while the host is not up."""
        self._hypervisor.run_out_of_memory(instance_id, process)

    def end_all(self) -> list[str]:
        """Every host is reachable and works again; which ones did not."""
        with self._lock:
            ended = [
                f"{instance_id} {kind}" for instance_id, kinds in self.active().items() for kind in kinds
            ]
            for instance_id, kind in list(self._until):
                self._end(instance_id, kind)
        return ended

    def active(self) -> dict[str, dict[str, str | None]]:
        """Instance id -> what it suffers from -> until when (None: without end)."""
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
