"""What the local cloud remembers about EC2 beyond moto's store, per account and region."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ministack.core.responses import get_account_id, get_region, request_scope
from moto.ec2.models import ec2_backends

from localcloud.services.ec2.transport import LOCK

if TYPE_CHECKING:
    from localcloud.services.ec2.actions.fleets import Fleet
    from localcloud.services.ec2.actions.spot import SpotRequest

log = logging.getLogger(__name__)

LIVE = ("pending", "running")
"""The states in which an instance takes room, counts against quotas, and can fail."""
GONE = ("shutting-down", "terminated")


@dataclass(frozen=True)
class Answered:
    """What a client token was answered with, and for which parameters."""

    signature: str
    answer: Any
    at: datetime


@dataclass(frozen=True)
class Notice:
    """EC2 will do `action` to a spot instance at `at`."""

    action: str
    at: datetime


@dataclass
class Records:
    """One account's fleets, spot requests, client tokens and interruption notices in one region."""

    fleets: dict[str, Fleet] = field(default_factory=dict)
    spot_requests: dict[str, SpotRequest] = field(default_factory=dict)
    tokens: dict[tuple[str, str], Answered] = field(default_factory=dict)
    notices: dict[str, Notice] = field(default_factory=dict)


_records: dict[tuple[str, str], Records] = {}


def records_of(account: str, region: str) -> Records:
    """The records of this account and region; empty ones the first time."""
    return _records.setdefault((account, region), Records())


def here() -> Records:
    """The records of the current request's account and region."""
    return records_of(get_account_id(), get_region())


def backend() -> Any:
    """moto's store of the current request's account and region."""
    here()  # what moto knows of, we keep
    return ec2_backends[get_account_id()][get_region()]


def tags_of(resource: Any) -> list[dict[str, str]]:
    """Replaces moto's TaggedEC2Resource.get_tags, which looks at every tag of the account for each resource."""
    if not resource.id:
        return []
    tags = resource.ec2_backend.tags.get(resource.id, {})
    return [{"key": key, "value": value, "resource_id": resource.id} for key, value in tags.items()]


def instances() -> Iterator[Any]:
    """Every instance of the current account and region, terminated ones included."""
    for reservation in backend().reservations.values():
        yield from reservation.instances


def instance(instance_id: str) -> Any | None:
    """The instance, or None."""
    return next((found for found in instances() if found.id == instance_id), None)


def found_anywhere(instance_id: str) -> Any | None:
    """The instance in whatever account and region it is, or None."""
    for account, region in list(everything()):
        with request_scope(account, region), LOCK:
            found = instance(instance_id)
        if found is not None:
            return found
    return None


def everything() -> dict[tuple[str, str], Records]:
    """The records of every account and region that was used."""
    return _records


Kept = dict[tuple[str, str], tuple[Any, Records]]


def snapshot() -> Kept:
    """moto's stores and our records, to be pickled together: they share instances."""
    return {(a, r): (ec2_backends[a][r], records) for (a, r), records in _records.items()}


def restore(kept: Kept) -> None:
    """What `snapshot` answered, back in place."""
    for (account, region), (store, records) in kept.items():
        ec2_backends[account][region] = store
        _records[account, region] = records


def now() -> datetime:
    """The current instant, aware."""
    return datetime.now(UTC)


class Timers:
    """Runs functions later, one after the other, in one thread."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._change = threading.Condition()
        threading.Thread(target=self._run_forever, name="ec2-timers", daemon=True).start()

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Call `act` in `seconds`; it must check for itself whether it is still wanted."""
        with self._change:
            heapq.heappush(self._waiting, (time.monotonic() + seconds, next(self._count), act))
            self._change.notify()

    def _run_forever(self) -> None:
        while True:
            act = self._next()
            try:
                act()
            except Exception:  # the others must still run
                log.exception("a timed action failed")

    def _next(self) -> Callable[[], None]:
        with self._change:
            while True:
                if not self._waiting:
                    self._change.wait()
                    continue
                due = self._waiting[0][0] - time.monotonic()
                if due <= 0:
                    return heapq.heappop(self._waiting)[2]
                self._change.wait(due)
