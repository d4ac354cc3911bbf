"""Output of functions, separated by invocation even if it is read late, and lifetime of their unpacked code."""

import io
import queue
import threading
import time
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from localcloud.services.lambdas import archives, functions
from localcloud.services.lambdas.worker import END_OF_LOG


def read_by(read: Callable[["queue.Queue[str]"], None]) -> tuple["queue.Queue[str]", threading.Thread]:
    lines: queue.Queue[str] = queue.Queue()
    reader = threading.Thread(target=lambda: read(lines), daemon=True)
    reader.start()
    return lines, reader


def slowly(*said: str, then: Iterable[str] = ()) -> Callable[["queue.Queue[str]"], None]:
    def read(lines: "queue.Queue[str]") -> None:
        for line in said:
            time.sleep(0.02)
            lines.put(line)
        for line in then:
            lines.put(line)

    return read


def test_every_line_is_waited_for_until_the_end_of_the_log() -> None:
    lines, reader = read_by(slowly("one", "two", END_OF_LOG, then=["the next invocation's"]))
    assert functions.read_output(lines, reader) == "one\ntwo"
    assert lines.get(timeout=1) == "the next invocation's"


def test_a_last_line_without_an_end_is_one_too() -> None:
    assert functions.read_output(*read_by(slowly("one", f"two{END_OF_LOG}"))) == "one\ntwo"


def test_a_process_that_has_gone_says_no_more() -> None:
    assert functions.read_output(*read_by(slowly("one", "two"))) == "one\ntwo"


def test_a_child_that_holds_the_log_open_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "LAST_LINES_SECONDS", 0.1)
    over = threading.Event()

    def read(lines: "queue.Queue[str]") -> None:
        lines.put("one")
        over.wait()

    assert functions.read_output(*read_by(read)) == "one"
    over.set()


class Process:
    """Replacement of ministack's object for a function's process."""


def archive(text: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as written:
        written.writestr("index.py", text)
    return packed.getvalue()


def test_replaced_code_goes_once_no_process_uses_it(tmp_path: Path) -> None:
    unpacked, process, old, new = archives.Unpacked(tmp_path), Process(), archive("1"), archive("2")
    (folder,) = unpacked.folders(process, [old])
    unpacked.keep_only([new])
    assert (folder / "index.py").read_text() == "1"
    del process
    unpacked.keep_only([new])
    assert list(tmp_path.iterdir()) == []


def test_code_that_a_function_has_stays_unpacked_without_a_process(tmp_path: Path) -> None:
    code, layer = archive("code"), archive("layer")
    folders = archives.Unpacked(tmp_path).folders(Process(), [code, layer, code])
    (tmp_path / "left by a server that was killed.new").mkdir()
    archives.Unpacked(tmp_path).keep_only([code, layer])
    assert sorted(tmp_path.iterdir()) == sorted(set(folders))
    assert folders[0] == folders[2]


def test_a_function_is_not_killed_when_the_thread_that_started_it_would_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Test PR_SET_PDEATHSIG, which the kernel sends when the starting thread ends, not when the server does."""
    monkeypatch.setattr(functions, "CLONE_NEWPID", 0)  # ordinary users cannot create a process namespace
    command = ["setpriv", "--pdeathsig", "KILL", "sleep", "60"]
    started = [functions.start_apart(command, {"PATH": "/usr/bin:/bin"}) for _ in range(30)]
    try:
        time.sleep(0.5)
        assert [process.poll() for process in started] == [None] * 30
    finally:
        for process in started:
            process.kill()
            process.communicate()
