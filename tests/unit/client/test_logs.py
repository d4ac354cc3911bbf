"""Log lines of all hosts in the order of time, while chunks arrive and grow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.client.facts import NOON
from trainyard.client import Execution, Run
from trainyard.client.errors import NothingFound
from trainyard.client.runs import logs
from trainyard.client.runs.logs import LogLine, RunLogs


def line(second: int, host: str, text: str) -> str:
    return f"2026-11-21T12:00:{second:02}.000Z {host} i-{host} | {text}\n"


class Objects:
    """A bucket of texts that counts listings and fetched bytes."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts, self.lists, self.bytes = texts, 0, 0

    def etags(self, prefix: str, after: str = "") -> dict[str, str]:
        self.lists += 1
        found = sorted(key for key in self.texts if key.startswith(prefix) and key > after)
        return {key: str(hash(self.texts[key])) for key in found}

    def keys(self, prefix: str) -> dict[str, int]:
        return {key: len(text) for key, text in self.texts.items() if key.startswith(prefix)}

    def folders(self, prefix: str) -> list[str]:
        self.lists += 1
        inside = (key.removeprefix(prefix) for key in sorted(self.texts) if key.startswith(prefix))
        return list(dict.fromkeys(name.partition("/")[0] for name in inside if "/" in name))

    def read_from(self, key: str, start: int = 0) -> bytes:
        text = self.texts[key].encode()[start:]
        self.bytes += len(text)
        return text


def key(number: int, host: str = "chief-0", attempt: int = 1) -> str:
    return f"runs/r/attempts/{attempt}/logs/{host}/{number:08d}.log"


def run_logs(made: Objects, *hosts: str, first: int = 1, later: bool = False) -> RunLogs:
    return RunLogs(made, "r", first, hosts, later)  # type: ignore[arg-type]


def said(lines: Iterator[LogLine]) -> list[str]:
    return [str(each) for each in lines]


TWO_HOSTS = {
    key(1): line(1, "chief-0", "a") + line(3, "chief-0", "c"),
    key(2): line(4, "chief-0", "d"),
    key(1, "worker-1"): line(2, "worker-1", "b"),
    key(1, attempt=2): line(9, "chief-0", "later"),
    "runs/r/attempts/1/cluster.json": "{}",
}


@pytest.mark.parametrize(
    ("sentence", "hosts", "first", "tail", "expected"),
    [
        ("all hosts, in the order of time", (), 1, None, ["chief-0 | a", "worker-1 | b", "chief-0 | c", "chief-0 | d"]),
        ("one by its name", ("worker-1",), 1, None, ["worker-1 | b"]),
        ("all of a role", ("chief",), 1, None, ["chief-0 | a", "chief-0 | c", "chief-0 | d"]),
        ("another attempt", (), 2, None, ["chief-0 | later"]),
        ("the last lines of all together", (), 1, 2, ["chief-0 | c", "chief-0 | d"]),
        ("more than there are", (), 1, 9, ["chief-0 | a", "worker-1 | b", "chief-0 | c", "chief-0 | d"]),
        ("none of them", (), 1, 0, []),
        ("an attempt without any", (), 7, None, []),
        ("its end", (), 7, 3, []),
    ],
)  # fmt: skip
def test_what_is_read(
    sentence: str, hosts: tuple[str, ...], first: int, tail: int | None, expected: list[str]
) -> None:
    assert said(run_logs(Objects(TWO_HOSTS), *hosts, first=first).read(tail)) == expected, sentence


def test_the_end_of_a_long_log_is_read_without_the_rest_of_it() -> None:
    made = Objects({key(number): line(number, "chief-0", "x" * 1000) * 10 for number in range(1, 60)})
    assert len(said(run_logs(made).read(15))) == 15
    assert made.bytes < 25_000


def test_the_log_of_a_bake_is_the_builders() -> None:
    made = Objects({"runs/r/logs/builder/00000001.log": line(1, "builder", "install")})
    assert said(run_logs(made, "builder").read()) == ["builder | install"]


@pytest.mark.parametrize("text", ["no stamp at all", "yesterday chief-0 i-1 | x", ""])
def test_a_line_without_a_stamp_is_left_out(text: str) -> None:
    made = Objects({key(1): f"{text}\n{line(1, 'chief-0', 'a')}"})
    assert said(run_logs(made).read()) == ["chief-0 | a"]


def test_the_line_under_way_is_told_at_the_end() -> None:
    made = Objects({key(1): line(1, "chief-0", "a") + line(2, "chief-0", "10 %")[:-1]})
    assert said(run_logs(made).read()) == ["chief-0 | a", "chief-0 | 10 %"]


