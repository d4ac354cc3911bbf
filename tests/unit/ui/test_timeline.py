"""The timeline of a run."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.unit.client.facts import HOST, NOON
from tests.unit.ui import canned
from trainyard.client import RunStatus
from trainyard.client.runs.execution import State
from trainyard.ui.cache import Cache
from trainyard.ui.pages.run import RunPage
from trainyard.ui.timeline import line_of, stretches_of


def status_of(run: str) -> RunStatus:
    async def look() -> RunStatus:
        found: RunStatus = (await RunPage(run).look(Cache(canned.cloud().yard)))["status"]
        return found

    return asyncio.run(look())


def phases(*states: tuple[int, str]) -> list[tuple[str, float]]:
    entered = [State(NOON + timedelta(seconds=second), name) for second, name in states]
    return [
        (each.phase, (each.end - each.begin).total_seconds())
        for each in stretches_of(entered, NOON + timedelta(seconds=100))
    ]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([], []),
        (
            [(0, "Admit"), (1, "Is it admitted"), (2, "Plan"), (5, "Launch")],
            [("Starting", 5), ("Waiting for capacity", 95)],
        ),
        (
            [
                (0, "Launch"),
                (2, "Wait for capacity"),
                (30, "Launch"),
                (31, "Wait for capacity"),
                (60, "Launch"),
                (61, "Train"),
            ],
            [("Waiting for capacity", 61), ("Training", 39)],
        ),
        ([(0, "Wait for capacity"), (30, "Launch")], [("Waiting for capacity", 100)]),
        ([(0, "Train"), (5, "Train overdue"), (6, "Train")], [("Training", 100)]),
        ([(0, "Install"), (50, "Succeeded")], [("Installing", 100)]),
    ],
)
def test_states_are_phases_that_a_person_knows(
    states: list[tuple[int, str]], expected: list[tuple[str, float]]
) -> None:
    assert phases(*states) == expected


def test_bars_lie_within_the_line_and_do_not_overlap() -> None:
    for run in (canned.TRAINING, canned.WAITING, canned.FAILED, canned.INTERRUPTED, canned.REFUSED):
        for lane in line_of(status_of(run)).lanes:
            for bar in lane.bars:
                assert 0 <= bar.left <= 100
                assert bar.left + bar.width <= 100.2
            for before, after in zip(lane.bars, lane.bars[1:], strict=False):
                assert after.left >= before.left + before.width - 0.2


def test_an_interruption_is_marked_on_its_host() -> None:
    lanes = {lane.name: lane for lane in line_of(status_of(canned.INTERRUPTED)).lanes}
    assert [mark.kind for mark in lanes["chief 0"].marks] == ["trouble"]
    assert lanes["chief 0, attempt 2"].marks == ()
    assert len(lanes["attempt 1"].marks) == 6


def test_a_thousand_checkpoints_are_forty_marks_with_the_last() -> None:
    status = status_of(canned.TRAINING)
    first = next(event for event in status.timeline if event.event == "checkpointed")
    many = tuple(
        replace(first, at=first.at + timedelta(seconds=second), detail={"step": second})
        for second in range(1000)
    )
    marks = line_of(replace(status, timeline=many)).lanes[1].marks
    assert len(marks) == 40
    assert marks[-1].title == "checkpoint at step 999"


def test_fifty_hosts_leave_the_line_readable() -> None:
    status = status_of(canned.TRAINING)
    hosts = tuple(
        replace(HOST, instance=f"i-{number}", launched=status.execution.started) for number in range(50)
    )
    line = line_of(replace(status, hosts=hosts))
    assert len(line.lanes) == 2 + 12
    assert line.unseen == 38
