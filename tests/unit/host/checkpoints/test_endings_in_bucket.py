"""What ends a host's part in an attempt stays in the bucket, for whoever looks when the event was lost."""

import json
from typing import Any

import pytest

from training.host.bucket import Bucket
from training.host.reporting.signals import Outbox, Sender, Signal


class Bus:
    """PutEvents of a bus that takes everything, or of one that takes nothing for some calls."""

    def __init__(self, refusals: int = 0) -> None:
        self.refusals = refusals
        self.taken: list[str] = []

    def put_events(self, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803 - AWS's name
        if self.refusals:
            self.refusals -= 1
            return {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "InternalFailure"}]}
        self.taken.append(Entries[0]["DetailType"])
        return {"FailedEntryCount": 0, "Entries": [{}]}


class Objects:
    """PutObject."""

    def __init__(self) -> None:
        self.put: dict[str, Any] = {}

    def put_object(self, **request: Any) -> None:
        self.put[request["Key"]] = json.loads(request["Body"])


def said(word: str, bus: Bus, objects: Objects) -> None:
    outbox = Outbox(
        bus,
        Sender("trainyard", "AROAHOST:i-a"),
        Bucket(objects, "yard"),
        run="digits-1",
        instance="i-a",
        on_mute=lambda _: None,
    )
    outbox.start()
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


@pytest.mark.parametrize("word", ["ready", "started", "progress", "checkpointed"])
def test_news_on_the_way_is_not(word: str) -> None:
    bus, objects = Bus(), Objects()
    said(word, bus, objects)
    assert (bus.taken, objects.put) == ([word], {})
