"""The rows of a model: `pk = model#<name>`; `sk = model`, `version#<number>`, `served#<number>` and `moved#<time>`.
`pk = models`, `sk = <name>` lists the models of the yard.

Numbers of versions have five digits and begin with 1. They are the folders that TensorFlow Serving reads.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any

from trainyard.protocol.export import Conversion, SignatureTypes
from trainyard.protocol.ledger import reading
from trainyard.protocol.ledger.canaries import MODEL_PREFIX
from trainyard.protocol.serving import ServeHow
from trainyard.values.lazy import dataclass

DEFAULT = "default"
"""The alias whose version answers if a request names none."""

MOST_REASON = 512
"""The most characters of the reason of a refusal."""
CANARY, SHADOW = "canary", "shadow"
"""The words in place of an alias for a version that answers a share of the requests to `default`, and for a version
whose answers to them are only counted. No alias has these names."""


class VersionState(StrEnum):
    """The state of a version."""

    MAKING = "making"
    """Its files are copied and its golden rows are checked."""
    READY = "ready"
    """It may answer requests."""
    REFUSED = "refused"
    """Its origin is unusable, or its answers differ from its golden rows. The first host that serves a version may find
    this; aliases that name the version stay, and give its reason."""
    RETIRED = "retired"
    """A user has retired it. Its files stay."""


@dataclass(frozen=True, kw_only=True)
class Canary:
    """A version that answers, or as a shadow only computes, a share of the requests to `default`."""

    version: int
    percent: int
    started: datetime
    until: datetime
    by: str
    request: str
    """The name of the execution that started it. It decides which requests the version gets."""


@dataclass(frozen=True, kw_only=True)
class Pending:
    """A move of an alias that waits for the approval of another user."""

    version: int
    by: str
    """The user who requested it."""
    at: datetime
    until: datetime
    """When the request expires."""
    request: str
    why: str


@dataclass(frozen=True, kw_only=True)
class ModelRow:
    """A model."""

    name: str
    owner: str
    """The user who created it."""
    created: datetime
    request: str
    """The request that created it, which is the name of an execution."""
    next: int = 1
    """The number of the next version."""
    aliases: Mapping[str, int] = field(default_factory=dict)
    """The version that each alias names."""
    cut: tuple[str, ...] = ()
    """The last requests whose executions ended before they changed anything."""
    version: int = 1
    """The number of writes. A write succeeds only if it read the newest one."""
    approval: int = 0
    """How many other users must approve a move of an alias: 0 or 1."""
    canary: Canary | None = None
    shadow: Canary | None = None
    pending: Mapping[str, Pending] = field(default_factory=dict)
    """The moves that wait for approval, by alias."""


@dataclass(frozen=True, kw_only=True)
class VersionRow:
    """A version of a model."""

    number: int
    label: str
    state: VersionState
    by: str
    """The user who requested it."""
    at: datetime
    """When it was requested."""
    request: str
    """The name of the execution that makes it."""
    origin: str
    """The folder that it was copied from, as an s3:// URL."""
    run: str | None = None
    """The run that exported it; None for an upload."""
    job: str | None = None
    """The name of the run's job."""
    study: str | None = None
    """The study of the run."""
    trial: int | None = None
    """The number of the run's trial in its study."""
    image: str | None = None
    """The AMI of the run's hosts."""
    data: Mapping[str, str] = field(default_factory=dict)
    """The data of the run: an S3 URI by name."""
    program: str | None = None
    """The source of the run's program, whose name contains its SHA-256, or the name of its module."""
    alias: str | None = None
    """The alias that moves to the version once it is ready."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The last metrics of the run."""
    manifest: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of each file, by its path in the version's folder."""
    size: int = 0
    """Bytes of all files."""
    signatures: Mapping[str, SignatureTypes] = field(default_factory=dict)
    lite: Conversion = Conversion.NONE
    lite_reason: str | None = None
    """Why LiteRT cannot run the whole model."""
    reason: str | None = None
    """Why the version was refused."""
    retired_by: str | None = None
    task_token: str | None = None
    """The task token of the state Convert, which waits for the run that prepares the model."""

    @property
    def shown(self) -> str:
        """Return number and label: `3 (v3)`."""
        return f"{self.number} ({self.label})"


