"""The checkpoint or the outputs that a job with checkpoints.resume starts from."""

from typing import Any

import pytest

from tests.unit.core.builders import job
from trainyard.core.jobfile.references import lineage, owner_of_work
from trainyard.values.validation import Fault

CHECKPOINT = {"key": "runs/first/checkpoints/00000120/", "step": 120}
RESUMED = {"checkpoints": {"resume": "first"}}
ROWS: list[tuple[str, str, Any, Any, set[str], bool, str]] = [
    ("outputs alone", "first", None, {}, {"first"}, True, "first"),
    ("a checkpoint comes before outputs", "first", CHECKPOINT, {}, {"first"}, True, "first"),
    ("a checkpoint needs no outputs restored", "first", CHECKPOINT, {}, {"first"}, False, "first"),
    ("neither", "first", None, {}, set(), True, "fault: and no output (runs/first/outputs/)"),
    ("no outputs restored", "first", None, {}, {"first"}, False, "fault: this job restores no outputs"),
    ("its own outputs first", "second", None, RESUMED, {"first", "second"}, True, "second"),
    ("it ended before it wrote any", "second", None, RESUMED, {"first"}, True, "first"),
    ("its job is missing", "second", None, None, {"first"}, True, "fault: there is no checkpoint of second"),
    ("its job names no run", "second", None, {"checkpoints": {"resume": None}}, {"first"}, True, "fault: "),
    ("a foreign checkpoint", "second", CHECKPOINT, {}, {"second"}, True, 'fault: names "runs/first/'),
]


@pytest.mark.parametrize(
    ("run", "latest", "job", "kept", "restores", "expected"),
    [row[1:] for row in ROWS],
    ids=[row[0] for row in ROWS],
)
def test_a_run_resumes_a_checkpoint_or_outputs_that_it_would_restore_itself(
    run: str, latest: Any, job: Any, kept: set[str], restores: bool, expected: str
) -> None:
    found = owner_of_work(lineage(run, job), latest, kept=kept, restores=restores)
    if isinstance(found, Fault):
        assert found.path == "checkpoints.resume"
        assert expected.startswith("fault: ")
        assert expected.removeprefix("fault: ") in found.problem
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("outputs", "restored"),
    [
        (None, True),
        ({}, True),
        ({"keep": True, "restore": None}, True),
        ({"keep": True, "restore": True}, True),
        ({"keep": True, "restore": False}, False),
        ({"keep": False, "restore": True}, False),
    ],
)
def test_outputs_are_restored_unless_the_job_says_otherwise(
    outputs: dict[str, Any] | None, restored: bool
) -> None:
    assert job(**({} if outputs is None else {"outputs": outputs})).outputs.are_restored() is restored
