"""Writes that the ledger refuses."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lambdas.aws.dynamodb.ledger import AlreadyWrittenError
from lambdas.aws.dynamodb.rows import (
    answered_row,
    attempt_row,
    host_row,
    launch_request_counted,
    launch_request_row,
    plan_row,
    run_row,
)
from lambdas.core.run import RunUpdate
from tests.unit.core.builders import NOON
from tests.unit.workflows.conftest import Place
from trainyard.core.model import states
from trainyard.protocol.ledger.attempt import Ending, TokenRow
from trainyard.protocol.plan import Plan


def test_news_of_a_host_that_the_run_has_not_launched_makes_no_row(place: Place) -> None:
    with pytest.raises(AlreadyWrittenError):
        place.ledger.write(host_row("digits-1", "i-0123456789abcdef0", {"lost": "gone"}))
    assert set(place.ledger.require("digits-1").hosts) == set(place.hosts)


def test_an_answer_to_a_wait_whose_row_is_gone_makes_no_row(place: Place) -> None:
    gone = TokenRow(attempt=2, wait="train", token="t", stored=NOON)
    with pytest.raises(AlreadyWrittenError):
        place.ledger.write(answered_row("digits-1", gone, NOON))
    assert set(place.ledger.require("digits-1").tokens) == {(1, "train")}


def test_of_two_calls_that_see_the_same_asks_one_asks_be_it_another_candidate(place: Place) -> None:
    """Two concurrent calls of Launch: one for EC2's first candidate, one with a warm gang for the second candidate."""
    seen = place.ledger.require("digits-1").count_launch_requests(2)
    place.ledger.write(
        launch_request_row("digits-1", 2, 0, 0, {"token": "t", "at": NOON}, unless="token"),
        launch_request_counted("digits-1", 2, seen),
    )
    with pytest.raises(AlreadyWrittenError):
        place.ledger.write(
            launch_request_row("digits-1", 2, 1, 0, {"token": "u", "at": NOON}, unless="token"),
            launch_request_counted("digits-1", 2, seen),
        )
    known = place.ledger.require("digits-1")
    assert [(row.candidate, row.token) for row in known.launch_requests] == [(0, "t")]
    place.ledger.write(
        launch_request_row("digits-1", 2, 1, 0, {"token": "u", "at": NOON}, unless="token"),
        launch_request_counted("digits-1", 2, known.count_launch_requests(2)),
    )


@pytest.mark.parametrize(
    ("state", "attempt", "is_written"),
    [
        ("Launch", 1, False),
        ("AwaitHosts", 1, False),
        ("Train", 1, True),
        ("Capture", 1, True),
        ("Launch", 2, True),
        ("Plan", None, False),
        ("Release", None, True),
    ],
)
def test_a_late_state_stays_out_of_the_row_and_everything_else_is_written(
    place: Place, state: str, attempt: int | None, is_written: bool
) -> None:
    values: RunUpdate = {"state": state, "warnings": ("odd",)}
    if attempt:
        values["attempt"] = attempt
    place.ledger.write(run_row("digits-1", values), attempt_row("digits-1", 1, {"reported": 8}))
    known = place.ledger.require("digits-1")
    assert (known.run.state, known.run.attempt) == ((state, attempt or 1) if is_written else ("Train", 1))
    assert (known.run.warnings, known.attempts[1].reported) == (("odd",), 8)


def test_a_late_state_does_not_excuse_another_condition(place: Place) -> None:
    place.ledger.write(attempt_row("digits-1", 1, {"ending": Ending.FINISHED}))
    late = run_row("digits-1", {"state": "Launch", "attempt": 1, "warnings": ("odd",)})
    with pytest.raises(AlreadyWrittenError):
        place.ledger.write(attempt_row("digits-1", 1, {"ending": Ending.FAILED}, unless="ending"), late)
    with pytest.raises(AlreadyWrittenError):
        place.ledger.write(late, attempt_row("digits-1", 1, {"ending": Ending.FAILED}, unless="ending"))
    assert place.ledger.require("digits-1").run.warnings == ()


def test_each_state_that_functions_write_comes_after_those_that_lead_to_it() -> None:
    """In each workflow, an attempt never enters a state of a lower rank."""
    for path in sorted(Path("lambdas/workflows").glob("*.asl.json")):
        tasks = [
            name for name, state in json.loads(path.read_text())["States"].items() if state["Type"] == "Task"
        ]
        written = [name for name in tasks if name in states.ORDER]
        assert written == sorted(written, key=states.ORDER.index), path


def test_a_run_has_one_plan(place: Place) -> None:
    """Launch requests name the candidates of a plan by their numbers, so a second call of Plan must not replace it."""
    plan = Plan((), (), "ami-1", 2, None, NOON, "the first")
    place.ledger.write(plan_row("digits-1", plan))
    with pytest.raises(AlreadyWrittenError):
        place.ledger.write(plan_row("digits-1", replace(plan, reason="the second")))
    known = place.ledger.require("digits-1").plan
    assert known is not None
    assert known.reason == "the first"
