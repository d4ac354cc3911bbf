"""Muster: is the whole gang there? Every host must have signalled ready and be known to SSM."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

PATIENCE = timedelta(minutes=20)
"""How long hosts may take from launch to ready: boot (10 minutes and more for the largest types), data, program."""


@dataclass(frozen=True, slots=True)
class Complete:
    kind: ClassVar[str] = "complete"
    reason: str


@dataclass(frozen=True, slots=True)
class Waiting:
    kind: ClassVar[str] = "waiting"
    missing: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The gang will not be complete. `error` is HostLost or MusterTimeout; `lost` are the hosts to replace."""

    kind: ClassVar[str] = "failed"
    error: str
    lost: tuple[str, ...]
    reason: str


def judge(
    hosts: Collection[str],
    *,
    ready: Collection[str],
    online: Collection[str],
    lost: Mapping[str, str],
    now: datetime,
    deadline: datetime,
) -> Complete | Waiting | Failed:
    """`ready`: signalled ready for this attempt. `online`: SSM says PingStatus Online. `lost`: gone, with the reason."""
    raise NotImplementedError
