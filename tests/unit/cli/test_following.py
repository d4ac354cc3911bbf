"""The end of a run that `submit` follows: report and advice."""

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from tests.unit.cli.screens import STATUS, printed
from trainyard.cli import following
from trainyard.cli.options import Options, Output
from trainyard.client import RunStatus
from trainyard.client.errors import RunFailed
from trainyard.client.runs.reasons import Reason

LOGS = "trainyard logs digits-1"
AT = "2026-11-20T00:00:00.000Z"
SUMMARY = {
    "run": "digits-1",
    "outcome": "failed",
    "reason": "exit code 1",
    "created": AT,
    "ended": AT,
    "seconds": 60.0,
    "restarts": 0,
    "steps": {},
    "resume": {"attempts": 1},
    "cost": {"dollars": 0.5, "hours": 1, "by_market": {}, "on_demand_dollars": None, "counts": "hours"},
    "pool": {"retained": [], "minutes": None, "most_dollars": 0.0, "claimed": []},
    "outputs": {"files": 0, "bytes": 0, "left_out": [], "left_out_more": 0},
}


class Followed:
    """A run that has ended, as the client returns it."""

    id = "digits-1"
    workflow = "train"
    summary: dict[str, Any] = SUMMARY

    def __init__(self, reason: Reason, *printed: Any, interrupted: bool = False) -> None:
        self._reason, self._printed, self._interrupted = reason, list(printed), interrupted
        bucket = SimpleNamespace(name="bucket", keys=lambda _: {})
        self.yard = SimpleNamespace(bucket=bucket, row=lambda _: None)

    def watch(self) -> Iterator[tuple[RunStatus, list[Any]]]:
        if self._interrupted:
            raise KeyboardInterrupt
        yield replace(STATUS, execution=replace(STATUS.execution, status="FAILED")), self._printed

    def follow(self) -> Iterator[RunStatus]:
        for status, _ in self.watch():
            yield status

    def reason(self) -> Reason:
        return self._reason

    def wait_for_start(self) -> None:
        pass

    def log(self) -> str:
        return ""

    def result(self) -> None:
        if self._reason.kind != "succeeded":
            raise RunFailed("digits-1 failed: exit code 1\nThe program's last lines:\nboom", "kept", LOGS)


FAILED = Reason("failed", ("exit code 1",), (LOGS, "trainyard resume digits-1"), LOGS)


def test_a_user_who_has_read_the_log_is_not_sent_to_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RunFailed) as failed:
        following.follow(Options(), Followed(FAILED, printed(60, "boom")), logs=True)  # type: ignore[arg-type]
    assert "boom" not in failed.value.what
    assert failed.value.next_step == "trainyard resume digits-1"
    said = capsys.readouterr().out
    assert "| boom" in said
    assert "Cost  $0.50" in said


def test_a_failed_run_without_a_checkpoint_is_submitted_again_once_it_is_corrected() -> None:
    reason = replace(FAILED, advice=(LOGS,))
    with pytest.raises(RunFailed) as failed:
        following.follow(Options(), Followed(reason, printed(60, "boom")), logs=True)  # type: ignore[arg-type]
    assert failed.value.next_step == "correct the program, and submit it again"


@pytest.mark.parametrize("logs", [False, True])
def test_a_user_who_has_seen_no_line_gets_the_last_lines(logs: bool) -> None:
    with pytest.raises(RunFailed) as failed:
        following.follow(Options(), Followed(FAILED), logs=logs)  # type: ignore[arg-type]
    assert "boom" in failed.value.what
    assert failed.value.next_step == LOGS


def test_a_finished_run_says_how_to_get_its_results(capsys: pytest.CaptureFixture[str]) -> None:
    done = Reason("succeeded", ("digits-1 has finished.",), ("trainyard get digits-1",))
    following.follow(Options(), Followed(done, printed(60, "hello")), logs=True)  # type: ignore[arg-type]
    assert capsys.readouterr().err == "Next: trainyard get digits-1\n"


@pytest.mark.parametrize("logs", [False, True])
def test_ctrl_c_leaves_the_run_alone_and_says_how_to_come_back(
    capsys: pytest.CaptureFixture[str], logs: bool
) -> None:
    run = Followed(FAILED, interrupted=True)
    with pytest.raises(typer.Exit) as ended:
        following.follow_new(Options(output=Output.TABLE), run, detach=False, logs=logs)  # type: ignore[arg-type]
    assert ended.value.exit_code == 130
    said = capsys.readouterr()
    assert said.out.splitlines()[0] == "digits-1"
    assert "trainyard show digits-1 --watch" in said.err
    assert "trainyard logs digits-1 -f" in said.err


def test_a_run_without_a_summary_ends_without_its_cost(capsys: pytest.CaptureFixture[str]) -> None:
    run = Followed(FAILED, printed(60, "boom"))
    run.summary = {}  # it was ended by force, and patrol has not concluded it yet
    with pytest.raises(RunFailed):
        following.follow(Options(), run, logs=True)  # type: ignore[arg-type]
    assert "Cost" not in capsys.readouterr().out