class Looked:
    """A run that makes one change before each check of its end, and ends with the last change."""

    def __init__(self, made: Objects, *changes: dict[str, str]) -> None:
        self.made, self.changes = made, list(changes)

    def is_over(self) -> bool:
        self.made.texts |= self.changes.pop(0) if self.changes else {}
        return not self.changes


def test_following_tells_each_line_once_and_ends_when_the_run_is_over_and_all_is_read() -> None:
    first, second = line(1, "chief-0", "a"), line(2, "chief-0", "100 %")
    made = Objects({key(1): first})
    run = Looked(
        made,
        {key(1): first + line(2, "chief-0", "10 %")[:-1]},
        {key(1): first + second},
        {key(2): line(3, "chief-0", "b")},
        {key(2): line(3, "chief-0", "b") + line(4, "chief-0", "the end")[:-1]},
    )
    assert said(run_logs(made).follow(run.is_over, every=0)) == [
        "chief-0 | a", "chief-0 | 100 %", "chief-0 | b", "chief-0 | the end"
    ]  # fmt: skip


def test_following_a_run_goes_on_with_its_next_attempts() -> None:
    made = Objects({key(1): line(1, "chief-0", "a")})
    run = Looked(
        made,
        {},
        {key(1, attempt=2): line(3, "chief-0", "c"), key(1, "worker-1"): line(2, "worker-1", "b")},
        {key(1, attempt=10): line(4, "chief-0", "d")},
    )
    assert said(run_logs(made, later=True).follow(run.is_over, every=0)) == [
        "chief-0 | a", "worker-1 | b", "chief-0 | c", "chief-0 | d"
    ]  # fmt: skip


def test_following_from_the_end_goes_on_there() -> None:
    made = Objects({key(1): line(1, "chief-0", "a"), key(2): line(2, "chief-0", "b")})
    run = Looked(made, {}, {key(3): line(3, "chief-0", "c")}, {})
    assert said(run_logs(made).follow(run.is_over, every=0, tail=1)) == ["chief-0 | b", "chief-0 | c"]


