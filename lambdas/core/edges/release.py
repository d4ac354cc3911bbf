"""Edges of Release, which train, bake and launch share."""

from enum import StrEnum

from lambdas.core.edges.common import RunInput
from lambdas.core.run.recovery import KeptHosts
from lambdas.core.values.lazy import dataclass


class Scope(StrEnum):
    """Whose hosts Release ends."""

    ATTEMPT = "attempt"
    RUN = "run"


@dataclass(frozen=True, kw_only=True)
class ReleaseInput(RunInput):
    """`keep` and `lost`: which hosts the next attempt goes on with. A rule names the execution, and no attempt."""

    scope: Scope
    attempt: int | None = None
    execution: str | None = None
    keep: KeptHosts = KeptHosts.NONE
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Released:
    """`hosts`: what became of the first twenty, each with its reason."""

    hosts: tuple[str, ...]
    reason: str = ""
