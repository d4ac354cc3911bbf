"""Signals: what hosts report on the yard's event bus, one class per signal. An event is decoded once, by `decode`.

Every host can put any event on the bus, so each value is checked before a function acts on it. Texts are made
printable and shortened. Unknown keys are ignored; a value that does not fit is left out, and named in `left_out`. A
signal without a required value is refused.
"""

import re
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, TypeVar, cast, get_args

from trainyard.protocol.cluster import Role
from trainyard.protocol.objective import MOST_POINTS, MOST_SCALARS, SCALAR, Point
from trainyard.values import serialization
from trainyard.values.lazy import dataclass
from trainyard.values.text import printable

LARGEST = 1e15
"""The largest count or measure. The ledger cannot hold larger numbers."""
MOST_CHARACTERS = {"reason": 4_096, "tail": 8_192}
MOST_OF_ANY_TEXT = 512
MOST_DOUBTS = 8
"""The most sentences in `but`."""
AFTER_KEY = re.compile(r"[.:\[]")
"""The characters that follow a key in a fault of serialization.faults."""


class StopReason(StrEnum):
    """Why a host has left an attempt."""

    INTERRUPTED = "interrupted"
    """EC2 takes the host back, or it shuts down."""
    ASKED = "asked"
    """The host was ordered to stop."""
    LIMIT = "limit"
    """The run's hours or dollars are used up."""
    PEER = "peer"
    """Another host of the cluster has left or failed."""
    KILLED = "killed"
    """SIGKILL has ended all processes of the program, the power was cut, or SIGTERM has ended one of several programs.
    The agent did not send it, and memory and disk were not the reason."""
    HANGS = "hangs"
    """The program showed no work and was asked to leave, which only the chief reports. Or, with a `reason`, a mounted
    file system with data has ended on this host."""


class FailureKind(StrEnum):
    """The part that failed."""

    PROGRAM = "program"
    """The user's program ended with an error."""
    HOST = "host"
    """Fetch, disk, access or start; with an `exit_code`, the upload of what the program left."""
    HARDWARE = "hardware"
    """The hardware of the host, by the kernel's messages. The host ends, and is not used again."""
    SERVICE = "service"
    """A service of AWS could not be reached until the host gave up. The host is healthy."""
    CHECKPOINT = "checkpoint"
    """A damaged checkpoint was skipped. The host is healthy, and the next attempt restores the checkpoint before it."""

    @property
    def leaves_host_well(self) -> bool:
        """Return True if the host stays for the next attempt."""
        return self in (FailureKind.SERVICE, FailureKind.CHECKPOINT)


@dataclass(frozen=True, kw_only=True)
class Resumed:
    """A checkpoint that a program restored."""

    step: int
    global_batch_size: int | None = None
    epoch: int | None = None
    batch: int | None = None
    """Position in the epoch."""
    verified: bool | None = None
    """Files and variables have the checksums that they were saved with."""


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """Sent by every host at its start, and when its credentials expire in less than 30 min; then every 10 s until the
    new ones are in [the bucket](bucket.md). Only a host of a run that has not ended gets credentials."""

    detail_type: ClassVar[str] = "credentials"


@dataclass(frozen=True, kw_only=True)
class DevCredentials:
    """Sent by a dev host when its owner's credentials expire in less than 30 min; then every minute until the new ones
    arrive. A host gets them if its tags name it a dev host of this yard, even after its launch has ended."""

    detail_type: ClassVar[str] = "dev-credentials"


@dataclass(frozen=True, kw_only=True)
class Ready:
    """Sent by every host when program, data and environment are on its disk, every 15 s until it is started."""

    detail_type: ClassVar[str] = "ready"
    address: str | None = None
    """Private address."""
    boot_seconds: float | None = None
    ssm_denied: str | None = None
    """The permission that Systems Manager lacks on this host, from the log of its agent. It becomes a note on the
    timeline; the host trains."""
    pulled: str | None = None
    """The pull of the program's container image: its bytes and the time, or that the host had it. It becomes a note on
    the timeline."""


@dataclass(frozen=True, kw_only=True)
class Pulling:
    """Sent by a host that pulls a container image, every 30 s. It becomes an entry of the timeline."""

    detail_type: ClassVar[str] = "pulling"
    reason: str | None = None
    """The bytes that have arrived and all bytes, the rate, and the remaining time, in one sentence."""


@dataclass(frozen=True, kw_only=True)
class Streamed:
    """Sent by a host whose program reads data from S3 (`mode: stream`): every minute while the number grows, and at the
    program's end."""

    detail_type: ClassVar[str] = "streamed"
    gets: int
    """GET requests of all attempts on this host so far, from the log of mount-s3."""


