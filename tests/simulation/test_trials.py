"""Trials of a study: their metric in the ledger, their ends, and their hosts."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from lambdas.aws.dynamodb.serialization import pack_row
from simulation.aws.endpoint.api import Caller
from simulation.aws.stepfunctions import Status
from simulation.scenario import Scenario, job
from simulation.simulate import Result, simulate
from simulation.template import YardTemplate
from simulation.yard import Yard
from trainyard.protocol.trial import Trial

STUDY = "digits-0a1b2c3d"
SECONDS = 1
"""The time between the end of a trial and the start of the next one."""


def program(**args: Any) -> dict[str, Any]:
    return {"module": "training.programs.digits", "args": {"steps": 40, "step-seconds": 2.0, **args}}


def in_turn(*programs: dict[str, Any]) -> Callable[[Yard], None]:
    """Return a function that starts a trial for each program, each after the end of the one before."""

    def begin(yard: Yard) -> None:
        study = {
            "kind": "study",
            "state": "Search",
            "attempt": 1,
            "execution_arn": "arn",
            "submitter": "ada",
            "pk": f"run#{STUDY}",
            "sk": "run",
            "created": "2026-01-05T08:00:00.000Z",
        }
        put = {"TableName": yard.template.table.name, "Item": pack_row(study)}
        yard.dynamodb.put_item(Caller("root", "root"), put)

        def go_on() -> None:
            done = len(yard.runs())
            if done < len(programs) and yard.all_over():
                trial = Trial(study=STUDY, number=done + 1, submitter="ada")
                document = job(
                    "digits",
                    {"strategy": "multi_worker", "workers": 2},
                    program=programs[done],
                    pool={"keep": 2, "minutes": 3},
                    objective={"metric": "val_accuracy", "goal": "maximize"},
                )
                given = {"job": json.loads(document), "trial": vars_of(trial)}
                yard.people.start("train", trial.run, given)
            if done < len(programs):
                yard.after(SECONDS, go_on, "the next trial may start")

        go_on()

    return begin


def vars_of(trial: Trial) -> dict[str, Any]:
    return {"study": trial.study, "number": trial.number, "submitter": trial.submitter}


def simulated(
    yard: YardTemplate, *programs: dict[str, Any]
) -> tuple[Result, list[dict[str, Any]], list[dict[str, Any]]]:
    """Simulate trials one after the other. Return the result, the summaries and the rows of their runs."""
    summaries: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []

    def at_end(world: Yard) -> None:
        assert {run.status for run in world.runs()} == {Status.SUCCEEDED}
        for run in world.runs():
            summaries.append(world.summary(run.name) or {})
            rows.append(world.run_row(run.name) or {})

    scenario = Scenario(
        "trials",
        "trials of a study, one after the other",
        in_turn(*programs),
        gang=2,
        over=lambda world: len(world.runs()) == len(programs) and world.all_over(),
        pool_minutes=3,
    )
    result = simulate(yard, scenario, at_end=at_end)
    assert not result.broken, result.broken
    return result, summaries, rows


def hosts(summary: dict[str, Any]) -> set[str]:
    return {host["instance"] for host in summary["hosts"]}


def test_the_next_trial_takes_the_hosts_of_a_failed_one(yard: YardTemplate) -> None:
    result, (failed, whole), (row, _) = simulated(yard, program(**{"error-at": 25}), program())
    assert (failed["outcome"], failed["error"], whole["outcome"]) == ("failed", "ProgramFailed", "succeeded")
    assert hosts(failed) == hosts(whole)
    assert result.calls["ec2.create_fleet"] == 1
    began = datetime.fromisoformat(whole["attempts"][0]["started"]) - datetime.fromisoformat(failed["ended"])
    assert began.total_seconds() < 20  # virtual; a new host would boot for longer
    assert (row["trial"]["study"], row["trial"]["number"]) == (STUDY, 1)


@pytest.mark.parametrize(
    ("args", "best"), [({"lr": 0.01}, 0.8), ({"lr": 0.1}, 0.4), ({"nan-at": 35}, "NaN")], ids=str
)
def test_the_objective_reaches_the_row_by_step(
    yard: YardTemplate, args: dict[str, Any], best: object
) -> None:
    _, (summary,), (row,) = simulated(yard, program(**args))
    assert (row["objective"]["step"], row["objective"]["epoch"], row["objective"]["value"]) == (40, 4, best)
    assert row["scalars"]["val_accuracy"] == best
    assert summary["metrics"]["val_accuracy"] == best
