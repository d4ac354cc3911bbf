"""Events of AWS and of patrol, as EventBridge passes them to the function signal. Signals of hosts and requests of
users are in trainyard.protocol."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, ClassVar, get_args

from trainyard.values.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class Event:
    source: str
    """The sender of the event (trainyard.protocol.sources)."""
    detail_type: str = field(metadata={"json_key": "detail-type"})
    """The name of the class of `detail`."""
    detail: Any
    time: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class SpotWarning:
    detail_type: ClassVar[str] = "EC2 Spot Instance Interruption Warning"
    instance: str = field(metadata={"json_key": "instance-id"})
    action: str = field(default="terminate", metadata={"json_key": "instance-action"})


@dataclass(frozen=True, kw_only=True)
class InstanceState:
    detail_type: ClassVar[str] = "EC2 Instance State-change Notification"
    instance: str = field(metadata={"json_key": "instance-id"})
    state: str


@dataclass(frozen=True, kw_only=True)
class ImageState:
    detail_type: ClassVar[str] = "EC2 AMI State Change"
    image: str = field(metadata={"json_key": "ImageId"})
    state: str = field(metadata={"json_key": "State"})
    error: str | None = field(default=None, metadata={"json_key": "ErrorMessage"})


@dataclass(frozen=True, kw_only=True)
class CommandStatus:
    detail_type: ClassVar[str] = "EC2 Command Status-change Notification"
    command: str = field(metadata={"json_key": "command-id"})
    document: str = field(default="", metadata={"json_key": "document-name"})
    status: str
    parameters: Mapping[str, Any] | None = None
    """The parameters of the command, each a list."""


AwsEvent = SpotWarning | InstanceState | ImageState | CommandStatus
AWS_EVENTS: Mapping[str, type[AwsEvent]] = {each.detail_type: each for each in get_args(AwsEvent)}
"""By the event's `detail-type`."""


@dataclass(frozen=True, kw_only=True)
class OfAttempt:
    """An observation of patrol about an attempt."""

    run: str
    attempt: int


@dataclass(frozen=True, kw_only=True)
class AtCap(OfAttempt):
    """The hours or dollars of a run are used up."""

    detail_type: ClassVar[str] = "cap"


@dataclass(frozen=True, kw_only=True)
class StillStopping(OfAttempt):
    """A run continues although a user stopped it."""

    detail_type: ClassVar[str] = "stop"


@dataclass(frozen=True, kw_only=True)
class MayGrow(OfAttempt):
    """A run may request more hosts."""

    detail_type: ClassVar[str] = "grow"


@dataclass(frozen=True, kw_only=True)
class Forgotten(OfAttempt):
    """A run with hosts is missing in the ledger, and its attempt with it."""

    detail_type: ClassVar[str] = "forgotten"
    attempt: int = 1


@dataclass(frozen=True, kw_only=True)
class StudyEnds(OfAttempt):
    """A trial continues, or its hosts wait in the warm pool, although its study ends or has ended."""

    detail_type: ClassVar[str] = "study"


@dataclass(frozen=True, kw_only=True)
class RunsEnded(OfAttempt):
    """A run still waits although the runs that it waits for have ended."""

    detail_type: ClassVar[str] = "runs-ended"


@dataclass(frozen=True, kw_only=True)
class Leave(OfAttempt):
    """A run saves and leaves its hosts, because a run of a higher priority needs its slot."""

    detail_type: ClassVar[str] = "leave"
    by: str
    """The run that needs the slot."""
    priority: int = 0
    """The priority of that run."""
    given: int | None = None
    """The number of slots given when patrol decided this. Another number makes the decision void. None to continue a
    preemption that has begun."""


PatrolEvent = AtCap | StillStopping | MayGrow | Forgotten | StudyEnds | RunsEnded | Leave
PATROL_EVENTS: Mapping[str, type[PatrolEvent]] = {each.detail_type: each for each in get_args(PatrolEvent)}
"""By the event's `detail-type`."""
