"""What counts as a signal of a host, and what is ignored."""

from typing import Any

import pytest

from lambdas.core.edges.events import FromHost, host_signal

GOOD = {"run": "r", "attempt": 2, "instance": "i-1", "at": "2026-11-21T04:00:00.000Z"}
CASES: list[tuple[str, str, Any, str | None]] = [
    # sentence, word, what the detail has besides or instead, what is wrong
    ("a host's word", "ready", {}, None),
    ("a step that is not known", "stopped", {"step": None}, None),
    ("facts nobody knows yet", "stopped", {"mood": "good"}, None),
    ("progress of no host in particular", "progress", {"instance": None, "step": 5}, None),
    ("a time may be missing", "ready", {"at": None}, None),
    ("a host that is not named", "failed", {"instance": None}, "instance is missing"),
    ("no run", "progress", {"run": ""}, "run is missing"),
    ("a run that is a number", "progress", {"run": 5}, "run: found 5, expected str"),
    ("an attempt in words", "ready", {"attempt": "x"}, "attempt: found 'x', expected int"),
    ("attempts begin with one", "ready", {"attempt": 0}, "attempt: found 0"),
    ("a step in words", "stopped", {"step": "many"}, "step: found 'many', expected int"),
    ("half a step", "finished", {"step": 1.5}, "step: found 1.5, expected int"),
    ("a time in words", "ready", {"at": "yesterday"}, "at: found 'yesterday', expected datetime"),
    ("a time before the year 1", "ready", {"at": "0001-01-01T00:00+14:00"}, "at: found"),
    ("a hold", "hold", {"until": "2026-11-21T06:00:00.000Z"}, None),
    ("the end of a hold", "hold", {"until": None}, None),
    ("a hold that forgot until when", "hold", {}, "until is missing"),
    ("a hold for a while", "hold", {"until": "2h"}, "until: found '2h'"),
    ("a hold for ever", "hold", {"until": True}, "until: found True"),
    ("a hold of nobody", "hold", {"until": None, "instance": ""}, "instance is missing"),
    ("an exit code in words", "failed", {"exit_code": "bad"}, "exit_code: found 'bad'"),
]


@pytest.mark.parametrize(
    ("word", "change", "wrong"), [row[1:] for row in CASES], ids=[row[0] for row in CASES]
)
def test_what_counts_as_a_signal(word: str, change: dict[str, Any], wrong: str | None) -> None:
    found = host_signal(word, GOOD | change)
    assert isinstance(found, FromHost) if wrong is None else wrong in str(found)


def test_a_detail_that_is_no_mapping_is_no_signal() -> None:
    assert "found ['run'], expected a mapping" in str(host_signal("ready", ["run"]))
