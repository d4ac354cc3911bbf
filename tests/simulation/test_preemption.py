"""The setting `preempt`: a running run saves and leaves its slot to a waiting run of a higher priority, and continues
later. No fault of the story loses either run, or makes a second run leave."""

import functools
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from simulation.cases import forks
from simulation.faults import KILLS, InvocationFault, Kind, singles
from simulation.scenario import SHORT, Scenario, job
from simulation.scenarios import SCENARIOS
from simulation.simulate import Result, simulate
from simulation.template import YardTemplate
from simulation.yard import Yard

TWO = {"strategy": "multi_worker", "workers": 2}
LONG = {"module": "training.programs.digits", "args": {"steps": 60, "step-seconds": 8.0}}
LIMITS = {"hours": 2, "dollars": 20, "restarts": 0, "wait_minutes": 120}
PREEMPTS = SCENARIOS["preempts"]
OF_INVOCATIONS = (InvocationFault.TWICE, InvocationFault.REFUSED)
URGENT_AT = 200
"""Seconds after the start of the other runs, which have saved by then."""


def simulate_jobs(
    template: YardTemplate, jobs: Mapping[str, tuple[float, bytes]], **settings: object
) -> tuple[Result, dict[str, dict[str, Any]]]:
    """Simulate these jobs, each uploaded after its seconds; return the summaries by the names of the jobs."""
    ends: dict[str, dict[str, Any]] = {}

    def begin(yard: Yard) -> None:
        for name, (at, body) in jobs.items():
            yard.after(at, functools.partial(yard.people.upload, f"jobs/{name}.json", body), "an upload")

    def over(yard: Yard) -> bool:
        return len(yard.runs()) == len(jobs) and yard.all_over()

    scenario = Scenario(
        "preemption",
        "",
        begin,
        gang=2,
        longest=timedelta(hours=6),
        over=over,
        settings={"preempt": True, **settings},
    )
    result = simulate(template, scenario, at_end=lambda yard: ends.update(read_summaries(yard)))
    assert not result.broken, result.broken
    return result, ends


def read_summaries(yard: Yard) -> dict[str, dict[str, Any]]:
    """Return the summaries, each with the reasons of its timeline why no other run left for it."""

    def why_no_room(run: str) -> list[str]:
        return [each["reason"] for each in yard.rows(f"timeline#{run}") if each["event"] == "no room"]

    return {
        run.name.partition("-")[0]: {**(yard.summary(run.name) or {}), "no room": why_no_room(run.name)}
        for run in yard.runs()
    }


def endings(summary: Mapping[str, Any]) -> list[str]:
    return [each["ending"] for each in summary["attempts"]]


def of_priority(name: str, priority: int, program: Mapping[str, Any] = LONG, **more: Any) -> bytes:
    return job(name, TWO, program=program, priority=priority, **({"limits": LIMITS} | more))


def test_a_run_leaves_its_slot_and_continues_from_its_checkpoint(yard: YardTemplate) -> None:
    """The low run needs 10 minutes without its wait, of the 11 minutes that it may have; no restart is allowed."""
    hours = {"limits": LIMITS | {"hours": 11 / 60}}
    urgent = of_priority("urgent", 80, program={**LONG, "args": {"steps": 10, "step-seconds": 12.0}})
    jobs = {"low": (1, of_priority("low", 10, **hours)), "urgent": (URGENT_AT, urgent)}
    _, ends = simulate_jobs(yard, jobs, most_runs=1)
    low, urgent_end = ends["low"], ends["urgent"]
    assert (low["outcome"], urgent_end["outcome"]) == ("succeeded", "succeeded")
    assert endings(low) == ["preempted", "finished"]
    first, second = low["attempts"]
    assert second["from_step"] == first["to_step"] > 10
    assert first["reason"] == (
        f"stopped for run {urgent_end['run']} of priority 80: it waits in the queue and continues from step "
        f"{second['from_step']}"
    )
    assert low["resume"]["steps_lost"] == 0
    assert endings(urgent_end) == ["finished"]
    assert second["launched"] > urgent_end["attempts"][0]["launched"]


