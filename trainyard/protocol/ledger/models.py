"""The rows of a model: `pk = model#<name>`; `sk = model`, `version#<number>` and `moved#<time>`. `pk = models`, `sk =
<name>` lists the models of the yard.

Numbers of versions have five digits and begin with 1. They are the folders that TensorFlow Serving reads.
"""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any

from trainyard.values.lazy import dataclass

DEFAULT = "default"
"""The alias whose version answers if a request names none."""


class VersionState(StrEnum):
    """The state of a version."""

    MAKING = "making"
    """Its files are copied and its golden rows are checked."""
    READY = "ready"
    """It may answer requests."""
    REFUSED = "refused"
    """Its origin is unusable, or its answers differ from its golden rows."""
    RETIRED = "retired"
    """A user has retired it. Its files stay."""


class Lite(StrEnum):
    """LiteRT's use of a model: all rows at once, row by row, or none."""

    WHOLE = "whole"
    """Any number of rows at once."""
    ROWS = "rows"
    """One row at a time."""
    NO = "no"
    """Only a host with TensorFlow can run it."""


@dataclass(frozen=True, kw_only=True)
class ModelRow:
    """A model."""

    name: str
    owner: str
    """The user who created it."""
    created: datetime
    next: int = 1
    """The number of the next version."""
    aliases: Mapping[str, int] = field(default_factory=dict)
    """The version that each alias names."""
    version: int = 1
    """The number of writes. A write succeeds only if it read the newest one."""


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
    """The id of the request, which is the name of its execution."""
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
    data: str | None = None
    """The data that the run has read."""
    program: str | None = None
    """The SHA-256 of the run's program, or the name of its module."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The last metrics of the run."""
    manifest: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of each file, by its path in the version's folder."""
    size: int = 0
    """Bytes of all files."""
    signatures: Mapping[str, Any] = field(default_factory=dict)
    """The inputs and outputs of each signature, as in trainyard.json."""
    lite: Lite = Lite.NO
    lite_reason: str | None = None
    """Why LiteRT cannot run the whole model."""
    reason: str | None = None
    """Why the version was refused."""
    retired_by: str | None = None

    @property
    def is_open(self) -> bool:
        """Return True if an alias may name the version."""
        return self.state is VersionState.READY


@dataclass(frozen=True, kw_only=True)
class MoveRow:
    """A move of an alias: `sk = moved#<time>`."""

    alias: str
    old: int | None
    """The version that the alias named before; None if it is new."""
    new: int
    by: str
    at: datetime
    why: str
    """The command of the move: `set-default` or `rollback`; `after` for a run's own version."""


@dataclass(frozen=True, kw_only=True)
class ListedModel:
    """A model in the list of the yard: `pk = models`, `sk = <name>`."""

    name: str
    owner: str
    created: datetime


MODEL, MODELS = "model", "models"
"""The sort key of a model's own row; the partition key of the list of models."""


def partition(model: str) -> str:
    """Return the partition key of a model."""
    return f"model#{model}"


def version_key(number: int) -> str:
    """Return the sort key of a version."""
    return f"version#{number:05d}"
