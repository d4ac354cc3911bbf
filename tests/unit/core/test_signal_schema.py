"""What is heard as a signal, and what is not."""

from typing import Any

import pytest

from lambdas.core.run import signal_schema

GOOD = {"run": "r", "attempt": 2, "instance": "i-1", "at": "2026-11-21T04:00:00.000Z"}
HEARD: list[tuple[str, str, Any, str | None]] = [
    # sentence, word, what the detail has besides or instead, what is wrong
    ("a host's word", "ready", {}, None),
    ("a step that is not known", "stopped", {"step": None}, None),
    ("facts nobody knows yet", "stopped", {"mood": "good"}, None),
    ("progress of no host in particular", "progress", {"instance": None, "step": 5}, None),
    ("a time may be missing", "ready", {"at": None}, None),
    ("a host that is not named", "failed", {"instance": None}, "instance is"),
    ("no run", "progress", {"run": ""}, "run is"),
    ("a run that is a number", "progress", {"run": 5}, "run is 5"),
    ("an attempt in words", "ready", {"attempt": "x"}, "attempt is"),
    ("attempts begin with one", "ready", {"attempt": 0}, "attempt is 0"),
    ("a step in words", "stopped", {"step": "many"}, "step is"),
    ("half a step", "finished", {"step": 1.5}, "step is"),
    ("a time in words", "ready", {"at": "yesterday"}, "at is"),
    ("a time before the year 1", "ready", {"at": "0001-01-01T00:00+14:00"}, "at is"),
    ("a hold", "hold", {"until": "2026-11-21T06:00:00.000Z"}, None),
    ("the end of a hold", "hold", {"until": None}, None),
    ("a hold that forgot until when", "hold", {}, "until is"),
    ("a hold for a while", "hold", {"until": "2h"}, "until is"),
    ("a hold for ever", "hold", {"until": True}, "until is"),
    ("a hold of nobody", "hold", {"until": None, "instance": ""}, "instance is"),
    ("an exit code in words", "failed", {"exit_code": "bad"}, "exit_code is"),
]


@pytest.mark.parametrize(
    ("word", "change", "wrong"), [row[1:] for row in HEARD], ids=[row[0] for row in HEARD]
)
def test_what_is_heard(word: str, change: dict[str, Any], wrong: str | None) -> None:
    found = signal_schema.unreadable(word, GOOD | change)
    assert found is None if wrong is None else wrong in (found or "")


def test_a_detail_that_is_no_mapping_is_not_heard() -> None:
    assert "no mapping" in (signal_schema.unreadable("ready", ["run"]) or "")
