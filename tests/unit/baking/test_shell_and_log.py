"""Commands and their log, with a dictionary in place of the bucket (tests/contract/baking uses S3)."""

import io
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.objects import Objects
from training.baking.__main__ import once
from training.baking.log import BuilderLog
from training.baking.shell import Shell
from training.host.errors import HostTrouble, ProgramFault
from training.host.paths import Paths

KEY = "runs/bake-1/logs/builder/00000001.log"


@pytest.fixture
def bucket() -> Objects:
    return Objects()


@pytest.fixture
def log(bucket: Objects, tmp_path: Path) -> Iterator[BuilderLog]:
    with builder_log(bucket, tmp_path) as opened:
        yield opened


def builder_log(
    bucket: Objects,
    root: Path,
    *,
    title: str = "install",
    instance: str = "i-1",
    echo: io.StringIO | None = None,
) -> BuilderLog:
    return BuilderLog(title, bucket, "bake-1", instance, Paths(root), echo=echo or io.StringIO())


def shell(log: BuilderLog, root: Path, seconds: float = 60) -> Shell:
    return Shell(log, Paths(root), until=time.monotonic() + seconds)


def test_lines_come_stamped_to_the_bucket_and_plain_to_stdout(bucket: Objects, tmp_path: Path) -> None:
    echo = io.StringIO()
    with builder_log(bucket, tmp_path, echo=echo) as log:
        shell(log, tmp_path).line("echo one; printf two")
    lines = bucket.objects[KEY].decode().splitlines()
    assert [line.partition(" builder i-1 | ")[2] for line in lines] == ["[trainyard] install", "one", "two"]
    assert all(line[:2] == "20" and "Z builder" in line for line in lines)
    assert echo.getvalue() == "[trainyard] install\none\ntwo\n"


def test_a_second_document_goes_on_in_the_same_log(bucket: Objects, tmp_path: Path) -> None:
    echo = io.StringIO()
    with builder_log(bucket, tmp_path) as log:
        log.note("first")
    with builder_log(bucket, tmp_path, title="test", echo=echo) as log:
        log.note("second")
    assert [line.partition("[trainyard] ")[2] for line in bucket.objects[KEY].decode().splitlines()] == [
        "install",
        "first",
        "test",
        "second",
    ]
    assert "first" not in echo.getvalue()


def test_another_builder_goes_on_after_the_lines_of_the_first(bucket: Objects, tmp_path: Path) -> None:
    bucket.objects[KEY] = b"2026-11-21T09:00:00.000Z builder i-0 | half done"
    with builder_log(bucket, tmp_path):
        pass
    first, second = bucket.objects[KEY].decode().splitlines()
    assert first == "2026-11-21T09:00:00.000Z builder i-0 | half done"
    assert second.endswith(" builder i-1 | [trainyard] install")


def test_a_command_says_how_it_ended(log: BuilderLog, tmp_path: Path) -> None:
    done = shell(log, tmp_path).line("echo why >&2; exit 3")
    assert (done.code, done.reason, done.last_lines()) == (3, "exit code 3", "why")
    killed = shell(log, tmp_path).line("kill -9 $$")
    assert (killed.is_good, killed.reason) == (False, "it was ended by SIGKILL")


def test_a_line_stops_at_its_first_error_and_at_an_unset_variable(log: BuilderLog, tmp_path: Path) -> None:
    assert shell(log, tmp_path).line("false; echo on").last_lines() == "(it printed nothing)"
    assert not shell(log, tmp_path).line("echo $NO_SUCH_VARIABLE").is_good


def test_no_command_outlives_its_time(log: BuilderLog, tmp_path: Path) -> None:
    done = shell(log, tmp_path, seconds=0.2).line("echo begun; sleep 60")
    assert (done.is_good, done.output) == (False, "begun\n")
    assert done.reason.startswith("it was still running after")


def test_a_service_that_a_command_starts_is_not_waited_for(log: BuilderLog, tmp_path: Path) -> None:
    assert shell(log, tmp_path).line("sleep 30 & echo started").output == "started\n"


def test_a_command_that_is_not_there_is_named(log: BuilderLog, tmp_path: Path) -> None:
    with pytest.raises(HostTrouble, match="/no/such/command could not be started"):
        shell(log, tmp_path).run(["/no/such/command"])


def test_what_is_delivered_twice_is_done_once_and_ends_alike(tmp_path: Path) -> None:
    told: list[str] = []

    def fails() -> None:
        told.append("done")
        raise ProgramFault('commands[0] "false" failed')

    for _ in range(2):
        with pytest.raises(ProgramFault, match=r"commands\[0\]"):
            once(tmp_path / "install.json", "bake-1", fails)
    assert told == ["done"]


def test_what_was_cut_short_or_belongs_to_another_bake_is_done_anew(tmp_path: Path) -> None:
    told: list[str] = []

    def cut_short() -> None:
        raise HostTrouble("the network is away")

    with pytest.raises(HostTrouble):
        once(tmp_path / "install.json", "bake-1", cut_short)
    for run in ("bake-1", "bake-1", "bake-2"):
        once(tmp_path / "install.json", run, lambda: told.append("done"))
    assert told == ["done", "done"]
