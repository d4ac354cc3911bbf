"""Inputs and answers that several functions share: what state machines, rules and functions pass on.

A class with a `kind` is one answer of a union. tests/unit/workflows/test_state_machines.py walks every state machine
with them."""

from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Self

from lambdas.core.capacity.kept_hosts import KeptHosts
from lambdas.core.run.recovery import Trouble
from trainyard.values.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class RunInput:
    run: str


@dataclass(frozen=True, kw_only=True)
class AttemptInput(RunInput):
    attempt: int


@dataclass(frozen=True, kw_only=True)
class WaitInput(AttemptInput):
    """The input of a state that waits."""

    token: str
    """The task token: the function that learns of the end answers it."""


@dataclass(frozen=True, kw_only=True)
class AdmitInput(RunInput):
    """An execution at its start."""

    execution: str
    """The ARN of the execution. Its name is the run."""
    started: datetime
    input: Any
    """The input of the execution, as its caller gave it."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """An error of another state, as Step Functions caught it. Without an `error` nothing failed."""

    error: str = ""
    cause: str = ""

    @property
    def trouble(self) -> Trouble:
        return Trouble.caught(self.error or "Unknown", self.cause)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer of a state: one kind of a union, with the reason in a sentence."""

    kind: ClassVar[str]
    reason: str


class Admitted(Answer):
    kind = "admitted"


@dataclass(frozen=True, kw_only=True)
class Waits(Answer):
    """The yard is full, the run to resume is saving, or another bake is under way."""

    kind = "waits"
    seconds: int
    """When Admit is called again."""


@dataclass(frozen=True, kw_only=True)
class Caught:
    """A failure with its facts, in the form in which Catch has errors."""

    kind: ClassVar[str] = "error"
    error: str
    cause: str

    @classmethod
    def of(cls, trouble: Trouble) -> Self:
        return cls(error=trouble.error, cause=trouble.to_cause())


@dataclass(frozen=True, kw_only=True)
class Denied(Caught):
    """Answer a task that the role may not fail: the next state begins, and reads in the ledger that the attempt has
    ended."""

    train_seconds: int = 61
    heartbeat_seconds: int = 60


@dataclass(frozen=True, kw_only=True)
class Nothing:
    """The answer of a state that waits. The answer of its token is another."""


class Scope(StrEnum):
    """The hosts that Release ends."""

    ATTEMPT = "attempt"
    """All that the next attempt does not keep."""
    RUN = "run"
    LOST = "lost"
    """The lost hosts only."""


@dataclass(frozen=True, kw_only=True)
class ReleaseInput(RunInput):
    scope: Scope
    attempt: int | None = None
    execution: str | None = None
    """Named by a rule, which does not name the attempt."""
    keep: KeptHosts = KeptHosts.NONE
    """The hosts that the next attempt keeps, except those in `lost`."""
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LastAnswer:
    """The `outcome` of a workflow: the answer of its last state, or the error that was caught."""

    kind: str = "error"
    error: str | None = None
    cause: str | None = None
    reason: str | None = None
    image: str | None = None


@dataclass(frozen=True, kw_only=True)
class ConcludeInput(RunInput):
    execution: str
    outcome: LastAnswer
    started: datetime | None = None
    """None in a call with `cut_short`."""
    cut_short: bool = False
    """True in a call by a rule or by patrol, for an execution that ended before its Conclude."""
    unreleased: Failure = field(default_factory=Failure)
    """How Release failed."""
    unretired: Failure = field(default_factory=Failure)
    """How the retirement of images failed."""
    unimaged: Failure = field(default_factory=Failure)
    """How the image failed that the job wants of its chief."""
    undone: Failure = field(default_factory=Failure)
    """How Undo failed."""


@dataclass(frozen=True, kw_only=True)
class LaunchInput(AttemptInput):
    more: bool = False
    """True for more hosts beside an attempt that trains; False for an attempt that has not begun."""
