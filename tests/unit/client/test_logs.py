"""Lines of all hosts in the order of time, as their objects grow."""

from collections.abc import Callable, Iterator

import pytest

from trainyard.client import logs
from trainyard.client.logs import LogLine, Tail


def line(second: int, host: str, text: str) -> str:
    return f"2026-11-21T12:00:{second:02}.000Z {host} i-{host} | {text}\n"


class Objects:
    """A bucket that holds texts."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts

    def keys(self, prefix: str) -> dict[str, int]:
        return {key: len(text.encode()) for key, text in self.texts.items() if key.startswith(prefix)}

    def read_from(self, key: str, start: int) -> bytes:
        return self.texts[key].encode()[start:]


CHIEF, WORKER = "r/attempts/1/logs/chief-0.log", "r/attempts/1/logs/worker-1.log"


def said(lines: Iterator[LogLine]) -> list[str]:
    return [str(each) for each in lines]


def everything(attempt: int, host: str) -> bool:
    return True


def test_lines_of_all_hosts_are_in_the_order_of_time() -> None:
    made = Objects(
        {CHIEF: line(1, "chief-0", "a") + line(3, "chief-0", "c"), WORKER: line(2, "worker-1", "b")}
    )
    assert said(logs.read(made, "r/", everything)) == ["chief-0 | a", "worker-1 | b", "chief-0 | c"]  # type: ignore[arg-type]


def test_other_files_beside_them_are_no_logs() -> None:
    made = Objects({CHIEF: line(1, "chief-0", "a"), "r/attempts/1/cluster.json": "{}", "r/job.json": "{}"})
    assert said(logs.read(made, "r/", everything)) == ["chief-0 | a"]  # type: ignore[arg-type]


def test_hosts_and_attempts_are_chosen() -> None:
    made = Objects({CHIEF: line(1, "chief-0", "a"), "r/attempts/2/logs/chief-0.log": line(2, "chief-0", "b")})
    assert said(logs.read(made, "r/", lambda attempt, _: attempt == 2)) == ["chief-0 | b"]  # type: ignore[arg-type]


def test_a_line_that_is_under_way_is_told_once_it_is_whole() -> None:
    made = Objects({CHIEF: line(1, "chief-0", "a") + line(2, "chief-0", "10 %")[:-1]})
    tail = Tail(made, CHIEF, 1)  # type: ignore[arg-type]
    size: Callable[[], int] = lambda: made.keys("r/")[CHIEF]  # noqa: E731
    assert said(iter(tail.more(size(), whole=False))) == ["chief-0 | a"]
    made.texts[CHIEF] = line(1, "chief-0", "a") + line(2, "chief-0", "100 %")
    assert said(iter(tail.more(size(), whole=False))) == ["chief-0 | 100 %"]
    assert tail.more(size(), whole=True) == []


def test_the_last_line_of_a_run_that_is_over_need_not_end() -> None:
    made = Objects({CHIEF: line(1, "chief-0", "a")[:-1]})
    assert said(logs.read(made, "r/", everything)) == ["chief-0 | a"]  # type: ignore[arg-type]


def test_following_ends_with_the_run_and_tells_each_line_once() -> None:
    made, looks = Objects({CHIEF: line(1, "chief-0", "a")}), iter([False, False, True])

    def is_over() -> bool:
        over = next(looks)
        made.texts[CHIEF] += line(2 if not over else 3, "chief-0", "over" if over else "on")
        return over

    found = said(logs.follow(made, "r/", everything, is_over, every=0))  # type: ignore[arg-type]
    assert found == ["chief-0 | a", "chief-0 | on", "chief-0 | on", "chief-0 | over"]


def test_of_a_log_that_has_lost_its_middle_what_is_new_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "WHOLE", 200)
    made = Objects({CHIEF: "".join(line(each, "chief-0", "x") for each in range(3))})
    tail = Tail(made, CHIEF, 1)  # type: ignore[arg-type]
    assert len(tail.more(made.keys("r/")[CHIEF], whole=False)) == 3
    made.texts[CHIEF] = "".join(line(each, "chief-0", "y") for each in (0, 1, 2, 58, 59))
    assert [each.at.second for each in tail.more(made.keys("r/")[CHIEF], whole=False)] == [58, 59]


@pytest.mark.parametrize("text", ["no stamp at all", "yesterday chief-0 i-1 | x", ""])
def test_a_line_without_a_stamp_is_left_out(text: str) -> None:
    made = Objects({CHIEF: f"{text}\n{line(1, 'chief-0', 'a')}"})
    assert said(logs.read(made, "r/", everything)) == ["chief-0 | a"]  # type: ignore[arg-type]
