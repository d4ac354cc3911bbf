"""Events: what signal and submit are given by EventBridge, from hosts, from AWS and from patrol."""

import re
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, cast

from trainyard.values import wire
from trainyard.values.lazy import dataclass
from trainyard.values.text import printable

OF_HOSTS, OF_PEOPLE, OF_PATROL = "trainyard.host/", "trainyard.people/", "trainyard.patrol"
"""Their `source`, of hosts and people its beginning; all else is AWS's. After it they say who they are as IAM knows
them, and IAM lets them say nothing else: a host `<id of its role>:<instance>`, its aws:userid, a person that or the
aws:username."""
SOURCE = "events:source"
"""The key of IAM's conditions."""


def from_sources(*sources: str) -> dict[str, dict[str, Any]]:
    """Return the condition of a policy that lets events come from these sources alone, of which each may end in `*`.

    AWS's reference calls events:source an array, and does not say how an operator without a set compares arrays. So
    ForAllValues compares every entry of a request. It is true of a request without a source, which the plain operator
    beside it does not allow."""
    word = "StringLike" if any(source.endswith("*") for source in sources) else "StringEquals"
    these = {SOURCE: list(sources)}
    return {word: these, f"ForAllValues:{word}": these}


def source_of(instance: str) -> str:
    """The source of what a host has said elsewhere."""
    return f"{OF_HOSTS}:{instance}"


def writer_of(key: str) -> str:
    """The instance that has left this in the bucket: IAM lets each write under its own aws:userid alone."""
    return key.rpartition("/")[2].removesuffix(".json").rpartition(":")[2]


def sender_of(source: str) -> str | None:
    """The instance that this event comes from; None for one that no host has sent."""
    return source.rpartition(":")[2] if source.startswith(OF_HOSTS) else None


def person_of(source: str) -> str | None:
    """Who has sent this event, fit to be shown; None for one that no person has sent."""
    return printable(source.removeprefix(OF_PEOPLE), OF_ANY_TEXT) if source.startswith(OF_PEOPLE) else None


@dataclass(frozen=True, kw_only=True)
class Event:
    """`source` and `detail_type` say which class `detail` is."""

    source: str
    detail_type: str = field(metadata={"wire_key": "detail-type"})
    detail: Any
    time: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class SpotWarning:
    instance: str = field(metadata={"wire_key": "instance-id"})
    action: str = field(default="terminate", metadata={"wire_key": "instance-action"})


@dataclass(frozen=True, kw_only=True)
class InstanceState:
    instance: str = field(metadata={"wire_key": "instance-id"})
    state: str


@dataclass(frozen=True, kw_only=True)
class ImageState:
    image: str = field(metadata={"wire_key": "ImageId"})
    state: str = field(metadata={"wire_key": "State"})
    error: str | None = field(default=None, metadata={"wire_key": "ErrorMessage"})


@dataclass(frozen=True, kw_only=True)
class CommandStatus:
    """`parameters` are those that the command was sent with, a list of each."""

    command: str = field(metadata={"wire_key": "command-id"})
    document: str = field(default="", metadata={"wire_key": "document-name"})
    status: str
    parameters: Mapping[str, Any] | None = None


AwsNews = SpotWarning | InstanceState | ImageState | CommandStatus
AWS_NEWS: Mapping[str, type[AwsNews]] = {
    "EC2 Spot Instance Interruption Warning": SpotWarning,
    "EC2 Instance State-change Notification": InstanceState,
    "EC2 AMI State Change": ImageState,
    "EC2 Command Status-change Notification": CommandStatus,
}
"""By the event's `detail_type`."""


@dataclass(frozen=True, kw_only=True)
class FromPerson:
    """A run that somebody wants something of."""

    run: str


@dataclass(frozen=True, kw_only=True)
class DevAsked:
    """A dev host that somebody wants `up`, or as an `image`, by a run of that id; `asked`: as an input of launch."""

    run: str
    name: str
    want: str
    asked: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FromPatrol:
    """A run that patrol has found at its cap, that may have more hosts, that goes on though somebody has stopped it, or
    that is missing in the ledger, where it has no attempt any more."""

    run: str
    attempt: int = 1


