"""What a function prints: all of an invocation's, however late it is read, and nothing of the next one's."""

import queue
import threading
import time
from collections.abc import Callable, Iterable

import pytest

from localcloud.services.lambdas import functions
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
    assert functions.printed(lines, reader) == "one\ntwo"
    assert lines.get(timeout=1) == "the next invocation's"


def test_a_last_line_without_an_end_is_one_too() -> None:
    assert functions.printed(*read_by(slowly("one", f"two{END_OF_LOG}"))) == "one\ntwo"


def test_a_process_that_has_gone_says_no_more() -> None:
    assert functions.printed(*read_by(slowly("one", "two"))) == "one\ntwo"


def test_a_child_that_holds_the_log_open_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "LAST_LINES_SECONDS", 0.1)
    over = threading.Event()

    def read(lines: "queue.Queue[str]") -> None:
        lines.put("one")
        over.wait()

    assert functions.printed(*read_by(read)) == "one"
    over.set()
