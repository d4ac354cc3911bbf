"""The account of programs: rights of a thread that acts as the account, and rights of the program itself."""

import os
import pwd
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from training.host import account
from training.host.account import Account
from training.host.disk import is_readable, readable_files
from training.host.program.advice import TOO_MANY_TASKS, advice_on
from training.host.program.process import Program
from training.host.program.tasks import most_tasks

ANOTHER = Account(61234, 61234)
SYSTEMS = Path("/usr/bin/python3")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another")


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder that every account can reach, unlike pytest's own folders. It has a file for root only."""
    folder = Path("/tmp") / f"account-{os.getpid()}-{time.monotonic_ns()}"
    folder.mkdir(mode=0o755)
    (folder / "secret").touch(mode=0o600)
    (folder / "home").mkdir()
    ANOTHER.give(folder / "home")
    yield folder
    subprocess.run(["rm", "-rf", str(folder)], check=True)


@needs_root
def test_what_a_thread_makes_while_it_acts_is_the_accounts_and_roots_files_are_closed_to_it(
    room: Path,
) -> None:
    home = room / "home"
    with ANOTHER.act():
        (home / "made").touch()
        with pytest.raises(PermissionError):
            (room / "secret").read_bytes()
        with pytest.raises(PermissionError):
            (room / "made").touch()
    assert (home / "made").stat().st_uid == ANOTHER.uid
    assert (room / "secret").read_bytes() == b""


@needs_root
def test_other_threads_are_as_they_were_and_those_begun_meanwhile_act_too(room: Path) -> None:
    seen: dict[str, int] = {}

    def touch(name: str) -> None:
        (room / "home" / name).touch()
        seen[name] = (room / "home" / name).stat().st_uid

    def touch_later() -> None:
        go_on.wait()
        touch("before")

    go_on = threading.Event()
    before = threading.Thread(target=touch_later)
    before.start()
    with ANOTHER.act():
        meanwhile = threading.Thread(target=touch, args=("meanwhile",))
        meanwhile.start()
        meanwhile.join()
        go_on.set()
        before.join()
    assert seen == {"before": 0, "meanwhile": ANOTHER.uid}


@needs_root
def test_commands_of_a_thread_that_acts_run_as_the_account(room: Path) -> None:
    def who() -> str:
        done: subprocess.CompletedProcess[str] = subprocess.run(
            ["id", "-u"], capture_output=True, text=True, check=True, **account.as_this_thread()
        )
        return done.stdout.strip()

    assert who() == "0"
    with ANOTHER.act():
        assert who() == str(ANOTHER.uid)
    assert who() == "0"


@needs_root
def test_a_link_to_what_root_alone_reads_is_no_file_to_be_brought_away(room: Path) -> None:
    home = room / "home"
    (home / "mine").write_text("mine")
    for name, target in {"file": room / "secret", "folder": Path("/root"), "none": room / "none"}.items():
        (home / name).symlink_to(target)
    with ANOTHER.act():
        assert list(readable_files(home)) == [home / "mine"]
        assert not is_readable(home / "folder" / "facts.json")


@needs_root
@pytest.mark.skipif(not SYSTEMS.exists(), reason="no Python that every account reaches")
def test_a_program_is_the_account_and_root_does_nothing_that_its_environment_says(
    room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(SYSTEMS))
    nobody = pwd.getpwnam("nobody")
    programs, python = Account(nobody.pw_uid, nobody.pw_gid), str(SYSTEMS)
    code = (
        "import os; print(os.getuid(), os.getgid(), os.environ['GREETING'], 'PATH' in os.environ);"
        "print([line.split()[1] for line in open('/proc/self/status') if line.startswith(('CapEff', 'NoNewPrivs'))])"
    )
    (room / "evil.sh").write_text(f"touch {room}/evil\n")
    program = Program.start(
        [python, "-I", "-c", code],
        account=programs,
        folder=room,
        env={"GREETING": "a=b\nc", "BASH_ENV": f"{room}/evil.sh"},
        log=room / "log",
        exit_file=room / "attempt" / "exit",
        most_tasks=most_tasks(),
    )
    while program.exit_code() is None:
        time.sleep(0.02)
    said = (room / "log").read_text()
    assert said == (f"{nobody.pw_uid} {nobody.pw_gid} a=b\nc False\n['0000000000000000', '1']\n")
    assert not (room / "evil").exists()
    assert (room / "attempt/exit").stat().st_uid == 0


