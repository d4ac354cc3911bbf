"""Edges of the workflow bake. Its Plan and Launch are train's."""

from enum import StrEnum

from lambdas.core.edges.common import Answer, AttemptInput, Failure
from lambdas.core.edges.conclude import Concluded
from trainyard.values.lazy import dataclass


class Step(StrEnum):
    """The documents of a bake, in their order."""

    INSTALL = "install"
    TEST = "test"
    GENERALIZE = "generalize"


@dataclass(frozen=True, kw_only=True)
class DocumentInput(AttemptInput):
    """Wait for the step's document with this `token`, or `explain` why it failed."""

    step: Step
    token: str | None = None
    explain: Failure | None = None


@dataclass(frozen=True, kw_only=True)
class Baked(Answer):
    kind = "baked"
    image: str


class RolledBack(Baked):
    kind = "rolled_back"


@dataclass(frozen=True, kw_only=True)
class BakeConcluded(Concluded):
    """`image` is the one that hosts start from now, `before` the one until then."""

    image: str | None = None
    before: str | None = None
