"""What functions of several states and workflows are given and answer."""

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
class Done:
    """A document has ended well: what answers the token of a state that waits for it."""

    kind: ClassVar[str] = "done"


@dataclass(frozen=True, kw_only=True)
class Available:
    """EC2 has made the image: what answers the token of a state that waits for it."""

    kind: ClassVar[str] = "available"
    image: str


@dataclass(frozen=True, kw_only=True)
class Nothing:
    """Of a state that waits: its token is answered, by this call or by whoever learns of its end."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What Recover, which may read nothing, is given of the plan. `elastic`: attempts may have fewer workers."""

    restarts: int
    deadline: datetime
    elastic: bool = False


@dataclass(frozen=True, kw_only=True)
class RecoverInput(AttemptInput):
    """`resized`: how many attempts have ended so that the next one could have more hosts."""

    failure: Failure
    plan: Limits
    now: datetime
    resized: int = 0


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
class Released:
    """`hosts`: what became of the first twenty, each with its reason."""

    hosts: tuple[str, ...]
    reason: str = ""
