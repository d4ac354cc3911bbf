"""Requests of users to the yard. Each request is an event under the user's own name."""

import re
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, get_args

from trainyard.protocol.serving import ServeHow
from trainyard.values import serialization
from trainyard.values.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class Stop:
    """Save and stop a run."""

    detail_type: ClassVar[str] = "stop"
    run: str


@dataclass(frozen=True, kw_only=True)
class EndWarmHosts:
    """End the warm hosts that a run keeps."""

    detail_type: ClassVar[str] = "end-warm-hosts"
    run: str


@dataclass(frozen=True, kw_only=True)
class DevHost:
    """Bring a dev host up, or make an image of it."""

    detail_type: ClassVar[str] = "dev"
    run: str
    """The id of the execution that this request starts. It begins with `dev-NAME-`."""
    name: str
    want: str
    """`up`, or `image`, after which the host ends."""
    request: Mapping[str, Any] = field(default_factory=dict, metadata={"formerly": "asked"})
    """The input of the dev-host workflow, for `up`."""


class Act(StrEnum):
    """The change of a model that a user requests."""

    CREATE = "create"
    """A new model."""
    VERSION = "version"
    """A new version from `origin`, with the label `version`."""
    MOVE = "move"
    """`alias` names `version`."""
    ROLLBACK = "rollback"
    """`alias` names its previous version."""
    RETIRE = "retire"
    """`version` answers no more requests."""
    CANARY = "canary"
    """`version` answers a share of the requests to `default`, or is its shadow."""
    END_CANARY = "end-canary"
    """The canary or the shadow ends, and `default` stays."""
    APPROVE = "approve"
    """The move of `alias` that waits for approval is carried out."""
    SERVE = "serve"
    """A host serves `version`, or the version that `default` names."""


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """Change a model."""

    detail_type: ClassVar[str] = "model"
    request: str
    """The name of the execution that this request starts (`name_request`)."""
    act: Act
    model: str
    version: str = ""
    """A label, or a number."""
    alias: str = ""
    origin: str = ""
    """A run, or a folder of the bucket as an S3 URI."""
    approval: int = 0
    """How many other users must approve each move of an alias of a new model."""
    percent: int = 0
    """The share of the requests to `default` that a canary gets."""
    minutes: int = 0
    """How long a canary lasts."""
    shadow: bool = False
    """True for a shadow, whose answers are only counted."""
    serve: ServeHow | None = None
    """How the host serves; null: as at its last start."""


PREFIX = "model-"
"""The beginning of the name of an execution that changes a model."""
REQUEST = re.compile(rf"{PREFIX}(?P<model>[a-z][a-z0-9-]{{0,39}})-[0-9T]{{15}}-[0-9a-f]{{6}}")


def name_request(model: str, at: datetime, suffix: str) -> str:
    """Return the name of an execution; `suffix` has six hex digits."""
    return f"{PREFIX}{model}-{at:%Y%m%dT%H%M%S}-{suffix}"


def model_of(request: str) -> str | None:
    """Return the model in the name of an execution; None for another name."""
    found = REQUEST.fullmatch(request)
    return found["model"] if found else None


@dataclass(frozen=True, kw_only=True)
class More:
    """Continue a study that has ended."""

    detail_type: ClassVar[str] = "more"
    run: str
    part: int
    """The number of the study's execution that this request starts."""
    trials: int
    """The number of further trials."""
    dollars: float
    """The most that the further trials may cost together."""
    hours: float | None = None
    """The longest duration of the continuation; None for the hours of the job file."""


@dataclass(frozen=True, kw_only=True)
class AddPoint:
    """Add a point to a study, which the next free trial takes."""

    detail_type: ClassVar[str] = "add"
    run: str
    point: str
    """The id of the point: 16 hexadecimal digits, chosen by the client."""
    values: Mapping[str, Any]
    """The values of parameters, by their paths."""


class ScheduleAct(StrEnum):
    """The change of a schedule that a user requests."""

    PAUSE = "pause"
    """No run starts until the schedule is resumed."""
    RESUME = "resume"
    REMOVE = "rm"


@dataclass(frozen=True, kw_only=True)
class ScheduleRequest:
    """Change a schedule."""

    detail_type: ClassVar[str] = "schedule"
    schedule: str
    """The name of its job."""
    act: ScheduleAct


Request = Stop | EndWarmHosts | DevHost | ModelRequest | More | AddPoint | ScheduleRequest
REQUESTS: Mapping[str, type[Request]] = {each.detail_type: each for each in get_args(Request)}
"""The requests by the event's `detail-type`."""


def decode(word: str, detail: object) -> Request | str:
    """Return the request, or the fault of the detail."""
    kind = REQUESTS.get(word)
    if kind is None:
        return f"{word!r:.40} is not a request of this version"
    return "; ".join(serialization.faults(kind, detail)) or serialization.from_json(kind, dict(detail))  # type: ignore[call-overload]