def test_two_waiting_runs_and_one_run_of_a_lower_priority(yard: YardTemplate) -> None:
    """Only the low run leaves, once, although two runs wait."""
    jobs = {
        "low": (1, of_priority("low", 10)),
        "high": (1, of_priority("high", 90)),
        "first": (URGENT_AT, of_priority("first", 80, SHORT)),
        "second": (URGENT_AT, of_priority("second", 80, SHORT)),
    }
    _, ends = simulate_jobs(yard, jobs, most_runs=2)
    assert {name: endings(each) for name, each in ends.items()} == {
        "low": ["preempted", "finished"],
        "high": ["finished"],
        "first": ["finished"],
        "second": ["finished"],
    }


def test_of_two_runs_of_the_lowest_priority_the_younger_one_leaves(yard: YardTemplate) -> None:
    jobs = {
        "old": (1, of_priority("old", 10)),
        "young": (30, of_priority("young", 10)),
        "higher": (60, of_priority("higher", 20)),
        "urgent": (URGENT_AT + 60, of_priority("urgent", 80, SHORT)),
    }
    _, ends = simulate_jobs(yard, jobs, most_runs=0, most_hosts=7)
    assert {name for name, each in ends.items() if "preempted" in endings(each)} == {"young"}


@pytest.mark.parametrize(
    ("low", "preempt", "reasons"),
    [
        (of_priority("low", 80), True, ()),
        (
            of_priority("low", 10, checkpoints={"seconds": 3600}),
            True,
            ("it does not train now", "it has saved no checkpoint"),
        ),
        (of_priority("low", 10), False, ()),
    ],
    ids=["of the same priority", "without a checkpoint", "without the setting"],
)
def test_a_run_stays(yard: YardTemplate, low: bytes, preempt: bool, reasons: Sequence[str]) -> None:
    jobs = {"low": (1, low), "urgent": (URGENT_AT, of_priority("urgent", 80, SHORT))}
    _, ends = simulate_jobs(yard, jobs, most_runs=1, preempt=preempt)
    assert {name: endings(each) for name, each in ends.items()} == {
        "low": ["finished"],
        "urgent": ["finished"],
    }
    assert ends["low"]["ended"] < ends["urgent"]["attempts"][0]["launched"]
    stays = f"run {ends['low']['run']} of priority 10 keeps its slot"
    assert sorted(ends["urgent"]["no room"]) == [f"{stays}: {each}" for each in reasons]


def test_a_run_that_continues_is_spared_for_minutes(yard: YardTemplate) -> None:
    """The second urgent run comes when the low run has just continued. It waits until that run has ended."""
    jobs = {
        "low": (1, of_priority("low", 10)),
        "first": (URGENT_AT, of_priority("first", 80, SHORT)),
        "second": (URGENT_AT + 300, of_priority("second", 80, SHORT)),
    }
    _, ends = simulate_jobs(yard, jobs, most_runs=1)
    assert endings(ends["low"]) == ["preempted", "finished"]


def test_no_fault_of_the_story_loses_a_run(yard: YardTemplate) -> None:
    """Kill and repeat each function of the story: signal when it gives the order, Launch when the run enters the queue,
    and Launch when the run gets a slot again. The campaign tries all other faults and functions."""
    clean = simulate(yard, PREEMPTS)
    assert not clean.broken
    invocations = [point for kind, point in clean.points if kind is Kind.INVOCATION]
    operations = {point: visit.operations for (_, point), visit in clean.points.items() if visit}
    orders = [
        each for each in invocations if each.startswith("signal#") and "ssm.send_command" in operations[each]
    ]
    queue = [
        each
        for each in invocations
        if each.startswith("train-launch#") and "dynamodb.get_item" in operations[each]
    ]
    assert len(orders) == 1
    assert len(queue) >= 2
    story = [*orders, queue[0], queue[-1]]
    points = {each: visit for each, visit in clean.points.items() if each[1].partition("/")[0] in story}
    faults = [each for each in singles(points) if each.what in (*KILLS, *OF_INVOCATIONS)]
    assert len(faults) > 15
    found = forks.run_forks(
        yard, PREEMPTS, faults, lambda result: (result.broken, result.outcome.count("SUCCEEDED"))
    )
    assert {str(fault): each for fault, each in found.items() if each != ((), 2)} == {}
