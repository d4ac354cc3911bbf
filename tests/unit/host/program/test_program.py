import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from training.host import account
from training.host.agent.state import State, recall
from training.host.disk import inside
from training.host.errors import ProgramFault
from training.host.paths import Paths
from training.host.periodic import Repeat
from training.host.program import process
from training.host.program.environment import LEAVE_TRAP, SHELL
from training.host.program.fetch import find_module, refuse_our_name
from training.host.program.process import SHELLS_NAME, Program
from training.host.program.tasks import most_tasks


def start(tmp_path: Path, code: str) -> Program:
    return Program.start(
        [sys.executable, "-c", code],
        account=account.own(),
        folder=tmp_path,
        env={},
        log=tmp_path / "log",
        exit_file=tmp_path / "attempt" / "exit",
        most_tasks=most_tasks(),
    )


def code_of(program: Program) -> int:
    while (code := program.exit_code()) is None:
        time.sleep(0.02)
    return code


def wait_until(true: Callable[[], bool]) -> None:
    while not true():
        time.sleep(0.02)


def test_a_programs_exit_code_and_words_are_kept(tmp_path: Path) -> None:
    assert code_of(start(tmp_path, "print('hello'); raise SystemExit(7)")) == 7
    assert (tmp_path / "log").read_text() == "hello\n"


def test_a_program_that_asks_a_question_finds_its_input_at_its_end(tmp_path: Path) -> None:
    """A host is billed while its program waits for input, for example for the consent to a license."""
    asks = "import sys; print(sys.stdin.read() == ''); input('Do you accept? [y/n] ')"
    assert code_of(start(tmp_path, asks)) == 1
    shown = (tmp_path / "log").read_text()
    assert shown.startswith("True\nDo you accept?")
    assert "EOFError" in shown


def test_an_agent_that_was_restarted_finds_its_program_again(tmp_path: Path) -> None:
    program = start(tmp_path, "import time; time.sleep(0.3); raise SystemExit(75)")
    program.remember(tmp_path / "process.json")
    again = Program.recall(tmp_path / "process.json")
    assert again == program
    assert again.exit_code() is None
    assert code_of(program) == 75
    assert again.exit_code() == 75


def test_a_process_id_that_was_used_again_is_not_taken_for_the_program(tmp_path: Path) -> None:
    program = start(tmp_path, "import time; time.sleep(30)")
    stranger = Program(pid=program.pid, born=program.born - 1, exit_file=tmp_path / "none")
    assert not stranger.is_alive()
    assert program.is_alive()
    program.kill()
    assert code_of(program) == 137


def test_asking_to_leave_reaches_the_program_which_may_answer_with_a_code(tmp_path: Path) -> None:
    program = start(
        tmp_path,
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))\n"
        "print('listening', flush=True)\n"
        "time.sleep(30)",
    )
    wait_until(lambda: "listening" in (tmp_path / "log").read_text())
    program.ask_to_leave()
    assert code_of(program) == 75


def test_a_program_that_does_not_listen_is_killed_with_all_it_started(tmp_path: Path) -> None:
    program = start(tmp_path, "import subprocess; subprocess.run(['sleep', '30'])")
    program.kill()
    assert code_of(program) == 137


def test_a_frozen_program_hears_that_it_shall_leave(tmp_path: Path) -> None:
    program = start(tmp_path, "import time; print('up', flush=True); time.sleep(30)")
    wait_until(lambda: "up" in (tmp_path / "log").read_text())
    os.killpg(program.pid, signal.SIGSTOP)
    program.ask_to_leave()
    assert code_of(program) == 128 + signal.SIGTERM


def test_a_code_that_could_not_be_written_down_is_known_all_the_same(tmp_path: Path) -> None:
    program = start(tmp_path, "import time; time.sleep(0.2); raise SystemExit(3)")
    (tmp_path / "attempt").rmdir()
    assert code_of(program) == 3


