"""Edges of the workflow retire, and of the state of a bake that calls the same function."""

from typing import Any, ClassVar

from lambdas.core.values.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class RetireInput:
    """`input` is the execution's, as its caller gave it."""

    input: Any


@dataclass(frozen=True, kw_only=True)
class Retired:
    kind: ClassVar[str] = "retired"
    reason: str
    report: str


@dataclass(frozen=True, kw_only=True)
class SomeLeft:
    """EC2 refused some of what should go."""

    kind: ClassVar[str] = "left"
    error: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class RetireFailed:
    """What to retire could not be decided at all."""

    kind: ClassVar[str] = "failed"
    error: str
    reason: str
