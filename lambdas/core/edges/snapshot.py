"""Edges of the workflow snapshot, and of the states by which a run's end makes an image."""

from enum import StrEnum
from typing import ClassVar

from lambdas.core.edges.common import Admitted, Answer, RunInput, WaitInput
from lambdas.core.edges.conclude import Concluded
from trainyard.values.lazy import dataclass


class Rest(StrEnum):
    """What comes before CreateImage."""

    PAUSE = "pause"
    STOP = "stop"
    NONE = "none"


class Quiesce(StrEnum):
    """The document that brings a disk to rest: pause for a snapshot, generalize after a run."""

    PAUSE = "pause"
    GENERALIZE = "generalize"


class Fate(StrEnum):
    """Stop the host before it is imaged, or do with it afterwards what was asked for."""

    STOP = "stop"
    FATE = "fate"


@dataclass(frozen=True, kw_only=True)
class QuiesceInput(WaitInput):
    step: Quiesce


@dataclass(frozen=True, kw_only=True)
class FateInput(RunInput):
    step: Fate


@dataclass(frozen=True, kw_only=True)
class UndoInput(RunInput):
    """A rule names the execution, whose run alone is undone."""

    execution: str | None = None


@dataclass(frozen=True, kw_only=True)
class SnapshotAdmitted(Admitted):
    rest: Rest
    instance: str


@dataclass(frozen=True, kw_only=True)
class Stopped:
    kind: ClassVar[str] = "stopped"


@dataclass(frozen=True, kw_only=True)
class Imaged(Answer):
    kind = "imaged"
    image: str


class Undone(Answer):
    kind = "undone"


@dataclass(frozen=True, kw_only=True)
class SnapshotConcluded(Concluded):
    image: str | None = None
    family: str | None = None
    instance: str | None = None
