"""The reason for a run's state, and the command to type next."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.client.facts import NOON, row_of
from trainyard.client import Execution
from trainyard.client.runs.reasons import ADVICE, Reason, advise, reason_for
from trainyard.core.model import ends

RUNNING = Execution("arn:aws:states:us-east-1:1:execution:train:digits-1", "RUNNING", NOON, None, "", "")
FAILED = replace(RUNNING, status="FAILED", stopped=NOON, error="ProgramFailed", cause="exit code 3")
WAITING = {
    "what": "capacity",
    "since": "2026-11-21T12:00:00.000Z",
    "asks": "2026-11-21T12:05:31.000Z",
    "seconds": 60,
    "until": "2026-11-21T13:00:00.000Z",
    "reason": "all pools refused",
    "refused": {"capacity": 16, "quota": 2},
}
NOW = NOON + timedelta(minutes=4)


def why(execution: Execution, row: dict[str, Any], summary: dict[str, Any], *, saved: bool = False) -> Reason:
    return reason_for(execution, row_of(**row) if row else None, summary, saved=saved, now=NOW)


def test_a_run_that_waits_says_how_long_why_and_when_it_asks_again() -> None:
    reason = why(RUNNING, {"waiting": WAITING}, {})
    assert reason.kind == "waiting"
    (line,) = reason.lines
    assert line.startswith("digits-1 waits 4 min: 18 pools refused (16 no room, 2 quota)")
    assert line.endswith("; it asks again at 12:05:31, and gives up at 13:00 UTC.")
    assert "trainyard stop digits-1" in reason.advice


def test_a_run_that_only_a_quota_keeps_is_told_to_ask_for_more() -> None:
    reason = why(RUNNING, {"waiting": WAITING | {"refused": {"quota": 3}}}, {})
    assert "doctor --request" in reason.advice[0]


@pytest.mark.parametrize("execution", [RUNNING, FAILED])
def test_a_loss_that_became_nan_is_among_the_reasons(execution: Execution) -> None:
    row = {"state": "Train", "progress": {"step": 330, "loss": "NaN", "nan_since": 320}}
    assert why(execution, row, {}).lines[-1] == "Its loss has been NaN since step 320."


@pytest.mark.parametrize("execution", [RUNNING, FAILED, replace(RUNNING, status="SUCCEEDED", stopped=NOON)])
def test_observations_about_the_hosts_are_sentences_of_the_reason(execution: Execution) -> None:
    found = "i-b is terminated and not used again: a GPU reports Xid 79"
    assert f"{found}." in why(execution, {"state": "Train", "findings": {"hardware i-b": found}}, {}).lines


def test_a_run_that_succeeded_with_a_loss_that_became_nan_says_so_once() -> None:
    row = {"progress": {"step": 330, "loss": "NaN", "nan_since": 320}}
    reason = f"{ends.BUT}its loss has been NaN since step 320"
    succeeded = replace(RUNNING, status="SUCCEEDED", stopped=NOON)
    (line,) = why(succeeded, row, {"outcome": "succeeded", "reason": reason}).lines
    assert line == "digits-1 has finished, but its loss has been NaN since step 320."


def test_a_run_that_waits_for_its_slot_says_for_what() -> None:
    waiting = WAITING | {"what": "slot", "reason": "20 runs are before it", "refused": {}}
    assert "its slot in the yard: 20 runs are before it" in why(RUNNING, {"waiting": waiting}, {}).lines[0]


def test_a_run_that_waits_for_days_says_the_day_on_which_it_gives_up() -> None:
    waiting = WAITING | {"what": "slot", "until": "2026-11-24T12:00:00.000Z", "refused": {}}
    assert "gives up at 2026-11-24 12:00 UTC" in why(RUNNING, {"waiting": waiting}, {}).lines[0]


def test_a_run_that_leaves_for_another_says_for_which() -> None:
    left = {"run": "urgent-1", "priority": 80, "attempt": 1, "at": "2026-11-21T12:00:00.000Z"}
    reason = why(RUNNING, {"state": "Train", "preempted": left}, {})
    assert reason.lines[1] == (
        "Run urgent-1 of priority 80 needs its slot: it saves, waits in the queue, and continues from its last "
        "checkpoint."
    )
    continued = left | {"given": "2026-11-21T12:30:00.000Z"}
    assert len(why(RUNNING, {"state": "Train", "preempted": continued}, {}).lines) == 1


@pytest.mark.parametrize(("saved", "resumes"), [(True, True), (False, False)])
def test_a_failed_run_has_its_reason_and_the_line_that_resumes_it(saved: bool, resumes: bool) -> None:
    summary = {"outcome": "failed", "error": "ProgramFailed", "reason": "exit code 3\nTraceback: x"}
    reason = why(FAILED, {}, summary, saved=saved)
    assert (reason.kind, reason.lines[1:]) == ("failed", ("exit code 3", "Traceback: x"))
    assert ("trainyard resume digits-1" in reason.advice) is resumes


@pytest.mark.parametrize(
    ("outputs", "where", "resumes"),
    [
        ({}, {"outputs": "s3://b/outputs/"}, True),
        ({}, {"model": "s3://b/model/"}, False),
        ({"keep": True, "restore": None}, {"outputs": "s3://b/outputs/"}, True),
        ({"keep": True, "restore": False}, {"outputs": "s3://b/outputs/"}, False),
        ({"keep": False, "restore": None}, {"outputs": "s3://b/outputs/"}, False),
    ],
)
@pytest.mark.parametrize("outcome", ["failed", "stopped", "refused"])
def test_a_run_that_left_only_outputs_is_resumed_if_its_job_restores_them(
    outputs: dict[str, Any], where: dict[str, str], resumes: bool, outcome: str
) -> None:
    summary = {"outcome": outcome, "error": "ProgramFailed", "reason": "x", "where": where}
    reason = why(FAILED, {"job": {"outputs": outputs}}, summary)
    resumes = resumes and outcome != "refused"
    assert (reason.resumes, "trainyard resume digits-1" in reason.advice) == (resumes, resumes)


@pytest.mark.parametrize(
    ("where", "next_steps"),
    [
        ({"model": "s3://b/model/"}, ("trainyard get digits-1",)),
        ({}, ()),
        ({"outputs": "s3://b/outputs/"}, ("trainyard get digits-1 outputs",)),
        ({"notebook": "s3://b/notebook/"}, ("trainyard get digits-1 notebook",)),
        (
            {"notebook": "s3://b/notebook/", "model": "s3://b/model/"},
            ("trainyard get digits-1 notebook", "trainyard get digits-1"),
        ),
    ],
)
def test_a_run_that_has_succeeded_says_how_to_get_what_it_left(
    where: dict[str, str], next_steps: tuple[str, ...]
) -> None:
    assert why(replace(FAILED, status="SUCCEEDED"), {}, {"where": where}).advice == next_steps


def test_a_notebook_that_failed_is_to_be_looked_at_first() -> None:
    summary = {"outcome": "failed", "reason": "x", "where": {"notebook": "s3://b/notebook/"}}
    assert why(FAILED, {}, summary).advice[0] == "trainyard get digits-1 notebook"


def test_a_refused_run_has_no_logs_to_look_at() -> None:
    reason = why(FAILED, {}, {"outcome": "refused", "error": "JobRefused", "reason": "a fault"}, saved=False)
    assert (reason.kind, reason.advice) == (
        "refused",
        ("correct the job file, and check it first: trainyard check JOB",),
    )


def test_a_run_that_was_cut_short_before_its_summary_has_what_step_functions_says() -> None:
    assert why(FAILED, {}, {}).lines[1] == "ProgramFailed: exit code 3"
    assert why(replace(FAILED, status="ABORTED", error="", cause=""), {}, {}).lines == (
        "digits-1 was stopped:",
        "the execution is ABORTED and gives no cause",
    )


def test_a_run_that_is_not_admitted_yet_says_so() -> None:
    assert "the yard checks its job now" in why(RUNNING, {}, {}).lines[0]


def test_a_run_that_goes_on_says_where_it_is() -> None:
    row = {"state": "Train", "attempt": 2, "progress": {"step": 40}}
    assert why(RUNNING, row, {}) == Reason("running", ("digits-1 is training: attempt 2, at step 40.",))


@pytest.mark.parametrize("error", ADVICE)
def test_advice_names_commands_that_there_are(error: str) -> None:
    line = advise(error)
    assert "{" not in line
    assert ("{" in ADVICE[error]) is ("trainyard " in line)


def test_a_log_is_named_where_one_was_sent_and_not_to_a_user_who_has_read_it() -> None:
    failed = {"outcome": "failed", "error": "ProgramFailed", "reason": "exit code 3"}
    sent = why(FAILED, {}, {**failed, "where": {"last_log": "s3://b/logs/"}}, saved=True)
    assert sent.advice == ("trainyard logs digits-1", "trainyard resume digits-1")
    assert sent.beyond_logs == ("trainyard resume digits-1",)
    assert why(FAILED, {}, {**failed, "where": {}}).advice == ()
    assert why(FAILED, {}, {**failed, "where": {"log": "s3://b/l/"}}).advice == ("trainyard logs digits-1",)
