"""Runs of a schedule: each time that is delivered starts at most one run, and none is lost without a record."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from simulation.cases.case import parse
from simulation.scenario import SHORT, Scenario, job
from simulation.simulate import Result, simulate
from simulation.template import YardTemplate
from simulation.yard import Yard
from trainyard.protocol.ledger.schedules import Answer, ScheduleRow
from trainyard.values import serialization

ONE = {"strategy": "single"}
TIMES = 3


def every(minutes: int, overlap: str, steps: int = 4) -> bytes:
    program = {**SHORT, "args": {**SHORT["args"], "steps": steps}}  # type: ignore[dict-item]
    schedule = {"cron": f"*/{minutes} * * * *", "zone": "Europe/Berlin", "overlap": overlap}
    return job("nightly", ONE, program=program, schedule=schedule)


def simulate_schedule(
    template: YardTemplate,
    body: bytes,
    *,
    faults: str = "",
    delays: Callable[[int], tuple[float, ...]] | None = None,
) -> tuple[Result, ScheduleRow, dict[str, int]]:
    """Simulate some times of a schedule; return its row, and the number of runs with each name."""
    rows: list[ScheduleRow] = []
    started: dict[str, int] = {}

    def begin(yard: Yard) -> None:
        if delays:
            yard.scheduler.delays = delays
        yard.people.upload("jobs/by/ada/nightly.json", body)

    def over(yard: Yard) -> bool:
        if len(set(yard.scheduler.delivered)) < TIMES:
            return False
        yard.scheduler.schedules.clear()  # no further run begins
        return yard.all_over()

    def at_end(yard: Yard) -> None:
        (row,) = yard.rows("schedules")
        rows.append(serialization.from_json(ScheduleRow, {**row, "name": "nightly"}))
        for run in yard.runs():
            started[run.name] = started.get(run.name, 0) + 1

    scenario = Scenario(
        "schedule", "a job at set times", begin, over=over, gang=1, longest=timedelta(hours=6)
    )
    result = simulate(
        template, scenario, faults=parse(f"train: {faults}").faults if faults else (), at_end=at_end
    )
    return result, rows[0], started


def of(row: ScheduleRow, answer: Answer) -> list[str]:
    return [each.run for each in row.recent if each.answer is answer]


def test_a_time_that_arrives_twice_starts_one_run(yard: YardTemplate) -> None:
    result, row, started = simulate_schedule(yard, every(30, "allow"))
    assert not result.broken
    assert len(of(row, Answer.STARTED)) >= TIMES
    assert set(started.values()) == {1}
    assert set(of(row, Answer.STARTED)) == set(started)


def test_a_run_that_has_not_ended_skips_times(yard: YardTemplate) -> None:
    result, row, started = simulate_schedule(yard, every(5, "skip", steps=240))
    assert not result.broken
    assert of(row, Answer.SKIPPED)
    assert set(of(row, Answer.STARTED)) == set(started)


@pytest.mark.parametrize(
    "fault",
    [
        "request submit#2/1 dynamodb.get_item: throttled until botocore gives up",
        "request submit#2/2 dynamodb.transact_write_items: connection lost after the effect",
        "request submit#2/3 stepfunctions.start_execution: function killed before the request",
        "invocation submit#2: run twice at the same time",
    ],
)
def test_a_fault_at_a_time_neither_loses_nor_repeats_its_run(yard: YardTemplate, fault: str) -> None:
    result, row, started = simulate_schedule(yard, every(30, "allow"), faults=fault)
    assert not result.broken
    assert set(started.values()) == {1}
    assert set(of(row, Answer.STARTED)) == set(started)


def test_a_lost_time_starts_nothing_and_later_ones_do(yard: YardTemplate) -> None:
    def lose_first(number: int) -> tuple[float, ...]:
        return () if number == 1 else (1.0,)

    result, row, started = simulate_schedule(yard, every(30, "skip"), delays=lose_first)
    assert not result.broken
    first: datetime = min(each.at for each in row.recent)
    assert first - row.since > timedelta(minutes=30)
    assert set(of(row, Answer.STARTED)) == set(started)


def test_a_time_that_clocks_skip_in_spring_has_no_run(yard: YardTemplate) -> None:
    """Clocks of Lord Howe Island go forward from 02:00 to 02:30, at 15:30 UTC. The night has no 02:15."""
    times = tuple(datetime(2026, 10, 3, 15, minute, tzinfo=UTC) for minute in (15, 45))
    started: list[datetime] = []

    def begin(yard: Yard) -> None:
        yard.scheduler.delays = lambda number: (1.0,)
        schedule = {"cron": "15,45 1-2 * * *", "zone": "Australia/Lord_Howe"}
        yard.people.upload("jobs/by/ada/nightly.json", job("nightly", ONE, program=SHORT, schedule=schedule))

    def over(yard: Yard) -> bool:
        return yard.world.now > times[-1] + timedelta(minutes=20) and yard.all_over()

    scenario = Scenario(
        "spring",
        "a schedule in the night when clocks go forward",
        begin,
        over=over,
        gang=1,
        longest=timedelta(hours=2),
        beginning=times[0] - timedelta(minutes=10),
        times={"nightly": times},
    )
    result = simulate(
        yard, scenario, at_end=lambda yard: started.extend(each.started for each in yard.runs())
    )
    assert not result.broken
    assert [each.replace(second=0, microsecond=0) for each in started] == list(times)