FORKS = """
import os, time
while True:
    if not os.fork():
        time.sleep(60)
"""


@needs_root
@pytest.mark.skipif(not SYSTEMS.exists(), reason="no Python that every account reaches")
def test_a_program_that_starts_processes_without_end_fails_by_itself(
    room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(SYSTEMS))
    nobody = pwd.getpwnam("nobody")
    programs = Account(nobody.pw_uid, nobody.pw_gid)
    program = Program.start(
        [str(SYSTEMS), "-I", "-c", FORKS],
        account=programs,
        folder=room,
        env={},
        log=room / "log",
        exit_file=room / "attempt" / "exit",
        most_tasks=20,
    )
    while program.exit_code() is None:
        time.sleep(0.02)
    assert 0 < program.count_tasks(programs, "MARK=x") <= 20
    program.kill()
    assert advice_on((room / "log").read_text()) == TOO_MANY_TASKS


@needs_root
def test_all_that_runs_as_the_account_is_ended_wherever_it_has_hidden() -> None:
    with subprocess.Popen(
        ["sleep", "60"], user=ANOTHER.uid, group=ANOTHER.gid, start_new_session=True
    ) as hidden:
        ANOTHER.end_all()
        assert hidden.wait(10) == -9


def test_whoever_runs_the_agent_is_no_other_account(tmp_path: Path) -> None:
    own = account.own()
    assert not own.is_another
    with own.act():
        assert account.as_this_thread() == {}
    own.give(tmp_path)
    own.end_all()
    assert own.command(["x"], python=Path("/py"), most_tasks=9)[0] == "/py"


def test_an_account_that_cannot_be_acted_as_says_so() -> None:
    if os.geteuid() == 0:
        pytest.skip("root can")
    with pytest.raises(PermissionError, match="may not act as user 61234"), ANOTHER.act():
        pass


@needs_root
def test_what_its_programs_left_where_everybody_may_write_goes_and_what_others_left_stays(room: Path) -> None:
    theirs, shared, elsewhere = room / "var/tmp/theirs", room / "tmp/shared", room / "home/kept"
    for folder in (theirs / "deep", shared, room / "dev/shm"):
        folder.mkdir(parents=True)
    for path in (theirs / "deep/loot", shared / "note", room / "dev/shm/segment", elsewhere):
        path.write_text("of the last run")
        ANOTHER.give(path)
    (room / "tmp/link").symlink_to(room / "secret")
    (room / "tmp/way").symlink_to(room / "home")
    for path in (theirs, theirs / "deep", room / "tmp/link", room / "tmp/way"):
        ANOTHER.give(path)
    theirs.chmod(0)
    (shared / "roots").touch()

    ANOTHER.remove_traces(room)

    found = {str(path.relative_to(room)) for path in room.rglob("*") if not path.is_dir()}
    assert found == {"secret", "home/kept", "tmp/shared/roots"}
    assert not theirs.exists()


def test_where_programs_run_as_the_agent_does_nothing_is_taken_for_theirs(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp/agents").touch()
    account.own().remove_traces(tmp_path)
    assert (tmp_path / "tmp/agents").exists()


def test_a_host_without_one_of_these_folders_has_nothing_to_remove(tmp_path: Path) -> None:
    ANOTHER.remove_traces(tmp_path)
    assert list(tmp_path.iterdir()) == []