@dataclass(frozen=True, kw_only=True)
class FromHost:
    """A host's signal, with every fact that some signal has (docs/contracts/signals.md)."""

    run: str
    attempt: int
    instance: str
    at: datetime | None = None
    step: int | None = None
    steps: int | None = None
    epoch: int | None = None
    loss: wire.Measure | None = None
    accuracy: wire.Measure | None = None
    nan_since: int | None = None
    steps_per_second: float | None = None
    resumed: Mapping[str, Any] | None = None
    role: str | None = None
    index: int | None = None
    key: str | None = None
    address: str | None = None
    boot_seconds: float | None = None
    ssm_denied: str | None = None
    kind: str | None = None
    reason: str | None = None
    why: str | None = None
    tail: str | None = None
    exit_code: int | None = None
    final: bool | None = None
    advised: bool | None = None
    left: str | None = None
    but: tuple[str, ...] = ()
    until: datetime | None = None
    left_out: tuple[str, ...] = ()
    """Values that did not fit, and were left out of the signal."""


OF_KEY = re.compile(r"[.:\[]")
"""What follows the name of a key in a fault of wire.faults."""
MOST_CHARACTERS = {"reason": 4_096, "tail": 8_192}
OF_ANY_TEXT = 512
MOST_DOUBTS = 8
"""Sentences in `but`."""
LARGEST = 1e15
"""Of any count or measure."""
RESUMED = ("step", "global_batch_size", "epoch", "batch", "verified")


ESSENTIAL = ("run", "attempt", "instance")
"""A signal without one of these, or with a value that does not fit, is ignored."""


def host_signal(word: str, detail: object) -> FromHost | str:
    """Return the signal, or why the detail is not one.

    Any host can put any event on the bus, so each value is checked before a function acts on it. Texts are made
    printable and shortened. A value that does not fit costs the signal this value only: `left_out` names it."""
    if not isinstance(detail, Mapping):
        return "; ".join(wire.faults(FromHost, detail))
    wrong = _wrong(detail)
    missing = [f"{name} is missing" for name in ESSENTIAL if not detail.get(name)]
    # A hold without a time ends the hold, so the time must be there and fit.
    essential = (*ESSENTIAL, "until") if word == "hold" else ESSENTIAL
    missing += ["until is missing"] * (word == "hold" and "until" not in detail)
    refused = [problem for name, problem in wrong if name in essential] or missing
    if refused:
        return "; ".join(refused)
    fit = {name: value for name, value in detail.items() if name not in dict(wrong)}
    left_out = [printable(problem, OF_ANY_TEXT) for _, problem in wrong[:MOST_DOUBTS]]
    return wire.from_json(FromHost, {**_fit(fit), "left_out": left_out})


def _wrong(detail: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return each value that does not fit: its name, and what is wrong with it."""
    found = [(OF_KEY.split(fault, maxsplit=1)[0], fault) for fault in wire.faults(FromHost, detail)]
    found += [
        (name, f"{name}: found {value!r:.40}, beyond all that is counted")
        for name, value in detail.items()
        if _is_number(value) and not abs(value) < LARGEST
    ]
    attempt = detail.get("attempt")
    if _is_number(attempt) and cast(float, attempt) < 1:
        found.append(("attempt", f"attempt: found {attempt}, attempts begin with 1"))
    return found


def _fit(detail: Mapping[str, Any]) -> dict[str, Any]:
    texts = {
        name: printable(value, MOST_CHARACTERS.get(name, OF_ANY_TEXT))
        for name, value in detail.items()
        if isinstance(value, str)
    }
    resumed = detail.get("resumed")
    if resumed:
        resumed = {name: resumed[name] for name in RESUMED if _is_fact(resumed.get(name))}
    but = [printable(each, OF_ANY_TEXT) for each in (detail.get("but") or ())[:MOST_DOUBTS]]
    return {**detail, **texts, "resumed": resumed, "but": but}


def _is_fact(value: object) -> bool:
    return isinstance(value, bool) or (_is_number(value) and abs(cast(float, value)) < LARGEST)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True, kw_only=True)
class Handled:
    """What came of an event, for the log."""

    result: str


@dataclass(frozen=True, kw_only=True)
class UploadedObject:
    key: str
    version_id: str | None = field(default=None, metadata={"wire_key": "version-id"})
    etag: str = ""


@dataclass(frozen=True, kw_only=True)
class UploadDetail:
    """`requester` is the account that has put it there."""

    object: UploadedObject
    requester: str | None = None


@dataclass(frozen=True, kw_only=True)
class Upload:
    """An object that was put into the bucket."""

    detail: UploadDetail


@dataclass(frozen=True, kw_only=True)
class Submitted:
    """`run` is None for an upload that asks for nothing."""

    run: str | None
    started: bool
