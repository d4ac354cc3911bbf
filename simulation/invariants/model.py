"""The twelve invariants. Each is checked on what a user can see, compared with the ground truth of the world."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Invariant(StrEnum):
    ONE_END = "one end"
    NO_ORPHAN = "no orphan"
    ONE_MODEL = "one model"
    TRUE_LEDGER = "true ledger"
    WHOLE_GANG = "a whole gang, and one"
    SURVIVES = "survives any fault of infrastructure"
    ENDS_IN_TIME = "ends in time"
    NEVER_STUCK = "never waits for what cannot come"
    WITHIN_BUDGETS = "within budgets"
    FORWARD = "never backward"
    ONE_CLAIMANT = "one claimant"
    VERSIONS = "true versions"


@dataclass(frozen=True)
class Broken:
    invariant: Invariant
    what: str
    """The observation."""
    at: datetime


def describe_broken(broken: Sequence[Broken]) -> Iterator[str]:
    for each in broken:
        yield f"{each.invariant}: {each.what}"
