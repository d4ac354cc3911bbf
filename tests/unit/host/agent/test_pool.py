"""A host between two runs: kept files of the first run, the wait, and the end."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from training.host import account
from training.host.errors import HostTrouble
from training.host.metadata import Identity, InterruptionNotice, Metadata
from training.host.paths import Paths
from training.host.pool import retained, waiting, wipe
from training.host.program.packages import hash_of_list
from trainyard.core.model.job import Job, Pool
from trainyard.core.model.program import Data, Program, Sharding

SOURCE = "s3://bucket/data/digits/"
SHARED = Data(source="s3://bucket/data/s/", sharding=Sharding.FILE)
JOB = Job(
    name="digits",
    program=Program(module="m"),
    data={"train": Data(source=SOURCE), "shared": SHARED},
    pool=Pool(keep=1),
)
BUILDS = replace(JOB, program=Program(module="m", requirements="requirements.txt"))
LINE = json.dumps(["a.bin", "etag", "yesterday", 3, 5])


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """Return the paths of a host that has fetched files of data, and packages."""
    made = Paths(tmp_path)
    for folder, name, text in (
        (made.data / "train", "a.bin", "one"),
        (made.data / "train" / "deep", "b.bin", "two"),
        (made.data / "shared", "c.bin", "mine alone"),
        (made.venv / "lib", "package.py", "code"),
    ):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    made.journals.mkdir()
    (made.journals / "train.jsonl").write_text(f"{LINE}\n")
    return made


def another_run(paths: Paths, job: Job) -> None:
    """Do the first steps of the next agent after a wipe."""
    for folder in (paths.data, paths.venv, paths.journals):
        if folder.exists():
            folder.rename(paths.root / f"gone-{folder.name}")
    retained.give(job, paths, account.own())


def found(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def nothing(paths: Paths) -> None:
    """Change nothing."""


def written(paths: Paths) -> None:
    (paths.data / "train/a.bin").write_text("bad")


def written_with_its_times_set_back(paths: Paths) -> None:
    path = paths.data / "train/a.bin"
    before = path.stat()
    path.write_text("bad")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replaced(paths: Paths) -> None:
    path = paths.data / "train/a.bin"
    path.unlink()
    path.write_text("bad")


def linked_elsewhere(paths: Paths) -> None:
    os.link(paths.data / "train/a.bin", paths.home / "mine")


def its_folder_is_a_link(paths: Paths) -> None:
    (paths.home / "other").mkdir()
    (paths.home / "other/b.bin").write_text("bad")
    (paths.data / "train/deep").rename(paths.home / "away")
    (paths.data / "train/deep").symlink_to(paths.home / "other")


def more_beside_it(paths: Paths) -> None:
    (paths.data / "train/more.bin").write_text("bad")


BOTH, SECOND, FIRST = {"a.bin": "one", "deep/b.bin": "two"}, {"deep/b.bin": "two"}, {"a.bin": "one"}


@pytest.mark.parametrize(
    ("program_has", "stays"),
    [
        (nothing, BOTH),
        (written, SECOND),
        (written_with_its_times_set_back, SECOND),
        (replaced, SECOND),
        (linked_elsewhere, SECOND),
        (its_folder_is_a_link, FIRST),
        (more_beside_it, BOTH),
    ],
)
def test_the_next_run_gets_data_that_no_program_has_touched(
    paths: Paths, program_has: Callable[[Paths], None], stays: dict[str, str]
) -> None:
    retained.note(JOB, None, paths)
    program_has(paths)
    retained.take(paths)
    assert (paths.retained.stat().st_mode & 0o777) == 0o700, "only root can read it"
    another_run(paths, replace(JOB, data={"mine": Data(source=SOURCE)}))
    assert found(paths.data / "mine") == stays
    assert (paths.journals / "mine.jsonl").read_text() == f"{LINE}\n"
    assert not paths.retained.exists(), "data that it does not name are removed"


def test_a_run_that_names_other_data_finds_none(paths: Paths) -> None:
    retained.note(JOB, None, paths)
    retained.take(paths)
    another_run(paths, replace(JOB, data={"train": Data(source="s3://bucket/data/other/")}))
    assert not (paths.data / "train").exists()
    assert not paths.retained.exists()


def test_data_that_came_while_a_package_was_built_are_fetched_again(paths: Paths) -> None:
    retained.note(BUILDS, None, paths)
    retained.take(paths)
    another_run(paths, BUILDS)
    assert not paths.data.exists()


def packages_changed(paths: Paths) -> None:
    (paths.venv / "lib/package.py").write_text("evil")


@pytest.mark.parametrize(
    ("program_has", "stays"),
    [(nothing, {"lib/package.py": "code"}), (packages_changed, {})],
)
def test_packages_are_kept_whole_or_not_at_all(
    paths: Paths, program_has: Callable[[Paths], None], stays: dict[str, str]
) -> None:
    known_by = hash_of_list("numpy==2.1\n")
    assert known_by
    retained.note(BUILDS, known_by, paths)
    program_has(paths)
    (paths.venv / "lib/extra.py").write_text("brought by the program")
    retained.take(paths)
    another_run(paths, BUILDS)
    assert found(paths.spare / known_by) == stays


def test_a_wipe_that_was_broken_off_keeps_what_it_had(paths: Paths) -> None:
    retained.note(JOB, None, paths)
    retained.take(paths)
    paths.notes.unlink()
    retained.take(paths)
    another_run(paths, JOB)
    assert found(paths.data / "train") == BOTH


@pytest.mark.parametrize(
    ("text", "is_known"),
    [
        ("numpy==2.1\npandas>=2,<3 ; python_version > '3.10'\n# why\n", True),
        ("torch[extra]~=2.5 \\\n  --hash=sha256:" + "a" * 64 + "\n", True),
        ("./mine\n", False),
        ("-r more.txt\n", False),
        ("--index-url https://evil.example/simple\nnumpy\n", False),
        ("mine @ https://example.com/mine.whl\n", False),
        ("-e .\n", False),
        ("file:///tmp/x.whl\n", False),
        ("mine.whl/\n", False),
        ("numpy \\\n==2.1\n# -*- coding: utf-8 -*-\n", True),
        ("numpy\n# why \\\n./evil\n", False),
        ("numpy\n# why \\\n--index-url https://evil.example/simple\n", False),
        ("numpy\n\t# why \\\n-r more.txt\n", False),
        ("numpy \\\n --index-url https://evil.example/simple\n", False),
        ("numpy --config-settings=key=value\n", False),
        ("numpy\x0c./evil\n", False),
        ("${EVIL}\n", False),
        ("# coding: utf-7\n+AC4ALw-evil\n", False),
        ("numpy\n# coding=utf-16\n", False),
    ],
)
def test_a_list_that_brings_more_than_packages_of_the_index_is_no_other_runs(
    text: str, is_known: bool
) -> None:
    assert (hash_of_list(text) is not None) is is_known


# -------------------------------------------------------------------------------------------------------------- waiting

RUN = {
    "trainyard:run": "first",
    "trainyard:attempt": "2",
    "trainyard:bus": "trainyard",
    "trainyard:role": "AROA",
}


class OffError(Exception):
    """The power is off."""


def off(reason: str) -> None:
    raise OffError(reason)


class Service(Metadata):
    """Tags that change with each look. `looks` are the values of the pool's and the run's tag."""

    def __init__(self, *looks: tuple[str, str], notice: InterruptionNotice | None = None) -> None:
        super().__init__()
        self.looks, self.noticed = list(looks), notice

    @property
    def now(self) -> dict[str, str]:
        pool, run = self.looks[0]
        return RUN | {"trainyard:pool": pool, "trainyard:run": run}

    def tag(self, name: str) -> str | None:
        found = self.now[name]
        if name == "trainyard:run" and len(self.looks) > 1:
            self.looks.pop(0)
        return found

    def interruption_notice(self) -> InterruptionNotice | None:
        return self.noticed

    def identity(self) -> Identity:
        return Identity("i-1", "us-east-1", "10.0.0.1", "ami-1", self.now)


class Bus:
    def __init__(self) -> None:
        self.said: list[dict[str, Any]] = []

    def put_events(self, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803 - as boto3 has it
        self.said += [json.loads(each["Detail"]) for each in Entries]
        return {"FailedEntryCount": 0, "Entries": [{}]}


def until(minutes: float) -> str:
    return (datetime.now(UTC) + timedelta(minutes=minutes)).isoformat(timespec="milliseconds")


def wait(
    service: Service, bus: Bus, monkeypatch: pytest.MonkeyPatch, *, trouble: Exception | None = None
) -> Identity:
    def wiped(paths: Paths, whose: account.Account, *, name: str) -> None:
        if trouble:
            raise trouble

    monkeypatch.setattr(waiting, "wipe", wiped)
    monkeypatch.setattr(waiting, "LOOK_SECONDS", 0.001)
    return waiting.wait_if_warm(
        Paths(),
        service,
        service.identity(),
        find_account=account.own,
        account_name="trainyard",
        put_up_fence=lambda whose: None,
        events=lambda region: bus,
        power_off=off,
    )


def test_a_host_that_is_not_in_the_pool_goes_on_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bus = Bus()
    assert wait(Service(("", "first")), bus, monkeypatch).tags["trainyard:run"] == "first"
    assert bus.said == []


def test_it_says_that_it_is_wiped_until_its_tag_says_until_when_and_then_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting, "REPORT_SECONDS", 0.0)
    first, then = f"{until(5)} first", f"{until(30)} first"
    service, bus = (
        Service((first, "first"), (first, "first"), (then, "first"), (then, "first"), (then, "next")),
        Bus(),
    )
    taken = wait(service, bus, monkeypatch)
    assert taken.tags["trainyard:run"] == "next"
    assert [(each["signal"], each["run"], each["attempt"]) for each in bus.said] == [
        ("wiped", "first", 2)
    ] * 2


def test_ec2_takes_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    notice = InterruptionNotice("terminate", datetime.now(UTC))
    with pytest.raises(OffError, match="EC2 takes this host back"):
        wait(Service((f"{until(5)} first", "first"), notice=notice), Bus(), monkeypatch)


def test_its_time_is_over_and_everybody_has_forgotten_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OffError, match="its time in the warm pool is over"):
        wait(Service((f"{until(-4)} first", "first")), Bus(), monkeypatch)


UNWIPED = [
    (HostTrouble("a process hangs"), "a process hangs"),
    (OSError(39, "it cannot be removed", "/var/lib/trainyard"), "it cannot be removed"),
    (RecursionError("maximum recursion depth exceeded"), "RecursionError"),
    (UnicodeEncodeError("utf-8", "x", 0, 1, "surrogates"), "UnicodeEncodeError"),
]


@pytest.mark.parametrize(("trouble", "why"), UNWIPED, ids=[type(trouble).__name__ for trouble, _ in UNWIPED])
def test_one_that_cannot_be_wiped_says_why_and_ends(
    monkeypatch: pytest.MonkeyPatch, trouble: Exception, why: str
) -> None:
    bus = Bus()
    with pytest.raises(OffError, match=f"it cannot be wiped for another run: .*{why}"):
        wait(Service((f"{until(5)} first", "first")), bus, monkeypatch, trouble=trouble)
    (said,) = bus.said
    assert said["signal"] == "wiped"
    assert why in said["reason"]


def test_where_programs_run_as_the_agent_nobody_can_tell_what_is_left(paths: Paths) -> None:
    with pytest.raises(HostTrouble, match="cannot be told from others"):
        wipe.wipe(paths, account.own(), name="trainyard")
    assert paths.data.exists()