@pytest.mark.parametrize("many", [False, True])
def test_a_look_at_nothing_new_fetches_nothing(many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """If one call cannot list all chunks, each log is listed from its last chunk."""
    if many:
        monkeypatch.setattr(logs, "LISTED_AT_ONCE", 3)
    made = Objects(dict(TWO_HOSTS))
    followed = run_logs(made)
    told = [str(each) for each in followed.new()]
    made.bytes = made.lists = 0
    assert list(followed.new()) == []
    assert (made.bytes, made.lists) == (0, 3 if many else 1)
    made.texts[key(2)] += line(5, "chief-0", "e")
    made.texts[key(1, "worker-2")] = line(6, "worker-2", "f")
    told += [str(each) for each in followed.new()]
    assert told[-2:] == ["chief-0 | e", "worker-2 | f"]
    assert made.bytes == len(line(5, "chief-0", "e") + line(6, "worker-2", "f"))


# --- missing logs
class Yard:
    def __init__(self, texts: dict[str, str]) -> None:
        self.bucket = Objects(
            {key.replace("runs/r/", "runs/digits-1/", 1): text for key, text in texts.items()}
        )


@pytest.fixture
def run_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    def made(texts: dict[str, str], *, attempt: int = 1, is_over: bool = True) -> Run:
        monkeypatch.setattr(Run, "attempt", attempt)
        monkeypatch.setattr(Run, "execution", SimpleNamespace(is_over=is_over))
        return Run(Yard(texts), "arn:digits-1")  # type: ignore[arg-type]

    return made


TWO = {
    key(1, "chief-0"): line(1, "chief-0", "a"),
    key(1, "worker-0"): line(2, "worker-0", "b"),
    "runs/r/attempts/2/cluster.json": "{}",
}


@pytest.mark.parametrize(
    ("asked", "what", "means"),
    [
        ({"role": "wroker"}, "wroker is not a role", "roles are chief, worker, ps, evaluator"),
        ({"role": "wroker", "follow": True}, "wroker is not a role", "roles are chief"),
        ({"role": "worker:7"}, "attempt 1 has no log of worker:7", "there are chief-0, worker-0"),
        ({"role": "ps", "tail": 3}, "attempt 1 has no log of ps", "there are chief-0"),
        ({"attempt": 4}, "attempt 4 does not exist", "attempts with a log: 1"),
        ({"attempt": 2}, "attempt 2 sent no log", "attempts with a log: 1"),
    ],
)
def test_a_filter_that_matches_no_log_says_which_there_are(
    run_of: Callable[..., Run], asked: dict[str, Any], what: str, means: str
) -> None:
    with pytest.raises(NothingFound) as none:
        list(run_of(TWO, attempt=2).logs(**asked))
    assert what in none.value.what
    assert means in none.value.means


@pytest.mark.parametrize("asked", [{}, {"tail": 5}, {"follow": True}])
def test_a_run_that_sent_no_log_says_so(run_of: Callable[..., Run], asked: dict[str, Any]) -> None:
    with pytest.raises(NothingFound, match="no log was sent"):
        list(run_of({}).logs(**asked))


@pytest.mark.parametrize("asked", [{}, {"tail": 5}, {"follow": True}])
def test_if_the_last_attempt_sent_no_log_the_newest_that_did_is_shown(
    run_of: Callable[..., Run], asked: dict[str, Any]
) -> None:
    run = run_of(TWO, attempt=2)
    assert said(run.logs(**asked)) == ["chief-0 | a", "worker-0 | b"]
    assert run.logged_attempts == [1]


@pytest.mark.parametrize(
    ("text", "asked", "expected"),
    [
        ("err", {}, ["chief-0 | an ERROR", "worker-0 | no error", "chief-0 | Errors"]),
        ("error", {"role": "worker"}, ["worker-0 | no error"]),
        ("error", {"attempt": 2}, ["chief-0 | Errors"]),
    ],
)
def test_lines_with_a_text_are_found_on_all_hosts_and_in_all_attempts(
    run_of: Callable[..., Run], text: str, asked: dict[str, Any], expected: list[str]
) -> None:
    run = run_of(
        {
            key(1): line(1, "chief-0", "an ERROR") + line(3, "chief-0", "c"),
            key(1, "worker-0"): line(2, "worker-0", "no error"),
            key(1, attempt=2): line(4, "chief-0", "Errors"),
        }
    )
    assert said(run.find_lines(text, **asked)) == expected


def test_a_text_that_no_line_has_and_a_filter_that_matches_no_log_are_named(
    run_of: Callable[..., Run],
) -> None:
    with pytest.raises(NothingFound, match="no line of digits-1 contains 'xyz'"):
        list(run_of(TWO).find_lines("xyz"))
    with pytest.raises(NothingFound, match="attempt 4 does not exist"):
        list(run_of(TWO).find_lines("a", attempt=4))


@pytest.mark.parametrize("asked", [{}, {"tail": 1}, {"follow": True}, {"role": "builder"}])
def test_a_bake_needs_no_role_to_show_its_log(run_of: Callable[..., Run], asked: dict[str, Any]) -> None:
    bake = run_of({"runs/r/logs/builder/00000001.log": line(1, "builder", "made")})
    assert said(bake.logs(**asked)) == ["builder | made"]


def test_a_watched_run_has_the_chiefs_lines_of_all_attempts_and_the_line_under_way(
    run_of: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(TWO | {key(1, attempt=2): line(3, "chief-0", "c") + line(4, "chief-0", "d")[:-1]})
    statuses = iter([False, True])
    monkeypatch.setattr(
        Run, "status", lambda _: SimpleNamespace(execution=SimpleNamespace(is_over=next(statuses)))
    )
    looks = [[str(each) for each in lines] for _, lines in run.watch(every=0)]
    assert looks == [["chief-0 | a", "chief-0 | c"], ["chief-0 | d"]]


@pytest.mark.parametrize(
    ("log", "advice"),
    [
        (line(1, "chief-0", "hello") + line(2, "chief-0", "boom"), ()),
        (line(1, "chief-0", "what came before") + line(2, "chief-0", "boom"), ("trainyard logs digits-1",)),
        (line(1, "chief-0", "hello") * 2000, ("trainyard logs digits-1",)),
    ],
)
def test_a_log_is_advised_if_the_reason_does_not_have_all_of_it(
    run_of: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, log: str, advice: tuple[str, ...]
) -> None:
    run = run_of({key(1): log})
    ended = Execution("arn:digits-1", "FAILED", NOON, NOON, "ProgramFailed", "")
    summary = {
        "outcome": "failed",
        "reason": "exit code 1\nThe last lines:\nhello\nboom",
        "where": {"last_log": "x"},
    }
    monkeypatch.setattr(Run, "execution", ended)
    monkeypatch.setattr(Run, "summary", summary)
    monkeypatch.setattr(Run, "json", lambda *_: {})
    monkeypatch.setattr(Yard, "row", lambda *_: {}, raising=False)
    assert run.reason().advice == advice
