"""Edges of the workflow train. Bake and launch plan and launch their host with the same functions."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from lambdas.core.capacity.placement import GiveUp, RetireFirst, TryLater
from lambdas.core.edges.common import Answer, AttemptInput, RunInput
from trainyard.core.model.job import ImageWhen
from trainyard.values.lazy import dataclass


class Overdue(StrEnum):
    """The state whose wait was too long."""

    AWAIT_HOSTS = "AwaitHosts"
    TRAIN = "Train"


@dataclass(frozen=True, kw_only=True)
class ToPlan(Answer):
    """A job without faults, of which somebody wants the plan alone; `warnings`: what of it will probably fail."""

    kind = "dry_run"
    job: Mapping[str, Any]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class NotPlanned(Answer):
    """The job of which somebody wants the plan would be refused: the error and every reason."""

    kind = "not_planned"
    error: str


@dataclass(frozen=True, kw_only=True)
class PlanInput(RunInput):
    """The run to plan; or, where nobody wants more of it than that, its `job`, which no ledger has."""

    job: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Outlook(Answer):
    """What a run of the job would try: `plan` as in plan.json, and how many vCPUs each quota that counts has.
    `pool_dollars`: what those hosts may cost, in the first pool, that would wait for another run; None where none
    do."""

    kind = "outlook"
    plan: Mapping[str, Any]
    quotas: Mapping[str, float]
    warnings: tuple[str, ...] = ()
    pool_dollars: float | None = None


@dataclass(frozen=True, kw_only=True)
class AwaitHostsInput(AttemptInput):
    """Wait with this `token`, or say why the wait of the state that is `overdue` was too long."""

    token: str | None = None
    overdue: Overdue | None = None


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What later states route on and what Recover, which may read nothing, has to know."""

    kind: ClassVar[str] = "planned"
    hosts: int
    restarts: int
    deadline: datetime
    snapshot: ImageWhen
    elastic: bool


@dataclass(frozen=True, kw_only=True)
class LaunchInput(AttemptInput):
    """`more`: this attempt trains, and more hosts are wanted beside it; else it has yet to begin."""

    more: bool = False


class Grown(Answer):
    """What came of asking for more hosts, for the log."""

    kind = "grown"


@dataclass(frozen=True, kw_only=True)
class Launched(Answer):
    """The gang is there; `ready_seconds` is how long it may need to get ready."""

    kind = "launched"
    ready_seconds: int


class PoolRefused(Answer):
    """This pool has no room; the next one is asked at once."""

    kind = "refused"


LaunchAnswer = Launched | Grown | PoolRefused | TryLater | RetireFirst | GiveUp


@dataclass(frozen=True, kw_only=True)
class GangReady(Answer):
    """What answers the token of AwaitHosts; the seconds are what Train may take, and may take without progress."""

    kind = "gang_ready"
    train_seconds: int
    heartbeat_seconds: int


@dataclass(frozen=True, kw_only=True)
class Alive(Answer):
    """The answer of the look at an overdue Train if the attempt goes on: Train waits again, for these seconds."""

    kind = "alive"
    train_seconds: int
    heartbeat_seconds: int


@dataclass(frozen=True, kw_only=True)
class Finished(Answer):
    """What answers the token of Train when the program ended well."""

    kind = "finished"
    step: int | None
