"""Signals of hosts: valid ones, and events that are ignored."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from trainyard.protocol import requests
from trainyard.protocol.requests import Stop
from trainyard.protocol.signals import (
    SIGNALS,
    Checkpointed,
    Failed,
    Finished,
    Progress,
    Resumed,
    Sent,
    decode,
)
from trainyard.values import serialization
from trainyard.values.serialization import Measure

NEWER = {"pulling", "streamed"}
"""The signals that the last version did not have."""
GOOD = {"run": "r", "attempt": 2, "instance": "i-1", "at": "2026-11-21T04:00:00.000Z"}
CASES: list[tuple[str, str, Any, str | None]] = [
    # name, word, changes to the detail, error
    ("a host's word", "ready", {}, None),
    ("a step that is not known", "stopped", {"step": None}, None),
    ("facts nobody knows yet", "stopped", {"mood": "good"}, None),
    ("a time may be missing", "ready", {"at": None}, None),
    ("a host that is not named", "failed", {"instance": None}, "instance: found None, expected str"),
    (
        "progress of no host in particular",
        "progress",
        {"instance": None},
        "instance: found None, expected str",
    ),
    ("a loss next to nothing", "progress", {"loss": 1e-200}, None),
    (
        "a loss that is no number",
        "progress",
        {"loss": math.nan},
        "loss: found nan, which is too large",
    ),
    ("a loss that became NaN", "progress", {"loss": "NaN", "accuracy": "-Infinity", "nan_since": 3}, None),
    ("a loss in words", "progress", {"loss": "low"}, "loss: found 'low', expected"),
    (
        "a pace that is NaN",
        "progress",
        {"steps_per_second": "NaN"},
        "steps_per_second: found 'NaN', expected float",
    ),
    ("a loss without end", "progress", {"loss": -math.inf}, "loss: found -inf"),
    ("a step that no program reaches", "progress", {"step": 10**50}, "step: found 1000"),
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
    ("a hold that forgot until when", "hold", {}, "until: is missing"),
    ("a hold for a while", "hold", {"until": "2h"}, "until: found '2h'"),
    ("a hold for ever", "hold", {"until": True}, "until: found True"),
    ("a hold of nobody", "hold", {"until": None, "instance": ""}, "instance is missing"),
    ("metrics of its own", "progress", {"scalars": {"val_f1": 0.5, "train/lr": "NaN"}}, None),
    ("its objective", "finished", {"objective": [{"step": 4, "epoch": 1, "value": "-Infinity"}]}, None),
    ("an exit code in words", "failed", {"exit_code": "bad"}, "exit_code: found 'bad'"),
]


@pytest.mark.parametrize(
    ("word", "change", "wrong"), [row[1:] for row in CASES], ids=[row[0] for row in CASES]
)
def test_what_counts_as_a_signal(word: str, change: dict[str, Any], wrong: str | None) -> None:
    found = decode(word, GOOD | change)
    if wrong is None:
        assert isinstance(found, Sent)
        assert found.left_out == ()
    elif set(change) & {"run", "attempt", "instance"} or word == "hold":
        assert isinstance(found, str)
        assert wrong in found
    else:
        assert isinstance(found, Sent)
        (said,) = found.left_out
        assert wrong in said
        assert all(getattr(found.signal, name, getattr(found, name, None)) is None for name in change)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("scalars", {"val loss": 1.0}, "'val loss' is not the name of a metric"),
        ("scalars", {"x" * 65: 1.0}, "is not the name of a metric"),
        ("scalars", {f"m{n}": 1.0 for n in range(33)}, "found 33 metrics, at most 32 fit"),
        ("scalars", {"lr": 1e15}, "which is too large"),
        ("scalars", {"lr": "low"}, "scalars.lr: found 'low', expected Measure"),
        ("scalars", [1.0], "scalars: found [1.0]"),
        ("objective", [{"step": 1, "value": 1.0}] * 17, "found 17 values, at most 16 fit"),
        ("objective", [{"step": 1, "value": -1e16}], "which is too large"),
        ("objective", [{"step": 1}], "objective[0].value: is missing"),
        ("objective", {"step": 1, "value": 1.0}, "objective: found"),
    ],
)
def test_metrics_that_do_not_fit_are_left_out_and_the_rest_of_the_signal_counts(
    key: str, value: object, said: str
) -> None:
    found = decode("progress", GOOD | {"step": 3, key: value})
    assert isinstance(found, Sent)
    assert found.signal == Progress(step=3)
    assert said in found.left_out[0]


@pytest.mark.parametrize("step", [10**15, -(10**15), 1_764_000_000_000_000, 10**50])
def test_a_signal_with_a_number_that_is_too_large_is_read_without_it(step: int) -> None:
    found = decode("finished", GOOD | {"step": step, "steps": 40, "loss": 0.5})
    assert isinstance(found, Sent)
    assert found.signal == Finished(steps=40, loss=Measure(0.5))
    assert "which is too large" in found.left_out[0]


def test_a_key_is_made_printable() -> None:
    found = decode("checkpointed", GOOD | {"step": 4, "key": "runs/r/checkpoints/\ud800\x1b[1m/"})
    assert isinstance(found, Sent)
    assert found.signal == Checkpointed(step=4, key="runs/r/checkpoints/\\ud800/")


def test_a_host_cannot_say_that_values_were_left_out() -> None:
    found = decode("ready", GOOD | {"left_out": ["x" * 99_999]})
    assert isinstance(found, Sent)
    assert found.left_out == ()


def test_a_detail_that_is_no_mapping_is_no_signal() -> None:
    assert "found ['run'], expected a mapping" in str(decode("ready", ["run"]))


def test_a_word_that_this_version_does_not_know_is_refused_by_name() -> None:
    assert "'sings' is not a signal" in str(decode("sings", GOOD))


def test_what_a_host_says_is_fit_to_be_read_and_no_longer_than_anybody_reads() -> None:
    bar = "\x1b[1m1/3\x1b[0m\b\b\b\r2/3\r\nend\t3"
    said = GOOD | {"reason": "\x1b]0;x\x07gone\u202e\n" + "x" * 300_000, "tail": bar, "unsaid": "caf\u00e9"}
    found = decode("failed", said)
    assert isinstance(found, Sent)
    assert isinstance(found.signal, Failed)
    assert found.signal.reason.startswith("\\x1b]0;x\\x07gone\\u202e\n")
    assert len(found.signal.reason) < 4_200
    assert (found.signal.tail, found.signal.unsaid) == ("1/3\n2/3\nend\t3", "caf\u00e9")


def test_many_doubts_are_cut() -> None:
    found = decode("finished", GOOD | {"but": ["x" * 999] * 99})
    assert isinstance(found, Sent)
    assert isinstance(found.signal, Finished)
    assert [len(each) for each in found.signal.but] == [512] * 8


@pytest.mark.parametrize(
    ("epoch", "resumed"),
    [(1, Resumed(step=4, epoch=1, verified=True)), (1e99, None), ("one", None)],
)
def test_of_what_a_program_restored_the_known_facts_are_kept(epoch: object, resumed: Resumed | None) -> None:
    facts = {"step": 4, "verified": True, "x": "y" * 99, "epoch": epoch}
    found = decode("progress", GOOD | {"resumed": facts})
    assert isinstance(found, Sent)
    assert found.signal == Progress(resumed=resumed)
    assert bool(found.left_out) is (resumed is None)


LAST_VERSION = [
    json.loads(line)
    for line in Path(__file__).with_name("last_version").joinpath("signals.jsonl").read_text().splitlines()
]
"""Signals and requests of e013906f, one for each word and set of keys, from the simulator's worlds."""
OF_HOSTS = [each for each in LAST_VERSION if each["source"].startswith("trainyard.host/")]


@pytest.mark.parametrize("written", OF_HOSTS, ids=[f"{n}-{each['word']}" for n, each in enumerate(OF_HOSTS)])
def test_a_signal_of_the_last_version_is_read_without_loss(written: dict[str, Any]) -> None:
    detail = {key: value for key, value in written["detail"].items() if value is not None}
    sent = decode(written["word"], written["detail"])
    assert isinstance(sent, Sent)
    assert sent.left_out == ()
    read = serialization.to_json(sent.signal) | serialization.to_json(
        {"run": sent.run, "attempt": sent.attempt, "at": sent.at}
    )
    known = {key: read[key] for key in detail if key in read}
    assert known == {key: detail[key] for key in known}
    assert set(detail) - set(known) <= {"signal", "instance"}


def test_the_last_version_has_sent_every_signal() -> None:
    assert {each["word"] for each in OF_HOSTS} == set(SIGNALS) - NEWER, "a new signal belongs into NEWER"


def test_a_stop_of_the_last_version_is_read() -> None:
    (written,) = [each for each in LAST_VERSION if each["source"].startswith("trainyard.people/")]
    assert requests.decode(written["word"], written["detail"]) == Stop(run=written["detail"]["run"])
