"""Hosts that hang or are cut off though EC2 calls them running: which, and until when.

A host's impairments end with it: what is kept here only says when one that still lasts shall end.
"""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import Literal

from localcloud.services.ec2.actions.base import world
from localcloud.services.ec2.store.records import now

Impairment = Literal["frozen", "cut"]

_lock = threading.RLock()
_until: dict[tuple[str, Impairment], datetime | None] = {}


def impair(instance_id: str, kind: Impairment, seconds: float | None) -> datetime | None:
    """Freeze the host or cut its cable, for so many seconds or without end; the instant it will end.

    Said again, only the end changes. HostNotRunningError while the host is not up.
    """
    until = None if seconds is None else now() + timedelta(seconds=seconds)
    with _lock:
        if kind == "frozen":
            world().hypervisor.freeze(instance_id)
        else:
            world().hypervisor.cut(instance_id)
        _until[instance_id, kind] = until
    if seconds is not None:
        world().timers.after(seconds, lambda: _end_if_due(instance_id, kind, until))
    return until


def end_all() -> list[str]:
    """Every host hears and works again; which ones did not."""
    with _lock:
        ended = [f"{instance_id} {kind}" for instance_id, kinds in standing().items() for kind in kinds]
        for instance_id, kind in list(_until):
            _end(instance_id, kind)
    return ended


def standing() -> dict[str, dict[str, str | None]]:
    """Instance id -> what it suffers from -> until when (None: without end)."""
    found: dict[str, dict[str, str | None]] = {}
    with _lock:
        for (instance_id, kind), until in _until.items():
            if kind in world().hypervisor.impairments(instance_id):
                found.setdefault(instance_id, {})[kind] = until.isoformat() if until else None
    return found


def _end_if_due(instance_id: str, kind: Impairment, until: datetime | None) -> None:
    with _lock:
        if (instance_id, kind) in _until and _until[instance_id, kind] == until:
            _end(instance_id, kind)


def _end(instance_id: str, kind: Impairment) -> None:
    del _until[instance_id, kind]
    if kind == "frozen":
        world().hypervisor.thaw(instance_id)
    else:
        world().hypervisor.mend(instance_id)
