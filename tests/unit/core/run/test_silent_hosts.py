"""Hosts that are ordered to leave, or presumed lost, after the others left."""
# ruff: noqa: E501 - one line a row

from typing import Any

import pytest

from lambdas.core.run import deadlines, silent_hosts
from lambdas.core.run.silent_hosts import LetThemLeave, OrderToLeave, PresumeLost, Wait
from tests.support.records import AT, JOB, host, ledger
from tests.unit.core.builders import after
from trainyard.values import serialization

LEFT = {"stopped": 1, "why": "peer", "stopped_at": AT, "ready": 2}
TOKEN = {"sk": "token#0001#train", "token": "t", "stored": AT}
ASKED = {"ordered_to_leave": serialization.timestamp(after(20))}
SILENT = [
    # name, chief i-a, worker i-b, the attempt's row, seconds after the first left, next step
    ("everybody trains", {}, {}, {}, 60, Wait),
    ("one has left, the other may be about to", LEFT, {}, {}, 9, LetThemLeave),
    (
        "it should have by now",
        LEFT,
        {},
        {},
        11,
        OrderToLeave(("i-b",), "the other hosts have left, but no signal came from i-b"),
    ),
    (
        "the chief, too, is asked",
        {},
        LEFT,
        {},
        11,
        OrderToLeave(("i-a",), "the other hosts have left, but no signal came from i-a"),
    ),
    ("it was asked just now", LEFT, {}, ASKED, 31, LetThemLeave),
    ("it has had the time to take the order", LEFT, {}, ASKED, 33, PresumeLost(("i-b",))),
    ("it has had that time for long", LEFT, {}, ASKED, 919, PresumeLost(("i-b",))),
    (
        "even one that took it should be gone by now",
        LEFT,
        {},
        ASKED,
        920,
        PresumeLost(("i-b",), all_of_them=True),
    ),
    ("it has left meanwhile", LEFT, LEFT, ASKED, 51, Wait),
    ("it is known to be lost", LEFT, {"lost": "gone"}, ASKED, 51, Wait),
    ("it had finished and waits for the next attempt", LEFT, {"ready": 2}, {}, 60, Wait),
    (
        "what it left was an earlier attempt",
        LEFT,
        {"stopped": 0, "ready": 1},
        ASKED,
        51,
        PresumeLost(("i-b",)),
    ),
    ("the attempt has ended", LEFT, {}, ASKED | {"ending": "interrupted"}, 51, Wait),
]


def detect(
    chief: dict[str, Any], worker: dict[str, Any], row: dict[str, Any], seconds: float, *more: Any
) -> Any:
    attempt = {
        "sk": "attempt#0001",
        "candidate": {"pool": "p"},
        "hosts": ["i-a", "i-b"],
        "launched": AT,
    } | row
    records = ledger(attempt, TOKEN, *more, hosts={"i-a": host(**chief), "i-b": host(**worker)})
    return silent_hosts.detect(records, 1, after(seconds))


@pytest.mark.parametrize(
    ("chief", "worker", "row", "seconds", "answer"), [r[1:] for r in SILENT], ids=[r[0] for r in SILENT]
)
def test_what_is_done_about_the_silent(
    chief: dict[str, Any], worker: dict[str, Any], row: dict[str, Any], seconds: float, answer: Any
) -> None:
    found = detect(chief, worker, row, seconds)
    assert found == answer if not isinstance(answer, type) else isinstance(found, answer)


@pytest.mark.parametrize(
    ("at", "doubted"),
    [pytest.param(after(40), (), id="it reports"), pytest.param(after(10), ("i-a",), id="it did, before")],
)
def test_a_chief_that_still_carries_its_work_away_is_not_doubted(at: Any, doubted: tuple[str, ...]) -> None:
    run = {
        "sk": "run",
        "kind": "train",
        "state": "Train",
        "attempt": 1,
        "created": AT,
        "execution_arn": "arn",
    }
    run |= {"job": JOB, "progress": {"attempt": 1, "at": serialization.timestamp(at)}}
    assert detect({}, LEFT, ASKED, 51, run) == PresumeLost(doubted)


REASONS = [
    # name, hosts that are silent when Train has received no signal for 150 seconds, the reason
    ("a lone host", ("i-a",), "i-a has not sent a signal for 150 s: it hangs or is disconnected, although EC2 reports it as running"),
    ("a gang", ("i-a", "i-b"), "none of the hosts i-a, i-b has sent a signal for 150 s: they hang or are disconnected, although EC2 reports them as running"),
    ("all had left, and then no signal came", (), "all hosts have left the attempt, and none has sent a signal for 150 s since, although EC2 reports them as running"),
]  # fmt: skip


@pytest.mark.parametrize(("silent", "reason"), [r[1:] for r in REASONS], ids=[r[0] for r in REASONS])
def test_hosts_that_fell_silent_together_are_named(silent: tuple[str, ...], reason: str) -> None:
    assert silent_hosts.reason_of_all(silent, deadlines.HEARTBEAT) == reason


def test_a_host_that_took_the_order_and_stays_is_said_to_have_taken_it() -> None:
    assert "confirms orders" in silent_hosts.reason_of(("i-a",))
    assert "has not left within 15 minutes of the order" in silent_hosts.reason_of(("i-a",), took_orders=True)


AWAITS = {"sk": "token#0002#await_hosts", "token": "t", "stored": AT}
BEHIND = [
    # name, the remaining host i-b, other rows, hosts that may still be in the first attempt
    ("it has said nothing since it was started", {}, (AWAITS,), ("i-b",)),
    ("it has left", {"stopped": 1}, (AWAITS,), ()),
    ("it is ready for this one", {"ready": 2}, (AWAITS,), ()),
    ("it is gone", {"lost": "EC2 reports so"}, (AWAITS,), ()),
    ("it came with this attempt", {"attempt": 2}, (AWAITS,), ()),
    ("no host is awaited", {}, (), ()),
]


@pytest.mark.parametrize(
    ("survivor", "rows", "behind"), [row[1:] for row in BEHIND], ids=[row[0] for row in BEHIND]
)
def test_who_may_be_in_an_attempt_that_is_over(
    survivor: dict[str, Any], rows: tuple[dict[str, Any], ...], behind: tuple[str, ...]
) -> None:
    records = ledger(*rows, hosts={"i-a": host(2), "i-b": host(ready=1) | survivor}, attempt=2)
    assert silent_hosts.find_stragglers(records, 2) == behind
