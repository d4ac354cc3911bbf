"""The end of a host's part in an attempt is also written to the bucket, in case the event is lost."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from training.host.bucket import Bucket
from training.host.program.ending import Failed
from training.host.reporting import outbox as sending
from training.host.reporting.outbox import Outbox, Sender, failed_signal
from trainyard.protocol import signals
from trainyard.protocol.signals import FailureKind, Sent
from trainyard.values.serialization import Measure


class Bus:
    """A bus that accepts every event after it has refused some calls."""

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
    """A bucket with PutObject."""

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


def said(signal: signals.Signal, bus: Bus, objects: Objects) -> None:
    outbox = outbox_of(bus, objects)
    outbox.put(2, signal)
    assert outbox.flush(10)


@pytest.mark.parametrize(
    "signal",
    [signals.Finished(step=7), signals.Stopped(step=7), signals.Failed(step=7)],
    ids=lambda each: each.detail_type,
)
def test_an_ending_is_said_on_the_bus_and_left_in_the_bucket(signal: signals.Signal) -> None:
    bus, objects = Bus(), Objects()
    said(signal, bus, objects)
    assert bus.taken == [signal.detail_type]
    ((key, left),) = objects.put.items()
    assert key == "runs/digits-1/attempts/2/signals/AROAHOST:i-a.json"
    assert (left["signal"], left["run"], left["attempt"], left["step"]) == (
        signal.detail_type,
        "digits-1",
        2,
        7,
    )


@pytest.mark.parametrize(
    "signal", [signals.Ready(), signals.Started(), signals.Checkpointed()], ids=lambda each: each.detail_type
)
def test_news_on_the_way_is_not(signal: signals.Signal) -> None:
    bus, objects = Bus(), Objects()
    said(signal, bus, objects)
    assert (bus.taken, objects.put) == ([signal.detail_type], {})


def test_a_sign_of_life_is_left_once_a_minute() -> None:
    objects = Objects()
    outbox = outbox_of(Bus(), objects)
    for step in range(3):
        outbox.put(2, signals.Progress(step=step))
        assert outbox.flush(10)
    (left,) = objects.put.values()
    assert (left["signal"], left["step"]) == ("progress", 0)


def test_while_the_bus_is_down_the_end_is_left_in_the_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "RETRY_SECONDS", 0.05)
    bus, objects = Bus(refusals=10**9), Objects()
    outbox = outbox_of(bus, objects)
    outbox.put(2, signals.Progress(step=6))
    outbox.put(2, signals.Finished(step=7))
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
    monkeypatch.setattr(sending, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr("training.host.denials.GRACE_SECONDS", 0.5)
    bus, objects, mute = Bus(denials, code="AccessDenied"), Objects(), list[str]()
    outbox = outbox_of(bus, objects, mute)
    outbox.put(2, signals.Finished(step=7))
    assert outbox.flush(10)
    assert bool(mute) is is_mute
    assert bus.taken == ([] if is_mute else ["finished"])


@pytest.mark.parametrize("value", [10**15, 10**400, -(10**300)])
def test_a_number_that_the_ledger_cannot_hold_costs_a_signal_that_number_only(value: int) -> None:
    signal = signals.Finished(step=value, loss=Measure(0.5))
    sent = Sent(
        run="digits-1", attempt=1, instance="i-a", at=datetime(2026, 11, 28, tzinfo=UTC), signal=signal
    )
    read = signals.decode("finished", json.loads(json.dumps(signals.encode(sent))))
    assert isinstance(read, Sent)
    assert read.signal == signals.Finished(loss=Measure(0.5))
    assert "which is too large" in read.left_out[0]


def test_a_failure_carries_the_last_step() -> None:
    ended = Failed(FailureKind.PROGRAM, "ValueError", 1)
    assert failed_signal(ended, tail="", progress={"step": 10}).step == 10
