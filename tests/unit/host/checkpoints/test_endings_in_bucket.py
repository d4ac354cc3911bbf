"""What ends a host's part in an attempt stays in the bucket, for whoever looks when the event was lost."""

import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest

from lambdas.core.edges import events
from training.host.bucket import Bucket
from training.host.program.ending import Failed
from training.host.reporting import signals
from training.host.reporting.signals import Outbox, Sender, Signal


class Bus:
    """PutEvents of a bus that takes everything, or of one that takes nothing for some calls."""

    def __init__(self, refusals: int = 0, code: str = "InternalFailure") -> None:
        self.refusals = refusals
        self.code = code
        self.taken: list[str] = []

    def put_events(self, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803 - AWS's name
        if self.refusals:
            self.refusals -= 1
            return {"FailedEntryCount": 1, "Entries": [{"ErrorCode": self.code}]}
        self.taken.append(Entries[0]["DetailType"])
        return {"FailedEntryCount": 0, "Entries": [{}]}


class Objects:
    """PutObject."""

    def __init__(self) -> None:
        self.put: dict[str, Any] = {}

    def put_object(self, **request: Any) -> None:
        self.put[request["Key"]] = json.loads(request["Body"])


def outbox_of(bus: Bus, objects: Objects, mute: list[str] | None = None) -> Outbox:
    outbox = Outbox(
        bus,
        Sender("trainyard", "AROAHOST:i-a"),
        Bucket(objects, "yard"),
        run="digits-1",
        instance="i-a",
        on_mute=([] if mute is None else mute).append,
    )
    outbox.start()
    return outbox


def said(word: str, bus: Bus, objects: Objects) -> None:
    outbox = outbox_of(bus, objects)
    outbox.put(Signal(word, 2, {"step": 7}))
    assert outbox.flush(10)


@pytest.mark.parametrize("word", ["finished", "stopped", "failed"])
def test_an_ending_is_said_on_the_bus_and_left_in_the_bucket(word: str) -> None:
    bus, objects = Bus(), Objects()
    said(word, bus, objects)
    assert bus.taken == [word]
    ((key, left),) = objects.put.items()
    assert key == "runs/digits-1/attempts/2/words/AROAHOST:i-a.json"
    assert (left["signal"], left["run"], left["attempt"], left["step"]) == (word, "digits-1", 2, 7)


@pytest.mark.parametrize("word", ["ready", "started", "checkpointed"])
def test_news_on_the_way_is_not(word: str) -> None:
    bus, objects = Bus(), Objects()
    said(word, bus, objects)
    assert (bus.taken, objects.put) == ([word], {})


def test_a_sign_of_life_is_left_once_a_minute() -> None:
    objects = Objects()
    outbox = outbox_of(Bus(), objects)
    for step in range(3):
        outbox.put(Signal("progress", 2, {"step": step}))
        assert outbox.flush(10)
    (left,) = objects.put.values()
    assert (left["signal"], left["step"]) == ("progress", 0)


def test_while_the_bus_is_down_the_end_is_left_in_the_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "RETRY_SECONDS", 0.05)
    bus, objects = Bus(refusals=10**9), Objects()
    outbox = outbox_of(bus, objects)
    outbox.put(Signal("progress", 2, {"step": 6}))
    outbox.put(Signal("finished", 2, {"step": 7}))
    assert not outbox.flush(0.5)
    (left,) = objects.put.values()
    assert (bus.taken, left["signal"], left["step"]) == ([], "finished", 7)
    bus.refusals = 0
    assert outbox.flush(10)
    assert bus.taken == ["progress", "finished"]
    (left,) = objects.put.values()
    assert (left["signal"], left["step"]) == ("finished", 7)


@pytest.mark.parametrize(("denials", "is_mute"), [(3, False), (10**9, True)])
def test_a_bus_that_denies_for_a_moment_mutes_no_host(
    monkeypatch: pytest.MonkeyPatch, denials: int, is_mute: bool
) -> None:
    monkeypatch.setattr(signals, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr("training.host.denials.GRACE_SECONDS", 0.5)
    bus, objects, mute = Bus(denials, code="AccessDenied"), Objects(), list[str]()
    outbox = outbox_of(bus, objects, mute)
    outbox.put(Signal("finished", 2, {"step": 7}))
    assert outbox.flush(10)
    assert bool(mute) is is_mute
    assert bus.taken == ([] if is_mute else ["finished"])


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (10**15, None),
        (10**400, None),
        (-1e300, None),
        (10**15 - 1, 10**15 - 1),
        (math.inf, "Infinity"),
        (True, True),
    ],
)
def test_no_signal_carries_a_number_that_the_yard_ignores(value: float, sent: object) -> None:
    said_at = datetime(2026, 11, 28, tzinfo=UTC)
    signal = Signal("finished", 1, {"step": value, "loss": 0.5})
    event = signals.detail(signal, run="digits-1", instance="i-a", at=said_at)
    assert (event["step"], event["loss"]) == (sent, 0.5)
    if sent is not True:
        assert not isinstance(events.host_signal("finished", event), str)


def test_a_failure_carries_the_last_step() -> None:
    ended = Failed("program", "ValueError", 1)
    assert signals.failed(1, ended, tail="", how_far={"step": 10}).facts["step"] == 10