def test_a_module_is_looked_for_without_importing_it(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    (paths.program / "mine").mkdir(parents=True)
    (paths.program / "mine" / "__init__.py").touch()
    (paths.program / "mine" / "train.py").write_text("raise SystemExit('imported')")
    find_module("mine.train", paths, source="s3://b/p.tar")
    for absent in ("mine.other", "mine", "mine.train.deeper"):
        with pytest.raises(ProgramFault, match=absent):
            find_module(absent, paths, source="s3://b/p.tar")


def test_shipped_programs_are_found_by_a_job_without_a_source_alone(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    (paths.agent / "training/programs").mkdir(parents=True)
    (paths.agent / "training/programs/digits.py").touch()
    paths.program.mkdir(parents=True)
    paths.python.parent.mkdir(parents=True)
    paths.python.symlink_to(sys.executable)
    find_module("training.programs.digits", paths, source=None)
    with pytest.raises(ProgramFault, match=r"training\.programs\.digits cannot be found in s3://b/p\.tar"):
        find_module("training.programs.digits", paths, source="s3://b/p.tar")


@pytest.mark.parametrize(
    "files",
    [
        ["trainyard.py"],
        ["trainyard/__init__.py"],
        ["trainyard/train/loop.py"],
    ],
)
def test_the_name_under_which_programs_import_what_hosts_have_is_not_the_users(
    tmp_path: Path, files: list[str]
) -> None:
    write(tmp_path, *files)
    with pytest.raises(ProgramFault, match=r"s3://b/p\.tar contains a module trainyard"):
        refuse_our_name(tmp_path, "s3://b/p.tar")


def test_any_other_name_is_the_users_and_so_is_a_folder_without_code(tmp_path: Path) -> None:
    write(tmp_path, "trainyard/job.yaml", "training/__init__.py", "host/x.py", "trainyards.py", "data.py")
    refuse_our_name(tmp_path, "s3://b/p.tar")


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


@pytest.mark.parametrize("relative", ["../x", "a/../../x", "/etc/passwd", ""])
def test_no_key_of_an_object_points_outside_its_folder(relative: str) -> None:
    with pytest.raises(ProgramFault):
        inside(Path("/data"), relative)


def test_processor_time_grows_with_work_and_stands_still_in_a_hang(tmp_path: Path) -> None:
    code = "import time; [None for _ in range(3_000_000)]; print('done', flush=True); time.sleep(60)"
    program = start(tmp_path, code)
    try:
        while b"done" not in (tmp_path / "log").read_bytes():
            assert program.is_alive()
        used = program.processor_time()
        assert used > 0
        os.killpg(program.pid, signal.SIGSTOP)
        assert program.processor_time() - used <= 1
    finally:
        program.kill()
        while program.is_alive():
            time.sleep(0.01)


def test_processor_time_counts_what_it_started_in_a_session_of_its_own(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys; "
        "work = 'while True: pass'; "
        "worker = subprocess.Popen([sys.executable, '-c', work], start_new_session=True); "
        "print(worker.pid, flush=True); worker.wait()"
    )
    program = start(tmp_path, code)
    try:
        ends = time.monotonic() + 20
        while program.processor_time() < 50:
            assert time.monotonic() < ends, "its work was never seen"
            time.sleep(0.05)
    finally:
        os.kill(int((tmp_path / "log").read_text()), signal.SIGKILL)
        program.kill()
        while program.is_alive():
            time.sleep(0.01)


def test_state_of_another_instance_or_run_is_not_ours(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    State("run-1", "i-1", 3, phase="waiting").save(path)
    assert recall(path, run="run-1", instance="i-1", attempt=1).attempt == 3
    assert recall(path, run="run-1", instance="i-2", attempt=1) == State("run-1", "i-2", 1)
    assert recall(path, run="run-2", instance="i-1", attempt=1).phase == "new"


def test_what_fails_once_is_tried_again() -> None:
    done: list[bool] = []

    def act(last: bool) -> None:
        done.append(last)
        if len(done) == 1:
            raise OSError(28, "No space left on device")

    repeat = Repeat("test", act, every=0.01)
    repeat.start()
    wait_until(lambda: len(done) > 2)
    repeat.finish()
    assert done[-1]


def test_what_is_repeated_is_done_a_last_time() -> None:
    done: list[bool] = []
    repeat = Repeat("test", done.append, every=60)
    repeat.start()
    repeat.finish()
    assert done == [True]


SAVES = """
import signal, sys, time
def leave(*_):
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
print("listening", flush=True)
time.sleep(30)
"""


def start_shell(tmp_path: Path, *command: str) -> Program:
    (tmp_path / "saves.py").write_text(SAVES)
    return Program.start(
        command,
        account=account.own(),
        folder=tmp_path,
        env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "MARK": str(tmp_path)},
        log=tmp_path / "log",
        exit_file=tmp_path / "attempt" / "exit",
        most_tasks=most_tasks(),
    )


def command_of(lines: str) -> tuple[str, ...]:
    """Return the command that runs these lines of program.shell."""
    return (*SHELL, f"{LEAVE_TRAP}{lines}", SHELLS_NAME)


SHELLS: list[tuple[str, tuple[str, ...], int]] = [
    # name, command, exit code after SIGTERM
    ("a pipe of sh", ("sh", "-c", "python saves.py | tee copy"), 0),
    ("the last command of bash", ("bash", "-c", "cd . && python saves.py"), 0),
    ("a shell in a shell", ("sh", "-c", "sh -c 'python saves.py; true'; true"), 0),
    ("program.shell with a line that is left", command_of("python saves.py | tee copy\ntouch next"), 75),
    ("program.shell whose command has no handler", command_of("echo listening\nsleep 30\ntouch next"), 143),
]


@pytest.mark.parametrize(("command", "code"), [row[1:] for row in SHELLS], ids=[row[0] for row in SHELLS])
def test_what_a_shell_runs_is_asked_to_leave(command: tuple[str, ...], code: int, tmp_path: Path) -> None:
    program = start_shell(tmp_path, *command)
    wait_until(lambda: "listening" in (tmp_path / "log").read_text())
    wait_until(
        lambda: program.handles_sigterm() is ("saves.py" in " ".join(command))
    )  # between two lines bash itself runs
    program.ask_to_leave()
    assert code_of(program) == code
    assert ("saved" in (tmp_path / "log").read_text()) is ("saves.py" in " ".join(command))
    assert not (tmp_path / "next").exists()


def test_a_shell_with_a_trap_of_its_own_is_asked_alone(tmp_path: Path) -> None:
    lines = "trap 'kill -TERM $job; wait $job; exit 5' TERM; python saves.py & job=$!; wait $job"
    program = start_shell(tmp_path, "bash", "-c", lines)
    wait_until(lambda: "listening" in (tmp_path / "log").read_text())
    program.ask_to_leave()
    assert code_of(program) == 5
    assert (tmp_path / "log").read_text().count("saved") == 1


def test_what_still_runs_behind_a_program_is_named(tmp_path: Path) -> None:
    program = start_shell(tmp_path, "sh", "-c", "nohup python saves.py & sleep 0.5")
    assert code_of(program) == 0
    mark = f"MARK={tmp_path}"
    (line,) = program.find_running(account.own(), mark)
    assert line.endswith("python saves.py")
    program.kill()
    wait_until(lambda: not program.find_running(account.own(), mark))


def test_so_are_processes_that_have_left_its_session(tmp_path: Path) -> None:
    """This holds without a separate account, for processes with their own sessions and parents."""
    lines = "setsid python saves.py & setsid sh -c 'python saves.py; true' & setsid -f sleep 600; sleep 0.5"
    program, mark = start_shell(tmp_path, "sh", "-c", lines), f"MARK={tmp_path}"
    assert code_of(program) == 0
    left = program.find_running(account.own(), mark)
    assert sorted(line.rpartition("/")[2] for line in left) == [
        "python saves.py",
        "python saves.py",
        "sh -c python saves.py; true",
        "sleep 600",
    ]
    program.kill()
    program.kill_remaining(account.own(), mark)
    wait_until(lambda: not program.find_running(account.own(), mark))


def test_nothing_runs_behind_a_program_that_waits_for_its_own(tmp_path: Path) -> None:
    program = start_shell(tmp_path, "sh", "-c", "sleep 0.1 & wait")
    assert code_of(program) == 0
    assert program.find_running(account.own(), f"MARK={tmp_path}") == ()


def test_a_kill_of_the_program_alone_is_told_from_one_of_all_its_processes(tmp_path: Path) -> None:
    program = start(tmp_path, "import os; os.kill(os.getpid(), 9)")
    assert (code_of(program), program.was_killed_whole()) == (137, False)
    program = start(tmp_path, "import time; time.sleep(30)")
    os.killpg(program.pid, signal.SIGKILL)
    assert (code_of(program), program.was_killed_whole()) == (137, True)


def test_the_kernels_kills_are_counted_for_the_agents_control_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_control_group", lambda: tmp_path)
    monkeypatch.setattr(process, "KERNEL_COUNTERS", tmp_path / "vmstat")
    assert process.killed_for_memory() is None
    (tmp_path / "vmstat").write_text("nr_free 1\noom_kill 7\n")
    assert process.killed_for_memory() == 7
    (tmp_path / "memory.events").write_text("low 0\noom 1\noom_kill 2\noom_group_kill 0\n")
    assert process.killed_for_memory() == 2
