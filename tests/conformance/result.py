"""The comparison of one answer with AWS's."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """The meaning of a difference for users who run their program here first."""

    SAME = "same"
    FORGIVES = "forgives"
    """AWS refuses, we accept."""
    STRICTER = "stricter"
    """We refuse, AWS accepts."""
    WRONG = "wrong"
    COSMETIC = "cosmetic"
    """Only the wording differs, and no program reads it."""
    UNUSED = "unused"
    """No yard does this: not compared."""


RED = (Verdict.FORGIVES, Verdict.WRONG)


@dataclass(frozen=True)
class Result:
    """The comparison of one case with one of our two models."""

    part: str
    service: str
    model: str
    case: str
    verdict: Verdict
    difference: str = ""
    """The difference, in one line."""

    @property
    def key(self) -> str:
        """The name in the ratchet."""
        return f"{self.part}/{self.model}/{self.case}"
