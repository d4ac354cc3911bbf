"""Edges of the workflow retire, and of the state of a bake that calls the same function."""

from typing import Any

from lambdas.core.edges.common import Answer
from trainyard.values.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class RetireInput:
    """`input` is the execution's, as its caller gave it."""

    input: Any


@dataclass(frozen=True, kw_only=True)
class Retired(Answer):
    kind = "retired"
    report: str


@dataclass(frozen=True, kw_only=True)
class SomeLeft(Answer):
    """EC2 refused some of what should go."""

    kind = "left"
    error: str


class RetireFailed(SomeLeft):
    """What to retire could not be decided at all."""

    kind = "failed"
