"""The limit of a program's processes and threads. The agent ends a program that stays at the limit."""

import pytest

from training.host.program.advice import TOO_MANY_TASKS
from training.host.program.ending import End, Failed, decide
from training.host.program.tasks import FEWEST, LOOK_SECONDS, LOOKS, TaskLimit, most_tasks
from trainyard.protocol.signals import FailureKind


def test_a_host_lets_frameworks_start_as_many_threads_as_its_processors_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 192)
    assert most_tasks() == 192 * 512
    monkeypatch.setattr("os.cpu_count", lambda: None)
    assert most_tasks() == FEWEST


@pytest.mark.parametrize(
    ("counts", "exceeded"),
    [
        ([100, 100, 100], True),
        ([95, 99, 96], True),
        ([100, 100, 50, 100, 100], False),
        ([94, 94, 94, 94], False),
    ],
)
def test_a_program_is_ended_once_it_stays_at_the_limit(counts: list[int], exceeded: bool) -> None:
    limit, given = TaskLimit(100), iter(counts)
    for look in range(len(counts)):
        limit.look(look * LOOK_SECONDS, lambda: next(given))
        limit.look(look * LOOK_SECONDS + 1, lambda: pytest.fail("looked too soon"))
    assert limit.is_exceeded is exceeded
    assert len(counts) >= LOOKS


def test_its_end_is_its_own_fault_and_final() -> None:
    ended = decide(End(code=137, tail="", at_task_limit=True, gang=2, with_keeper=True))
    assert ended == Failed(FailureKind.PROGRAM, TOO_MANY_TASKS, 137, final=True, advised=True)
