"""Recovery: what happens after an attempt failed. Pure, so its Lambda has no permissions at all."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar


class Keep(StrEnum):
    """Which hosts live on into the next attempt."""

    SURVIVORS = "survivors"  # retire only the lost ones and launch what is missing
    NONE = "none"  # retire all and launch a whole gang


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """How an attempt ended badly: the error word of the Catch and the facts of its cause."""

    error: str
    reason: str = ""
    lost: tuple[str, ...] = ()
    step: int | None = None
    tail: str = ""
    exit_code: int | None = None
    final: bool = False

    @staticmethod
    def caught(error: str, cause: str) -> "Trouble":
        """From `$states.errorOutput`: the cause is our JSON facts, a Lambda's error JSON, or plain text."""
        raise NotImplementedError

    def to_cause(self) -> str:
        """What SendTaskFailure sends as cause; at most 32 KB as Step Functions allows."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """A new attempt after so many seconds."""

    kind: ClassVar[str] = "again"
    after: int
    keep: Keep
    lost: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The run ends here; `error` is the word the execution fails with, `reason` its cause."""

    kind: ClassVar[str] = "stop"
    error: str
    reason: str


def decide(
    trouble: Trouble, *, attempt: int, restarts: int, now: datetime, deadline: datetime, hosts: int
) -> Again | Stop:
    """`attempt` is the one that failed, from 1; `restarts` the job's limit; `hosts` the size of the gang."""
    raise NotImplementedError
