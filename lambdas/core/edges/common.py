"""What functions of several workflows are given and answer."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from lambdas.core.run.recovery import Keep, Trouble
from lambdas.core.run.summary import Outcome


class Scope(StrEnum):
    """Whose hosts Release ends."""

    ATTEMPT = "attempt"
    RUN = "run"


@dataclass(frozen=True, kw_only=True)
class RunInput:
    run: str


@dataclass(frozen=True, kw_only=True)
class AttemptInput:
    run: str
    attempt: int


@dataclass(frozen=True, kw_only=True)
class WaitInput:
    """`token` is the task's, for whoever learns of its end."""

    run: str
    attempt: int
    token: str


@dataclass(frozen=True, kw_only=True)
class AdmitInput:
    """An execution at its start: its name, its ARN, when it started, and the input that its caller gave it."""

    run: str
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
class LastAnswer:
    """The workflow's `outcome`: what the last state of it answered, or the error that was caught."""

    kind: str = "error"
    error: str | None = None
    cause: str | None = None
    reason: str | None = None
    image: str | None = None


@dataclass(frozen=True, kw_only=True)
class ConcludeInput:
    """`unreleased`, `unretired` and `undone` say how Release, the retirement of images or Undo failed. A rule or patrol
    that concludes an execution which did not (`cut_short`) does not know when that started."""

    run: str
    execution: str
    outcome: LastAnswer
    started: datetime | None = None
    cut_short: bool = False
    unreleased: Failure = field(default_factory=Failure)
    unretired: Failure = field(default_factory=Failure)
    undone: Failure = field(default_factory=Failure)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What Recover, which may read nothing, is given of the plan."""

    restarts: int
    deadline: datetime


@dataclass(frozen=True, kw_only=True)
class RecoverInput:
    run: str
    attempt: int
    failure: Failure
    plan: Limits
    now: datetime


@dataclass(frozen=True, kw_only=True)
class ReleaseInput:
    """`keep` and `lost`: which hosts the next attempt goes on with. A rule names the execution, and no attempt."""

    run: str
    scope: Scope
    attempt: int | None = None
    execution: str | None = None
    keep: Keep = Keep.NONE
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Admitted:
    kind: ClassVar[str] = "admitted"
    reason: str


@dataclass(frozen=True, kw_only=True)
class Caught:
    """A failure in facts, in place of one that says too little: `error` and `cause` as Catch has them."""

    kind: ClassVar[str] = "error"
    error: str
    cause: str


@dataclass(frozen=True, kw_only=True)
class Retry:
    """Another attempt after so many seconds."""

    kind: ClassVar[str] = "retry"
    seconds: int
    keep: Keep
    lost: tuple[str, ...]
    reason: str
    attempt: int


@dataclass(frozen=True, kw_only=True)
class Stop:
    """No other attempt; nothing of this one is kept."""

    kind: ClassVar[str] = "stop"
    error: str
    reason: str
    attempt: int
    keep: Keep = Keep.NONE
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Released:
    """`hosts`: what became of the first twenty, each with its reason."""

    hosts: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Done:
    """A document has ended well: what answers the token of a state that waits for it."""

    kind: ClassVar[str] = "done"


@dataclass(frozen=True, kw_only=True)
class Available:
    """EC2 has made the image: what answers the token of a state that waits for it."""

    kind: ClassVar[str] = "available"
    image: str


@dataclass(frozen=True, kw_only=True)
class Denied:
    """What answers a token that the role may not fail: the next state begins, and finds in the ledger that the attempt
    has ended."""

    kind: ClassVar[str] = "error"
    error: str
    cause: str
    train_seconds: int = 61
    heartbeat_seconds: int = 60


@dataclass(frozen=True, kw_only=True)
class Nothing:
    """Of a state that waits: its token is answered, by this call or by whoever learns of its end."""


@dataclass(frozen=True, kw_only=True)
class Concluded:
    """How the execution ends, and the answer it ends with."""

    kind: str
    outcome: Outcome
    error: str | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class ConcludedBefore:
    """The run had concluded by itself; for rules and patrol alone."""

    kind: ClassVar[str] = "concluded"
    reason: str
