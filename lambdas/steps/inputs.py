"""Inputs and answers that state machines, rules and functions share.

A class with a `kind` is one answer of a union. tests/unit/workflows/test_state_machines.py checks them on every path of
the state machines."""

from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Self

from lambdas.core.capacity.retained_hosts import RetainedHosts
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

    task_token: str
    """The function that detects the end of the wait answers it."""


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
    """The time until Admit is called again."""


class AfterRuns(Answer):
    """The run waits for the end of other runs, without a slot."""

    kind = "after"


@dataclass(frozen=True, kw_only=True)
class Caught:
    """A failure in the format of Catch."""

    kind: ClassVar[str] = "error"
    error: str
    cause: str

    @classmethod
    def of(cls, trouble: Trouble) -> Self:
        return cls(error=trouble.error, cause=trouble.to_cause())


@dataclass(frozen=True, kw_only=True)
class Denied(Caught):
    """The answer of a task that the role may not fail. The next state begins and finds the end of the attempt in the
    ledger."""

    train_seconds: int = 61
    heartbeat_seconds: int = 60


@dataclass(frozen=True, kw_only=True)
class Nothing:
    """The answer of the function of a waiting state. Its task gets its own answer later."""


class Scope(StrEnum):
    """The hosts that Release ends."""

    ATTEMPT = "attempt"
    """All hosts that the next attempt does not keep."""
    RUN = "run"
    LOST = "lost"
    """The lost hosts only."""


@dataclass(frozen=True, kw_only=True)
class ReleaseInput(RunInput):
    scope: Scope
    attempt: int | None = None
    execution: str | None = None
    """The execution, in calls by a rule. A rule does not pass the attempt."""
    keep: RetainedHosts = RetainedHosts.NONE
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
    """The failure of Release."""
    unretired: Failure = field(default_factory=Failure)
    """The failure to retire images."""
    unimaged: Failure = field(default_factory=Failure)
    """The failure of the image of the chief."""
    undone: Failure = field(default_factory=Failure)
    """The failure of Undo."""


@dataclass(frozen=True, kw_only=True)
class LaunchInput(AttemptInput):
    more: bool = False
    """True for more hosts while an attempt trains; False for an attempt that has not begun."""
