"""Edges of every Recover."""

from datetime import datetime
from typing import ClassVar

from lambdas.core.edges.common import Failure
from lambdas.core.model.lazy import dataclass
from lambdas.core.run.recovery import Keep


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What Recover, which may read nothing, is given of the plan."""

    restarts: int
    deadline: datetime


@dataclass(frozen=True, kw_only=True)
class RecoverInput:
    run: str
    attempt: int
    failure: Failure
    plan: Limits
    now: datetime


@dataclass(frozen=True, kw_only=True)
class Retry:
    """Another attempt after so many seconds."""

    kind: ClassVar[str] = "retry"
    seconds: int
    keep: Keep
    lost: tuple[str, ...]
    reason: str
    attempt: int


@dataclass(frozen=True, kw_only=True)
class Stop:
    """No other attempt; nothing of this one is kept."""

    kind: ClassVar[str] = "stop"
    error: str
    reason: str
    attempt: int
    keep: Keep = Keep.NONE
    lost: tuple[str, ...] = ()
