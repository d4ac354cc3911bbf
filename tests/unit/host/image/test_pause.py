"""A program is paused while its disk is imaged, and never beyond the limit."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from training.host import account
from training.host.agent.state import State
from training.host.image import pause
from training.host.paths import Paths
from training.host.program.process import Program
from training.host.program.tasks import most_tasks

COUNTS = """
import itertools, pathlib, time
for n in itertools.count():
    pathlib.Path("n").write_text(str(n))
    time.sleep(0.01)
"""


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path)


@pytest.fixture
def program(paths: Paths) -> Iterator[Program]:
    """Start a program that counts, in attempt 2, on a host without peers."""
    paths.program.mkdir(parents=True)
    State(run="digits-1", instance="i-1", attempt=2, phase="running").save(paths.state)
    write_cluster(paths, hosts=1)
    started = Program.start(
        [sys.executable, "-c", COUNTS],
        account=account.own(),
        folder=paths.program,
        env={},
        log=paths.log / "program.log",
        exit_file=paths.exit_code(2),
        most_tasks=most_tasks(),
    )
    started.remember(paths.process(2))
    until_it_counts(paths)
    yield started
    started.kill()
    until_it_has_ended(started)


def until_it_has_ended(program: Program) -> None:
    while program.exit_code() is None:
        time.sleep(0.02)


def write_cluster(paths: Paths, *, hosts: int) -> None:
    paths.cluster(2).write_text(json.dumps({"hosts": [{"instance": f"i-{n}"} for n in range(hosts)]}))


def count(paths: Paths) -> str:
    return (paths.program / "n").read_text()


def until_it_counts(paths: Paths) -> None:
    while not (paths.program / "n").exists():
        time.sleep(0.02)
    before = count(paths)
    while count(paths) in ("", before):
        time.sleep(0.02)


def stands_still(paths: Paths) -> bool:
    before = count(paths)
    time.sleep(0.1)
    return count(paths) == before


def test_a_paused_program_stands_still_until_it_is_told_to_go_on(paths: Paths, program: Program) -> None:
    assert f"the program {program.pid} is paused for at most 120 s" in pause.pause(paths)
    assert stands_still(paths)
    assert program.exit_code() is None
    assert pause.resume(paths) == f"the program {program.pid} continues"
    until_it_counts(paths)


def test_it_goes_on_by_itself_when_nobody_tells_it_to(
    paths: Paths, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pause, "ALONE_SECONDS", 0.3)
    pause.pause(paths)
    until_it_counts(paths)


def test_a_paused_program_that_is_asked_to_leave_hears_it(paths: Paths, program: Program) -> None:
    pause.pause(paths)
    program.ask_to_leave()
    until_it_has_ended(program)


def test_peers_wait_for_it_more_briefly_than_they_would_give_it_up(paths: Paths, program: Program) -> None:
    write_cluster(paths, hosts=2)
    assert pause.patience(paths) < 7
    write_cluster(paths, hosts=1)
    assert pause.patience(paths) > 60


def test_a_host_without_a_program_has_its_disks_synced(paths: Paths) -> None:
    assert "no program of a run" in pause.pause(paths)
    assert "no program of a run" in pause.resume(paths)


def test_a_program_that_has_ended_is_not_taken_for_a_later_process(paths: Paths, program: Program) -> None:
    program.kill()
    until_it_has_ended(program)
    assert "no program of a run" in pause.pause(paths)
