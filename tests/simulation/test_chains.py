"""A chain of three runs: each starts once the one before has ended as wanted, and none is lost or starts twice."""

from datetime import timedelta
from typing import Any

import pytest

from simulation.cases.case import parse
from simulation.scenario import SHORT, Scenario, job
from simulation.simulate import Result, simulate
from simulation.template import YardTemplate
from simulation.yard import Yard

ONE = {"strategy": "single"}
FAILS = "host host-2 after checkpointed #1: its program fails"


def simulate_chain(
    template: YardTemplate, *, faults: str = "", when: str = "success"
) -> tuple[Result, dict[str, dict[str, Any]]]:
    """Simulate three runs, each after the one before; return the rows by the names of the jobs."""
    rows: dict[str, dict[str, Any]] = {}

    def begin(yard: Yard) -> None:
        _upload(yard, "first", None)

    def _upload(yard: Yard, name: str, after: str | None) -> None:
        more = {"start_after": {"runs": [after], "when": when}} if after else {}
        program = SHORT if name != "second" else {}
        body = job(name, ONE, **({"program": program} if program else {}), **more)
        yard.people.upload(f"jobs/{name}.json", body)
        following = {"first": "second", "second": "third"}.get(name)
        if following:
            yard.after(
                20, lambda: _upload(yard, following, _id_of(yard, name)), "a user submits the next job"
            )

    def over(yard: Yard) -> bool:
        return len(yard.runs()) == 3 and yard.all_over()

    def at_end(yard: Yard) -> None:
        for run in yard.runs():
            (row,) = [each for each in yard.rows(f"run#{run.name}") if each["sk"] == "run"]
            rows[str(row["name"])] = {**row, "run": run.name}
            assert not yard.rows(f"waiters#{run.name}")

    given = parse(f"train: {faults}").faults if faults else ()
    scenario = Scenario(
        "chain", "three runs in a chain", begin, over=over, gang=1, longest=timedelta(hours=4)
    )
    return simulate(template, scenario, faults=given, at_end=at_end), rows


def _id_of(yard: Yard, name: str) -> str:
    return next(each.name for each in yard.runs() if each.name.startswith(f"{name}-"))


def test_each_run_of_a_chain_starts_after_the_one_before(yard: YardTemplate) -> None:
    result, rows = simulate_chain(yard)
    assert not result.broken
    assert [rows[name]["outcome"] for name in ("first", "second", "third")] == ["succeeded"] * 3
    for before, after in (("first", "second"), ("second", "third")):
        assert rows[before]["ended"] <= rows[after]["begun"] < rows[after]["ended"]


def test_a_chain_whose_second_job_fails_does_not_start_the_third(yard: YardTemplate) -> None:
    result, rows = simulate_chain(yard, faults=FAILS)
    assert [rows[name]["outcome"] for name in ("first", "second", "third")] == [
        "succeeded",
        "failed",
        "refused",
    ]
    assert rows["third"]["error"] == "EarlierRunFailed"
    assert rows["second"]["run"] in rows["third"]["reason"]
    assert "has ended as failed" in rows["third"]["reason"]
    assert not result.broken


def test_the_third_job_starts_after_any_end_if_it_asks_for_that(yard: YardTemplate) -> None:
    result, rows = simulate_chain(yard, faults=FAILS, when="end")
    assert [rows[name]["outcome"] for name in ("first", "second", "third")] == [
        "succeeded",
        "failed",
        "succeeded",
    ]
    assert not result.broken


def test_the_hours_of_a_run_begin_once_it_may_start(yard: YardTemplate) -> None:
    """The wait of ten minutes is longer than the limit of six minutes."""
    limits = {"hours": 0.1, "dollars": 20, "restarts": 3, "wait_minutes": 20}
    long = {**SHORT, "args": {"steps": 4, "step-seconds": 150.0}}

    def begin(yard: Yard) -> None:
        yard.people.upload("jobs/first.json", job("first", ONE, program=long))
        yard.after(20, lambda: submit_next(yard), "a user submits the next job")

    def submit_next(yard: Yard) -> None:
        more = {"start_after": {"runs": [_id_of(yard, "first")]}, "limits": limits, "program": SHORT}
        yard.people.upload("jobs/second.json", job("second", ONE, **more))

    scenario = Scenario(
        "chain", "two runs", begin, over=lambda yard: len(yard.runs()) == 2 and yard.all_over(), gang=1
    )
    result = simulate(yard, scenario)
    assert not result.broken
    assert result.outcome.count("SUCCEEDED") == 2


@pytest.mark.parametrize(
    "fault",
    [
        "invocation train-conclude#1: run twice at the same time",
        "invocation train-await-runs#1: run twice at the same time",
        "invocation train-await-runs#1: timed out",
        "request train-await-runs#1/3 dynamodb.transact_write_items: function killed after the request",
    ],
)
def test_a_fault_of_the_wait_loses_no_run(yard: YardTemplate, fault: str) -> None:
    result, rows = simulate_chain(yard, faults=fault)
    assert not result.broken
    assert [rows[name]["outcome"] for name in ("first", "second", "third")] == ["succeeded"] * 3
