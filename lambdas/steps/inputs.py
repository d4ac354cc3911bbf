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
    """`token` is the task's, for whoever learns of its end."""

    token: str


@dataclass(frozen=True, kw_only=True)
class AdmitInput(RunInput):
    """An execution at its start: its name, its ARN, when it started, and the input that its caller gave it."""

    execution: str
    started: datetime
    input: Any


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A caught error of another state, as Step Functions has it; no `error`: nothing failed."""

    error: str = ""
    cause: str = ""

    @property
    def trouble(self) -> Trouble:
        return Trouble.caught(self.error or "Unknown", self.cause)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a state answers, `kind` of its union, and why or what for in a sentence."""

    kind: ClassVar[str]
    reason: str


class Admitted(Answer):
    kind = "admitted"


@dataclass(frozen=True, kw_only=True)
class Waits(Answer):
    """The yard is full, the run that this one resumes is saving, or another bake is under way: Admit is called again
    after `seconds`."""

    kind = "waits"
    seconds: int


@dataclass(frozen=True, kw_only=True)
class Caught:
    """A failure in facts, in place of one that says too little: `error` and `cause` as Catch has them."""

    kind: ClassVar[str] = "error"
    error: str
    cause: str

    @classmethod
    def of(cls, trouble: Trouble) -> Self:
        return cls(error=trouble.error, cause=trouble.to_cause())


@dataclass(frozen=True, kw_only=True)
class Denied(Caught):
    """What answers a token that the role may not fail: the next state begins, and finds in the ledger that the attempt
    has ended."""

    train_seconds: int = 61
    heartbeat_seconds: int = 60


@dataclass(frozen=True, kw_only=True)
class Nothing:
    """Of a state that waits: its token is answered, by this call or by whoever learns of its end."""


class Scope(StrEnum):
    """Whose hosts Release ends: those that the next attempt does not keep, all of the run, or the lost ones alone."""

    ATTEMPT = "attempt"
    RUN = "run"
    LOST = "lost"


@dataclass(frozen=True, kw_only=True)
class ReleaseInput(RunInput):
    """`keep` and `lost`: which hosts the next attempt goes on with. A rule names the execution, and no attempt."""

    scope: Scope
    attempt: int | None = None
    execution: str | None = None
    keep: KeptHosts = KeptHosts.NONE
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LastAnswer:
    """The workflow's `outcome`: what the last state of it answered, or the error that was caught."""

    kind: str = "error"
    error: str | None = None
    cause: str | None = None
    reason: str | None = None
    image: str | None = None


@dataclass(frozen=True, kw_only=True)
class ConcludeInput(RunInput):
    """`unreleased`, `unretired` and `undone` say how Release, the retirement of images or Undo failed; `unimaged` how
    the image failed that a job wants beside its training. A rule or patrol that concludes an execution which did not
    (`cut_short`) does not know when that started."""

    execution: str
    outcome: LastAnswer
    started: datetime | None = None
    cut_short: bool = False
    unreleased: Failure = field(default_factory=Failure)
    unretired: Failure = field(default_factory=Failure)
    unimaged: Failure = field(default_factory=Failure)
    undone: Failure = field(default_factory=Failure)


@dataclass(frozen=True, kw_only=True)
class LaunchInput(AttemptInput):
    """`more`: this attempt trains, and more hosts are wanted beside it; else it has yet to begin."""

    more: bool = False
