# ruff: noqa: ISC004 - one text a row
"""The reason of an end is the exception that ended the program, and no text that only looks like one."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from training.host.disk import Room
from training.host.program import environment, exits
from training.host.program.ending import End, why
from training.host.program.exits import Exit
from training.host.program.tracebacks import full_path, last_exception, last_shown

FRAMES = 'Traceback (most recent call last):\n  File "/x/train.py", line 3, in <module>\n    main()\n'
NEW_LINE = "\n"
STEPS = "step\n"
HANDLED = f"{FRAMES}ModuleNotFoundError: No module named 'apex'\n"

TEXTS: list[tuple[str, str, str]] = [
    # name, output, last exception in it
    (
        "a class with any name",
        f"{FRAMES}BadZipFile: File is not a zip file\n",
        "BadZipFile: File is not a zip file",
    ),
    ("without a message", f"{FRAMES}mine.Boom\n", "mine.Boom"),
    (
        "the last of a chain",
        f"{FRAMES}KeyError: 'x'\n\nDuring handling of the above exception, another exception occurred:\n\n"
        f"{FRAMES}zipfile.BadZipFile: no zip\n",
        "zipfile.BadZipFile: no zip",
    ),
    (
        "the last of a cause",
        f"{FRAMES}ValueError: a\n\nThe above exception was the direct cause of the following exception:\n\n"
        f"{FRAMES}RuntimeError: b\n",
        "RuntimeError: b",
    ),
    (
        "what a data loader's worker raised",
        f"{FRAMES}ValueError: Caught ValueError in DataLoader worker process 0.\nOriginal {FRAMES}ValueError: bad\n",
        "ValueError: bad",
    ),
    (
        "a process of multiprocessing",
        f"Process Process-1:\n{FRAMES}OSError: gone\n",
        "OSError: gone",
    ),
    (
        "a group",
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "/x/train.py", line 1, in <module>\n'
        '  |     raise ExceptionGroup("two", [ValueError("a"), TypeError("b")])\n'
        "  | ExceptionGroup: two (2 sub-exceptions)\n"
        "  +-+---------------- 1 ----------------\n"
        "    | ValueError: a\n"
        "    +---------------- 2 ----------------\n"
        "    | TypeError: b\n"
        "    +------------------------------------\n",
        "ExceptionGroup: two (2 sub-exceptions): ValueError: a; TypeError: b",
    ),
    (
        "a syntax error of the file that was started",
        '  File "/x/train.py", line 3\n    def f(:\n          ^\nSyntaxError: invalid syntax\n',
        "SyntaxError: invalid syntax",
    ),
    ("an interrupt", f"{FRAMES}KeyboardInterrupt\n", "KeyboardInterrupt"),
    (
        "of torch's rank 1",
        '[rank1]: Traceback (most recent call last):\n[rank1]:   File "/x/t.py", line 1, in f\n'
        "[rank1]:     f()\n[rank1]: mine.Boom: no\n",
        "mine.Boom: no",
    ),
    (
        "a traceback whose beginning was cut off",
        '  File "/x/train.py", line 3, in f\n    g()\nBoom: x\n',
        "Boom: x",
    ),
    ("a metric", "MeanAbsoluteError: 0.31\n", ""),
    ("a metric with its module", "keras.metrics.MeanSquaredError: 1e-3 - loss: 2\n", ""),
    ("a metric that is not a number", "keras.metrics.MeanSquaredError: nan\n", ""),
    ("a class of the program's own in a line of its own", "TrainingError: the loss rose\n", ""),
    ("a line with a colon", "epoch: 3\nloss: 0.3\n", ""),
    ("R", "Error in f(x) : object 'x' not found\nExecution halted\n", ""),
    ("nothing", "", ""),
]


@pytest.mark.parametrize(("text", "exception"), [row[1:] for row in TEXTS], ids=[row[0] for row in TEXTS])
def test_the_last_exception_that_a_text_shows(text: str, exception: str) -> None:
    assert last_exception(f"step 3\n{text}") == exception


AFTER: list[tuple[str, str, bool]] = [
    ("nothing", "", True),
    ("the agent's own line", "[trainyard] the program ended with exit code 1\n", True),
    ("a message of several lines", "  expected 3\n  found 4\n", True),
    ("what frameworks print as they end", "wandb: Run history:\nsys:1: ResourceWarning: unclosed\n", True),
    (
        "the stack of torch's C++",
        f"Exception raised from f (most recent call first):\n{'frame #1: f()' + NEW_LINE}" * 30,
        True,
    ),
    ("a step", "step 4\n", False),
]


@pytest.mark.parametrize(("after", "last"), [row[1:] for row in AFTER], ids=[row[0] for row in AFTER])
def test_an_exception_is_the_last_word_unless_the_program_goes_on(after: str, last: bool) -> None:
    found = last_shown(f"{FRAMES}ValueError: no\n{after}")
    assert found is not None
    assert found.is_last is last


LEFT_BY_ITSELF = Exit(7, 1, None)
REASONS: list[tuple[str, End, str, str]] = [
    # name, end, part of the reason, text that must be missing
    (
        "the last words, not an import error that was handled long before",
        End(code=1, tail=f"{HANDLED}{STEPS * 400}--split must be train or test\n"),
        "its last line: --split must be train or test",
        "apex",
    ),
    (
        "nor one that Python knows was handled, though only its steps follow",
        End(code=1, tail=f"{HANDLED}{STEPS * 5}--split must be train\n", exited=LEFT_BY_ITSELF),
        "its last line: --split must be train",
        "apex",
    ),
    (
        "in doubt both, without advice",
        End(code=1, tail=f"{HANDLED}--split must be train\n", exited=LEFT_BY_ITSELF),
        "its last line: --split must be train (before that, the program printed ModuleNotFoundError",
        "add apex",
    ),
    (
        "no advice on an exception behind which the program went on, where no process has noted its end",
        End(code=1, tail=f"{HANDLED}--split must be train\n"),
        "No module named 'apex'",
        "add apex",
    ),
    (
        "shared memory without room, however free the disk is",
        End(
            code=1,
            tail=f"{FRAMES}OSError: [Errno 28] No space left on device\n",
            room=Room(Path("/"), 95_000_000_000, 100_000_000_000),
            lacked=Room(Path("/dev/shm"), 0, 64_000_000),
        ),
        "this host's shared memory had no room (0 MB of 0.1 GB are free now at /dev/shm)",
        "the disk of this host is full",
    ),
    (
        "an exception that the program printed before it left with 1",
        End(code=1, tail=HANDLED, exited=LEFT_BY_ITSELF),
        "No module named 'apex'; add apex",
        "last line",
    ),
    (
        "what Python says ended it, whatever was printed at exit",
        End(code=1, tail=f"{FRAMES}ValueError: no\nbye\nsaved\n", exited=Exit(7, 1, "mine.Boom: no")),
        "exit code 1: mine.Boom: no",
        "bye",
    ),
    (
        "a syntax error as Python notes it",
        End(code=1, tail="", exited=Exit(7, 1, '  File "/x.py", line 3\n    f(:\n      ^\nSyntaxError: no')),
        "exit code 1: SyntaxError: no",
        "File",
    ),
    (
        "words of an advice that are not in the exception",
        End(code=1, tail=f"Address already in use\n{FRAMES}ValueError: no\n"),
        "ValueError: no",
        "another server",
    ),
    (
        "a child that the kernel killed",
        End(
            code=1,
            tail=f"{FRAMES}RuntimeError: DataLoader worker (pid 9) is killed by signal: Killed.\n",
            starved=True,
        ),
        "the kernel killed that process because the host had no memory left: use a larger type",
        "SIGKILL",
    ),
    (
        "a child that something else killed",
        End(code=1, tail=f"{FRAMES}RuntimeError: DataLoader worker (pid 9) is killed by signal: Killed.\n"),
        "is killed by signal: Killed.",
        "memory",
    ),
]


@pytest.mark.parametrize(
    ("end", "said", "unsaid"), [row[1:] for row in REASONS], ids=[row[0] for row in REASONS]
)
def test_the_reason_is_what_ended_the_program(end: End, said: str, unsaid: str) -> None:
    assert said in why(end)
    assert unsaid not in why(end)


PLACES: list[tuple[str, str, str | None]] = [
    ("a path", f"{FRAMES}OSError: [Errno 28] No space left on device: '/data/x'\n", "/data/x"),
    (
        "torch's shared memory",
        f"{FRAMES}RuntimeError: unable to write to file </torch_1_2>: No space left\n",
        "/dev/shm",
    ),
    (
        "a worker of a data loader",
        f"{FRAMES}RuntimeError: DataLoader worker (pid 1) is killed by signal: Bus error. It is possible that "
        "dataloader's workers are out of shared memory. Please try to raise your shared memory limit.\n",
        "/dev/shm",
    ),
    ("no path", f"{FRAMES}OSError: [Errno 28] No space left on device\n", ""),
    ("another error", f"{FRAMES}OSError: [Errno 5] Input/output error: '/data/x'\n", None),
]


@pytest.mark.parametrize(("text", "place"), [row[1:] for row in PLACES], ids=[row[0] for row in PLACES])
def test_where_no_room_was_left(text: str, place: str | None) -> None:
    assert full_path(last_shown(text)) == place


STARTUP = Path(environment.__file__).parent / "startup"


def run(lines: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    env = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(STARTUP),
        "TRAINYARD_PROGRESS": str(folder / "progress.jsonl"),
    }
    return subprocess.run(
        ["bash", "-c", lines], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


EXITS: list[tuple[str, str, str | None]] = [
    ("an exception", "raise ValueError('no')", "ValueError: no"),
    (
        "behind a hook of its own",
        "import sys\nsys.excepthook = lambda *a: None\nraise ValueError('no')",
        "ValueError: no",
    ),
    ("one that was handled", "try: import apex\nexcept ImportError: pass\nraise SystemExit('--split')", None),
    ("an exit", "import sys; sys.exit(3)", None),
    ("the end", "print(1)", None),
    (
        "a group",
        "raise ExceptionGroup('two', [ValueError('a'), ExceptionGroup('in', [TypeError('b')])])",
        "ExceptionGroup: two (2 sub-exceptions): ValueError: a; ExceptionGroup: in (1 sub-exception): TypeError: b",
    ),
    ("one with a note", "e = ValueError('no'); e.add_note('see'); raise e", "ValueError: no\nsee"),
]


@pytest.mark.parametrize(("code", "exception"), [row[1:] for row in EXITS], ids=[row[0] for row in EXITS])
def test_a_python_process_notes_how_it_ends(code: str, exception: str | None, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(code)
    run("python train.py; true", tmp_path)
    [noted] = exits.read(tmp_path / "exits.jsonl")
    assert noted.exception == exception


def test_of_a_shell_the_python_that_ended_last_tells_why() -> None:
    noted = [Exit(11, 10, "ValueError: a"), Exit(13, 12, "OSError: of a child"), Exit(12, 10, None)]
    assert exits.find_exit(noted, keeper=9, pid=10) == Exit(12, 10, None)
    assert exits.find_exit(noted, keeper=10, pid=None) == Exit(12, 10, None)
    assert exits.find_exit(noted, keeper=9, pid=99) is None


def test_of_a_launcher_the_process_that_failed_tells_why() -> None:
    launcher = Exit(10, 9, "subprocess.CalledProcessError: Command '['python', 'train.py']' returned 1")
    noted = [Exit(11, 10, "ValueError: a"), launcher]
    assert exits.find_exit(noted, keeper=9, pid=10) == noted[0]
    assert exits.find_exit([launcher], keeper=9, pid=10) == launcher


def test_a_line_that_no_process_of_ours_wrote_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "exits.jsonl"
    file.write_text('x\n[1]\n{"pid": "a"}\n{"pid": 1, "parent": 2, "exception": null}\n')
    assert exits.read(file) == (Exit(1, 2, None),)
    assert exits.read(tmp_path / "none") == ()


def test_a_long_output_without_an_exception_is_read_in_a_moment() -> None:
    began = time.monotonic()
    assert last_exception("loss: 0.1 at\n" * 20_000 + "  indented\n" * 20_000) == ""
    assert time.monotonic() - began < 5
