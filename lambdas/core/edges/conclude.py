"""Edges of every Conclude."""

from dataclasses import field
from datetime import datetime
from typing import ClassVar

from lambdas.core.edges.common import Failure, RunInput
from lambdas.core.run.outcome import Conclusion
from trainyard.values.lazy import dataclass


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
class Concluded(Conclusion):
    """How the execution ends, and the answer it ends with."""

    kind: str


@dataclass(frozen=True, kw_only=True)
class NotConcluded:
    """The run had concluded by itself, or patrol concludes it in a while; for rules and patrol alone."""

    kind: ClassVar[str] = "not concluded"
    reason: str