@dataclass(frozen=True, kw_only=True)
class Started:
    """Sent by every host when the process of its program runs."""

    detail_type: ClassVar[str] = "started"
    role: Role | None = None
    index: int | None = None
    instead: str | None = None
    """Why a checkpoint before the one in cluster.json was restored."""
    checked: str | None = None
    """The result of the check of the gang's GPUs (`nccl_check_seconds`), from the chief. It becomes a note on the
    timeline."""


@dataclass(frozen=True, kw_only=True)
class HowFar:
    """The progress of a program."""

    step: int | None = None
    steps: int | None = None
    """The number of steps that the program will make."""
    epoch: int | None = None
    loss: serialization.Measure | None = None
    accuracy: serialization.Measure | None = None
    nan_since: int | None = None
    """The step since which `loss` has been NaN or infinite."""
    steps_per_second: float | None = None
    resumed: Resumed | None = None
    """The checkpoint that this attempt restored. The last signal contains it too, because it may arrive before the last
    progress."""
    scalars: Mapping[str, serialization.Measure] = field(default_factory=dict)
    """The latest values of the program's other metrics, at most 32."""
    limited: str | None = None
    """The limit of the program, with advice: a sentence without a period."""
    slow: Mapping[str, str] = field(default_factory=dict)
    """Hosts that are slower than the others for minutes, by instance, each with a sentence without a period."""
    degraded: Mapping[str, str] = field(default_factory=dict)
    """Hosts with a GPU that its driver slows down or whose link is slow, by instance, each with a sentence without a
    period. The sentence changes while that lasts."""
    objective: tuple[Point, ...] = ()
    """The newest values of the metric in the job's `objective`, at most 16, in the order of their steps. A signal
    repeats values of earlier ones, because a signal may be lost."""


@dataclass(frozen=True, kw_only=True)
class Progress(HowFar):
    """Sent by the chief, at most every 10 s and at least once a minute."""

    detail_type: ClassVar[str] = "progress"


@dataclass(frozen=True, kw_only=True)
class Checkpointed:
    """Sent by the chief when a checkpoint is whole in the bucket."""

    detail_type: ClassVar[str] = "checkpointed"
    step: int | None = None
    """Missing if the program reports no steps, because the names of its checkpoints usually count checkpoints."""
    key: str | None = None


@dataclass(frozen=True, kw_only=True)
class Finished(HowFar):
    """Sent by the chief when model, metrics and logs are in the bucket."""

    detail_type: ClassVar[str] = "finished"
    working_folder: str | None = None
    """The contents of the program's working folder, if the program left no model, checkpoint or metrics."""
    but: tuple[str, ...] = ()
    """Doubts about a success whose exit code is 0: at most 8 sentences."""


@dataclass(frozen=True, kw_only=True)
class Stopped(HowFar):
    """Sent by every host whose program exited with the restart code, or because it was asked to."""

    detail_type: ClassVar[str] = "stopped"
    why: StopReason | None = None
    reason: str | None = None
    """Details of the end of a program that was `killed`, or of the mount for which it `hangs`."""


@dataclass(frozen=True, kw_only=True)
class Failed(HowFar):
    """Sent by any host. A host other than the chief waits 5 s before it reports that its program failed."""

    detail_type: ClassVar[str] = "failed"
    kind: FailureKind = FailureKind.HOST
    reason: str = "no reason given"
    """One sentence."""
    tail: str = ""
    """The program's last lines, at most 4 KB."""
    exit_code: int | None = None
    final: bool = False
    """True if a retry cannot help."""
    advised: bool = False
    """True if the reason contains advice about the program's error."""
    unsaid: str | None = None
    """The signal that the host could not send because it lacks the permission to put events."""


@dataclass(frozen=True, kw_only=True)
class Hold:
    """Sent by a host of a run or launch at a user's request. The function tags the instance if it lives and has the
    run's tag, even after the run has ended. A longer hold stays. The tag is the answer."""

    detail_type: ClassVar[str] = "hold"
    until: datetime | None
    """At most 24 h ahead; null ends the hold."""


@dataclass(frozen=True, kw_only=True)
class Wiped:
    """Sent by a warm host that has deleted all files of its run, every 15 s until its tag contains the time until which
    it may wait."""

    detail_type: ClassVar[str] = "wiped"
    reason: str | None = None
    """Why the host cannot be wiped. The host then ends."""


