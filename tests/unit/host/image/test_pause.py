"""A program stands still while its disk is imaged, and never longer than it may."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from training.host import account
from training.host.agent.state import State
from training.host.image import pause
from training.host.places import Places
from training.host.program.process import Program
from training.host.program.tasks import most_tasks

COUNTS = """
import itertools, pathlib, time
for n in itertools.count():
    pathlib.Path("n").write_text(str(n))
    time.sleep(0.01)
"""


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


@pytest.fixture
def program(places: Places) -> Iterator[Program]:
    """One of attempt 2, which counts, on a host that has no peers."""
    places.program.mkdir(parents=True)
    State(run="digits-1", instance="i-1", attempt=2, phase="running").save(places.state)
    write_cluster(places, hosts=1)
    started = Program.start(
        [sys.executable, "-c", COUNTS],
        account=account.own(),
        folder=places.program,
        env={},
        log=places.log / "program.log",
        exit_file=places.exit_code(2),
        most_tasks=most_tasks(),
    )
    started.remember(places.process(2))
    until_it_counts(places)
    yield started
    started.kill()
    until_it_has_ended(started)


def until_it_has_ended(program: Program) -> None:
    while program.exit_code() is None:
        time.sleep(0.02)


def write_cluster(places: Places, *, hosts: int) -> None:
    places.cluster(2).write_text(json.dumps({"hosts": [{"instance": f"i-{n}"} for n in range(hosts)]}))


def count(places: Places) -> str:
    return (places.program / "n").read_text()


def until_it_counts(places: Places) -> None:
    while not (places.program / "n").exists():
        time.sleep(0.02)
    before = count(places)
    while count(places) in ("", before):
        time.sleep(0.02)


def stands_still(places: Places) -> bool:
    before = count(places)
    time.sleep(0.1)
    return count(places) == before


def test_a_paused_program_stands_still_until_it_is_told_to_go_on(places: Places, program: Program) -> None:
    assert f"the program {program.pid} stands still, for 120 s at most" in pause.pause(places)
    assert stands_still(places)
    assert program.exit_code() is None
    assert pause.resume(places) == f"the program {program.pid} goes on"
    until_it_counts(places)


def test_it_goes_on_by_itself_when_nobody_tells_it_to(
    places: Places, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pause, "ALONE_SECONDS", 0.3)
    pause.pause(places)
    until_it_counts(places)


def test_a_paused_program_that_is_asked_to_leave_hears_it(places: Places, program: Program) -> None:
    pause.pause(places)
    program.ask_to_leave()
    until_it_has_ended(program)


def test_peers_wait_for_it_more_briefly_than_they_would_give_it_up(places: Places, program: Program) -> None:
    write_cluster(places, hosts=2)
    assert pause.patience(places) < 7
    write_cluster(places, hosts=1)
    assert pause.patience(places) > 60


def test_a_host_without_a_program_has_its_disks_synced(places: Places) -> None:
    assert "no program of a run" in pause.pause(places)
    assert "no program of a run" in pause.resume(places)


def test_a_program_that_has_ended_is_not_taken_for_a_later_process(places: Places, program: Program) -> None:
    program.kill()
    until_it_has_ended(program)
    assert "no program of a run" in pause.pause(places)
