"""What functions of several states and workflows are given and answer."""

from datetime import datetime
from typing import Any, ClassVar

from lambdas.core.model.lazy import dataclass
from lambdas.core.run.recovery import Trouble


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
class Nothing:
    """Of a state that waits: its token is answered, by this call or by whoever learns of its end."""