@dataclass(frozen=True, kw_only=True)
class MoveRow:
    """A move of an alias, or the start or end of a canary or shadow: `sk = moved#<time>`."""

    alias: str
    """The alias, `canary` or `shadow`."""
    old: int | None = None
    """The version that the alias named before; None if it is new."""
    new: int
    """The version that it names now. At the end of a canary, it is the default version."""
    by: str
    """The user, or `patrol`."""
    at: datetime
    request: str
    """The name of the execution that moved it."""
    why: str
    """`set-default`, `rollback`, `new version`, or the figures of a canary."""
    approved: str | None = None
    """The user who approved it."""


@dataclass(frozen=True, kw_only=True)
class ServedRow:
    """The run that serves a version, or served it last, and how to start the next one: `sk = served#<number>`."""

    number: int
    start: int
    """The number of starts. A start succeeds only if it read the newest one."""
    run: str
    by: str
    """The user who requested the run."""
    at: datetime
    request: str
    """The name of the execution that started the run."""
    how: ServeHow


@dataclass(frozen=True, kw_only=True)
class ListedModel:
    """A model in the list of the yard: `pk = models`, `sk = <name>`."""

    name: str
    owner: str
    created: datetime


@dataclass(frozen=True, kw_only=True)
class ModelRows:
    """A model with its versions and the moves of its aliases, the oldest first."""

    row: ModelRow
    versions: tuple[VersionRow, ...] = ()
    moves: tuple[MoveRow, ...] = ()
    served: tuple[ServedRow, ...] = ()

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> "ModelRows | None":
        """Read the rows of a partition; None without the model's own row."""
        found = [*rows]
        own = next((row for row in found if row["sk"] == MODEL), None)
        versions = (row for row in found if str(row["sk"]).startswith(VERSION_PREFIX))
        moves = (row for row in found if str(row["sk"]).startswith(MOVED_PREFIX))
        served = (row for row in found if str(row["sk"]).startswith(SERVED_PREFIX))
        if own is None:
            return None
        return cls(
            row=reading.read(ModelRow, own),
            versions=tuple(reading.read(VersionRow, row) for row in versions),
            moves=tuple(reading.read(MoveRow, row) for row in moves),
            served=tuple(reading.read(ServedRow, row) for row in served),
        )

    def find(self, word: str) -> VersionRow | None:
        """Return the version with this number or label. A refused version leaves its label to a later one."""
        if word.isdigit():
            return next((each for each in self.versions if each.number == int(word)), None)
        named = [each for each in self.versions if each.label == word]
        usable = [each for each in named if each.state is not VersionState.REFUSED]
        return next(reversed(usable or named), None)

    def served_as(self, number: int) -> ServedRow | None:
        """Return the row of the version's host; None if no host has served it."""
        return next((each for each in self.served if each.number == number), None)

    def made_by(self, request: str) -> VersionRow | None:
        return next((each for each in self.versions if each.request == request), None)

    def moved_by(self, request: str) -> MoveRow | None:
        return next((each for each in self.moves if each.request == request), None)

    def aliases_of(self, number: int) -> list[str]:
        """Return the aliases that name the version."""
        return sorted(alias for alias, named in self.row.aliases.items() if named == number)

    def uses_of(self, number: int) -> list[str]:
        """Return the aliases that name the version, `canary` and `shadow` if it is one, and moves that wait for it."""
        tried = {CANARY: self.row.canary, SHADOW: self.row.shadow}
        waiting = {f"{alias} (waits for approval)": each for alias, each in self.row.pending.items()}
        others = [word for word, each in (tried | waiting).items() if each and each.version == number]
        return [*self.aliases_of(number), *others]


VERSION_PREFIX, MOVED_PREFIX, SERVED_PREFIX = "version#", "moved#", "served#"
MODEL, MODELS = "model", "models"
"""The sort key of a model's own row; the partition key of the list of models."""


def partition(model: str) -> str:
    """Return the partition key of a model."""
    return f"{MODEL_PREFIX}{model}"


def version_key(number: int) -> str:
    """Return the sort key of a version."""
    return f"{VERSION_PREFIX}{number:05d}"


def served_key(number: int) -> str:
    """Return the sort key of the host of a version."""
    return f"{SERVED_PREFIX}{number:05d}"
