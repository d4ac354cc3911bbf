"""`make conformance` compares answers with recordings, and reports bad recordings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.likeness import differences, same_words
from tests.conformance.player import Answer, answers
from tests.conformance.recordings import Oracle, UnreadableError, read

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("recorded", "ours", "number"),
    [
        ({"a": 1}, {"a": 1.0}, 0),
        ({"a": 1}, {"a": "1"}, 0),
        ({"a": 1}, {"a": True}, 1),
        ({"a": 1}, {}, 1),
        ({}, {"a": 1}, 1),
        ({"a": [1, 2]}, {"a": [1]}, 1),
        ({"a": "<uuid:1>"}, {"a": "anything"}, 0),
        ({"a": "role/<role:1> is gone"}, {"a": "role/mine is gone"}, 0),
        ({"a": "role/<role:1> is gone"}, {"a": "role/mine is here"}, 1),
        ({"a": "timestamp"}, {"a": "2026-11-20"}, 0),
        ({"a": {"b": 1}}, {"a": '{"b": 1}'}, 0),
        ({"a": "[1,2]"}, {"a": "[1, 2]"}, 0),
        ({"skipped": 1}, {"skipped": 2}, 0),
        ({"a": {"skipped": 1}}, {"a": {}}, 0),
    ],
)
def test_differences_are_what_a_program_could_see(recorded: Any, ours: Any, number: int) -> None:
    assert len(list(differences(recorded, ours, {"skipped"}))) == number


def test_words_are_compared_without_accounts_and_regions() -> None:
    recorded = "arn:<partition>:iam::111111111111:role/<name:1> in us-east-1 is gone"
    assert same_words(recorded, "arn:aws:iam::123456789012:role/a in eu-west-1 is gone")
    assert not same_words(recorded, "arn:aws:iam::123456789012:role/a in eu-west-1 is here")


def test_a_recording_may_have_comments_and_trailing_commas(tmp_path: Path) -> None:
    file = tmp_path / "template.json5"
    file.write_text('{ // why\n "a": ["http://x", /* no */ 1,],\n}')
    assert read(file) == {"a": ["http://x", 1]}
    file.write_text("{a: 1}")
    with pytest.raises(UnreadableError, match=r"template\.json5"):
        read(file)


def test_the_sources_of_the_recordings_are_named_with_their_commits(tmp_path: Path) -> None:
    text = (
        "from AWS by LocalStack's tests (8b9a79f, 2026-03)\nreal accounts (Cloud Custodian df800e9, 2026-08)"
    )
    (tmp_path / "README.md").write_text(text)
    assert Oracle(tmp_path).sources == ["LocalStack 8b9a79f (2026-03)", "Cloud Custodian df800e9 (2026-08)"]


def test_a_function_answers_what_the_history_says() -> None:
    failed = {"cause": {"errorType": "Mine", "errorMessage": "because"}}
    events = [
        {"type": "LambdaFunctionScheduled", "lambdaFunctionScheduledEventDetails": {"resource": "arn"}},
        {"type": "LambdaFunctionFailed", "lambdaFunctionFailedEventDetails": failed},
        {"type": "LambdaFunctionSucceeded", "lambdaFunctionSucceededEventDetails": {"output": {"a": 1}}},
        {"type": "LambdaFunctionTimedOut", "lambdaFunctionTimedOutEventDetails": {"error": "States.Timeout"}},
    ]
    script = [Answer("raises", ["Mine", "because"]), Answer("returns", [{"a": 1}]), Answer("sleeps")]
    assert answers(events) == script
    queue = {"resourceType": "sqs", "resource": "sendMessage"}
    assert answers([*events, {"type": "TaskScheduled", "taskScheduledEventDetails": queue}]) is None


def test_without_recordings_one_line_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.conformance"],
        cwd=ROOT,
        env={"ORACLE": str(tmp_path / "none"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.count("\n")) == (0, 1), done.stderr
    assert f"no recordings in {tmp_path / 'none'}: nothing is compared" in done.stdout
