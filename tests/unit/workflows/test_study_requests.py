"""Requests of users to a study: continue it, and add points. Only its owner and operators may send them."""

from collections.abc import Iterator
from typing import Any

import pytest

from lambdas.aws import states
from lambdas.aws.dynamodb.rows import run_row
from lambdas.aws.dynamodb.studies import Studies
from tests.unit.workflows.account import an_account
from tests.unit.workflows.studies import STARTED, STUDY, Yard, begin, read_object
from trainyard.protocol.ledger.study import DrawnBy, StudyRow, TrialRow, TrialState

MORE: dict[str, Any] = {"part": 2, "trials": 2, "dollars": 3}
POINT = "0123456789abcdef"


@pytest.fixture
def yard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Yard]:
    """A study of ada, whose two trials have ended; it is concluded."""
    with an_account(monkeypatch):
        made = begin(monkeypatch)
        made.admit(trials=2, parallel=1)
        made.ledger.write(run_row(STUDY, {"submitter": "ada"}))
        made.search()
        made.end(1, metrics={"accuracy": 0.5})
        made.end(2, metrics={"accuracy": 0.7})
        yield made


def rows() -> tuple[StudyRow, dict[int, TrialRow]]:
    found = Studies("ledger").read(STUDY)
    assert found
    return found.row, {each.number: each for each in found.trials}


def test_a_continued_study_counts_on_from_its_rows_and_ends_again(yard: Yard) -> None:
    yard.conclude()
    assert yard.request("more", **MORE) == f"{STUDY}-part-0002 started"
    assert states.list_running([yard.study_machine]) == {STUDY}, "patrol takes its turns"
    assert yard.continue_()["kind"] == "admitted"
    run, (row, _) = yard.ledger.require(STUDY).run, rows()
    assert (run.ended, run.outcome, run.execution_arn) == (None, None, f"arn:{STUDY}-part-0002")
    assert (row.trials, row.dollars, row.part, row.since) == (4, 4.0, 2, 2)
    yard.turn()
    yard.end(3, metrics={"accuracy": 0.9})
    yard.end(4, metrics={"accuracy": 0.6})
    yard.search_part(2)
    assert [reason for _, reason in yard.reasons()][-1] == (
        "all trials are reported: 4 trials for $2.00; the best is trial 3 with accuracy 0.9"
    )
    assert yard.conclude(2)["outcome"] == "succeeded"
    summary = read_object(f"runs/{STUDY}/summary.json")
    assert (summary["best"], summary["trials"], summary["dollars"]) == (f"{STUDY}-0003-trial", 4, 2.0)
    assert yard.ledger.require(STUDY).run.notified, "each end has its notification"


def test_a_stopped_study_continues(yard: Yard) -> None:
    yard.ledger.write(run_row(STUDY, {"stopping": STARTED, "stopped_by": "ada"}))
    yard.conclude(kind="error", error="Stopped", reason="ada has stopped the study")
    yard.request("more", **MORE)
    yard.continue_()
    run = yard.ledger.require(STUDY).run
    assert (run.stopping, run.stopped_by, run.error) == (None, None, None)
    yard.turn()
    assert yard.trials()[3] is TrialState.STARTED


def test_a_continuation_that_is_repeated_changes_nothing(yard: Yard) -> None:
    yard.conclude()
    yard.request("more", **MORE)
    yard.continue_()
    before = rows()
    assert yard.continue_()["kind"] == "admitted"
    assert yard.request("more", **MORE) == f"{STUDY} is running, or another request has continued it"
    assert rows() == before


def test_a_study_that_runs_is_not_continued_and_a_request_with_a_fault_starts_nothing(yard: Yard) -> None:
    assert "is running" in yard.request("more", **MORE)
    yard.conclude()
    assert "trials: found 0" in yard.request("more", **MORE | {"trials": 0})
    assert not yard.executions(yard.study_machine)


def test_only_the_owner_and_operators_change_a_study(yard: Yard) -> None:
    yard.conclude()
    assert (
        yard.request("more", "trainyard.people/bob", **MORE)
        == f"{STUDY} belongs to ada: bob may not change it"
    )
    assert not yard.executions(yard.study_machine)
    assert yard.request("more", "trainyard.operator/bob", **MORE) == f"{STUDY}-part-0002 started"


def test_an_added_point_is_the_next_trial(yard: Yard) -> None:
    yard.conclude()
    yard.request("more", **MORE)
    yard.continue_()
    values = {"args.lr": 0.03}
    assert yard.request("add", point=POINT, values=values) == f"the point {POINT} waits for a trial"
    assert yard.request("add", point=POINT, values=values) == f"the point {POINT} was added before"
    yard.turn()
    trial = rows()[1][3]
    assert (trial.values, trial.drawn_by, trial.point) == (values, DrawnBy.ADDED, POINT)


def test_a_full_study_takes_no_point_and_none_with_a_fault(yard: Yard) -> None:
    assert "args.lr: found the number 2" in yard.request("add", point=POINT, values={"args.lr": 2})
    assert "'x' is not the id of a point" in yard.request("add", point="x", values={"args.lr": 0.01})
    answer = yard.request("add", point=POINT, values={"args.lr": 0.01})
    assert answer == "all of its 2 trials are taken: 2 ended, 0 running, 0 added"
