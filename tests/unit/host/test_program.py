import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from training.host import checkpoints, logs
from training.host.checkpoints import superfluous
from training.host.cluster import Cluster, Seat
from training.host.errors import ProgramFault
from training.host.fetch import find_module, inside
from training.host.places import Places
from training.host.program import Program, arguments, environment
from training.host.progress import Progress
from training.host.repeat import Repeat
from training.host.state import State, recall

CHIEF = Seat("i-1", "chief", 0, "10.0.1.5")


def start(tmp_path: Path, code: str) -> Program:
    return Program.start(
        [sys.executable, "-c", code],
        folder=tmp_path,
        env={},
        log=tmp_path / "log",
        exit_file=tmp_path / "attempt" / "exit",
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


def test_args_become_a_command_line() -> None:
    line = arguments({"epochs": 5, "learning-rate": 0.001, "augment": True, "quiet": False, "name": "a b"})
    assert line == ["--epochs", "5", "--learning-rate", "0.001", "--augment", "--name", "a b"]


def test_a_program_is_told_where_everything_is() -> None:
    cluster = Cluster(
        run="r",
        attempt=2,
        strategy="single",
        port=2222,
        seats=(CHIEF,),
        checkpoint=None,
        deadline=datetime(2026, 11, 20, tzinfo=UTC),
        job={"data": {"train-set": "s3://b/data/x/"}},
    )
    told = environment(
        cluster, CHIEF, Places(), region="us-east-1", base={"PATH": "/bin", "TF_CONFIG": "old"}
    )
    assert told["PATH"] == "/bin"
    assert told["TRAINYARD_DATA_TRAIN_SET"] == "/var/lib/trainyard/data/train-set"
    assert told["TRAINYARD_ATTEMPT"] == "2"
    assert "TF_CONFIG" not in told


def test_a_module_is_looked_for_without_importing_it(tmp_path: Path) -> None:
    places = Places(tmp_path)
    (places.program / "mine").mkdir(parents=True)
    (places.program / "mine" / "__init__.py").touch()
    (places.program / "mine" / "train.py").write_text("raise SystemExit('imported')")
    find_module("mine.train", places, source="s3://b/p.tar")
    for absent in ("mine.other", "mine", "mine.train.deeper"):
        with pytest.raises(ProgramFault, match=absent):
            find_module(absent, places, source="s3://b/p.tar")


@pytest.mark.parametrize("relative", ["../x", "a/../../x", "/etc/passwd", ""])
def test_no_key_of_an_object_points_outside_its_folder(relative: str) -> None:
    with pytest.raises(ProgramFault):
        inside(Path("/data"), relative)


def test_the_last_three_checkpoints_are_kept_and_later_ones_are_not_touched() -> None:
    assert superfluous([100, 200, 300, 400, 500], newest=400) == [100]
    assert superfluous([100, 200], newest=200) == []


def test_only_the_checkpoint_to_restore_is_left_for_the_program(tmp_path: Path) -> None:
    for name in ("00000100", "00000200", "00000300.half"):
        (tmp_path / name).mkdir()
    checkpoints.keep_only(tmp_path, 100)
    assert checkpoints.on_disk(tmp_path) == [100]
    assert [path.name for path in tmp_path.iterdir()] == ["00000100"]


def test_progress_is_said_at_once_then_every_ten_seconds(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    progress = Progress(path, started=0)
    assert progress.to_say(1, no_signs) is None
    path.write_text('{"step": 1, "loss": 2.5, "else": 1}\n{"step": 2')
    progress.read()
    assert progress.to_say(2, no_signs) == {"step": 1, "loss": 2.5}
    with path.open("a") as lines:
        lines.write(', "loss": 2.0}\nno json\n')
    progress.read()
    assert progress.to_say(5, no_signs) is None
    assert progress.to_say(12, no_signs) == {"step": 2, "loss": 2.0}
    assert progress.to_say(30, no_signs) is None


def no_signs() -> None:
    return None


SILENT = [
    # sentence, what the looks find at 60, 120, 180 ... seconds, whether it is said then that the program lives
    ("a program that works in silence lives", [1, 2, 3], [True, True, True]),
    ("one that hangs from the beginning is not told of again", [1, 1, 1], [True, False, False]),
    ("one that goes on is told of again", [1, 1, 2, 2, 3], [True, False, True, False, True]),
]


@pytest.mark.parametrize(("found", "said"), [row[1:] for row in SILENT], ids=[row[0] for row in SILENT])
def test_once_a_minute_it_is_said_that_a_silent_program_lives(found: list[int], said: list[bool]) -> None:
    progress, looks = Progress(Path("/nowhere"), started=0), iter(found)
    heard = []
    for minute in range(len(found)):
        assert progress.to_say(60 * minute + 59, no_signs) is None
        heard.append(progress.to_say(60 * minute + 60, lambda: next(looks)) == {})
    assert heard == said


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


def test_a_huge_log_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"begin" + b"." * 1000 + b"end")
    assert logs.excerpt(log, most=100, head=20) == b"begin" + b"." * 15 + (
        b"\n... 908 bytes left out ...\n" + b"." * 77 + b"end"
    )
    assert logs.excerpt(log) == log.read_bytes()
    assert logs.due_after(100 * 1024 * 1024) > logs.due_after(10)


def test_state_of_another_instance_or_run_is_not_ours(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    State("run-1", "i-1", 3, phase="waiting").save(path)
    assert recall(path, run="run-1", instance="i-1", attempt=1).attempt == 3
    assert recall(path, run="run-1", instance="i-2", attempt=1) == State("run-1", "i-2", 1)
    assert recall(path, run="run-2", instance="i-1", attempt=1).phase == "fetching"


def test_what_is_repeated_is_done_a_last_time() -> None:
    done: list[bool] = []
    repeat = Repeat("test", done.append, every=60)
    repeat.start()
    repeat.finish()
    assert done == [True]