Signal = (
    Credentials
    | DevCredentials
    | Ready
    | Pulling
    | Streamed
    | Started
    | Progress
    | Checkpointed
    | Finished
    | Stopped
    | Failed
    | Hold
    | Wiped
)
SIGNALS: Mapping[str, type[Signal]] = {each.detail_type: each for each in get_args(Signal)}
"""The signals by the event's `detail-type`."""
Ending = Finished | Stopped | Failed
"""The signals that end a host's part in an attempt. A copy is stored in the bucket, because the bus may lose an event.
"""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The sender of a signal: its host, attempt and time."""

    run: str
    attempt: int
    instance: str
    at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Sent(Origin):
    """A signal with its origin."""

    signal: Signal
    left_out: tuple[str, ...] = ()
    """Values that did not fit, each with the expected type."""


Model = TypeVar("Model")


def encode(sent: Sent) -> dict[str, Any]:
    """Return the event's Detail."""
    head = {"run": sent.run, "attempt": sent.attempt, "instance": sent.instance}
    at = {"at": serialization.timestamp(sent.at)} if sent.at else {}
    return {**head, **at, "signal": sent.signal.detail_type, **to_detail(sent.signal)}


def to_detail(model: Signal | Resumed) -> dict[str, Any]:
    """Return the values of a signal as JSON, without optional values that are missing."""
    values = ((each, getattr(model, each.name)) for each in serialization.keys(cast(type, type(model))))
    return {
        each.key: to_detail(value) if isinstance(value, Resumed) else serialization.to_json(value)
        for each, value in values
        if value not in (None, (), {}) or each.required
    }


def decode(word: str, detail: object) -> Sent | str:
    """Return the signal, or the fault of the detail."""
    kind = SIGNALS.get(word)
    if kind is None:
        return f"{word!r:.40} is not a signal of this version"
    if not isinstance(detail, Mapping):
        return f"found {detail!r:.40}, expected a mapping"
    origin, wrong_origin = _read(Origin, detail)
    signal, wrong = _read(kind, detail)
    if origin is None or signal is None:
        return "; ".join((wrong_origin if origin is None else []) + (wrong if signal is None else []))
    return Sent(
        run=origin.run,
        attempt=origin.attempt,
        instance=origin.instance,
        at=origin.at,
        signal=signal,
        left_out=tuple(printable(each, MOST_OF_ANY_TEXT) for each in (wrong_origin + wrong)[:MOST_DOUBTS]),
    )


def _read(model: type[Model], detail: Mapping[str, Any]) -> tuple[Model | None, list[str]]:
    """Return the model without the values that do not fit, and the fault of each such value. Return no model if a
    required value has a fault."""
    keys = serialization.keys(cast(type, model))
    found = {each.key: detail[each.key] for each in keys if each.key in detail}
    wrong = _wrong(model, found)
    if any(each.required and each.key in wrong for each in keys):
        return None, list(wrong.values())
    fit = {key: _fit(key, value) for key, value in found.items() if key not in wrong}
    return serialization.from_json(model, fit), list(wrong.values())


def _wrong(model: type, found: Mapping[str, Any]) -> dict[str, str]:
    """Return the fault of each value that does not fit."""
    wrong = {AFTER_KEY.split(fault, maxsplit=1)[0]: fault for fault in serialization.faults(model, found)}
    for key, value in found.items():
        if _is_too_large(value):
            wrong[key] = f"{key}: found {value!r:.40}, which is too large"
    if "scalars" in found and "scalars" not in wrong and (problem := _problem_of_scalars(found["scalars"])):
        wrong["scalars"] = f"scalars: {problem}"
    if "objective" in found and "objective" not in wrong and len(found["objective"]) > MOST_POINTS:
        wrong["objective"] = f"objective: found {len(found['objective'])} values, at most {MOST_POINTS} fit"
    if model is Origin:
        wrong |= {key: f"{key} is missing" for key in ("run", "instance") if found.get(key) == ""}
        if "attempt" not in wrong and found["attempt"] < 1:
            wrong["attempt"] = f"attempt: found {found['attempt']}, attempts begin with 1"
    return wrong


def _problem_of_scalars(scalars: Mapping[str, Any]) -> str | None:
    if len(scalars) > MOST_SCALARS:
        return f"found {len(scalars)} metrics, at most {MOST_SCALARS} fit"
    odd = next((name for name in scalars if not re.fullmatch(SCALAR, name, re.ASCII)), None)
    return None if odd is None else f"{odd!r:.40} is not the name of a metric"


def _is_too_large(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(_is_too_large(each) for each in value.values())
    if isinstance(value, list | tuple):
        return any(_is_too_large(each) for each in value)
    return isinstance(value, int | float) and not abs(value) < LARGEST


def _fit(key: str, value: Any) -> Any:
    if isinstance(value, str):
        return printable(value, MOST_CHARACTERS.get(key, MOST_OF_ANY_TEXT))
    if isinstance(value, list) and key == "but":
        return [printable(each, MOST_OF_ANY_TEXT) for each in value[:MOST_DOUBTS]]
    return value
