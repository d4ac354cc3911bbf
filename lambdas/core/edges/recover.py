"""Edges of every Recover."""

from datetime import datetime

from lambdas.core.edges.common import AttemptInput, Failure
from lambdas.core.values.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What Recover, which may read nothing, is given of the plan."""

    restarts: int
    deadline: datetime


@dataclass(frozen=True, kw_only=True)
class RecoverInput(AttemptInput):
    failure: Failure
    plan: Limits
    now: datetime
