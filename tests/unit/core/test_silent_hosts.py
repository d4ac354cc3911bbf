"""Who is asked to leave, and who is believed to be lost, when the others have left."""

from typing import Any

import pytest

from lambdas.core.run import silent_hosts
from lambdas.core.run.silent_hosts import AskToLeave, PresumeLost, Wait
from lambdas.core.values import wire
from tests.unit.core.facts import after
from tests.unit.core.test_records import AT, JOB, host, ledger

LEFT = {"stopped": 1, "why": "peer", "stopped_at": AT, "ready": 2}
TOKEN = {"sk": "token#0001#train", "token": "t", "stored": AT}
ASKED = {"asked": wire.stamp(after(20)), "asked_by": ["c-1"]}
SILENT = [
    # sentence, chief i-a, worker i-b, the attempt's row, seconds after the first left, what to do
    ("everybody trains", {}, {}, {}, 60, Wait),
    ("one has left, the other may be about to", LEFT, {}, {}, 14, Wait),
    (
        "it should have by now",
        LEFT,
        {},
        {},
        16,
        AskToLeave(("i-b",), "the others have left and i-b has said nothing"),
    ),
    (
        "the chief, too, is asked",
        {},
        LEFT,
        {},
        16,
        AskToLeave(("i-a",), "the others have left and i-a has said nothing"),
    ),
    ("it was asked just now", LEFT, {}, ASKED, 49, Wait),
    ("it has had the time to take the order", LEFT, {}, ASKED, 51, PresumeLost(("i-b",), ("c-1",))),
    ("it has left meanwhile", LEFT, LEFT, ASKED, 51, Wait),
    ("it is known to be lost", LEFT, {"lost": "gone"}, ASKED, 51, Wait),
    ("it had finished and waits for the next attempt", LEFT, {"ready": 2}, {}, 60, Wait),
    (
        "what it left was an earlier attempt",
        LEFT,
        {"stopped": 0, "ready": 1},
        ASKED,
        51,
        PresumeLost(("i-b",), ("c-1",)),
    ),
    ("the attempt has ended", LEFT, {}, ASKED | {"ending": "interrupted"}, 51, Wait),
]


def detect(
    chief: dict[str, Any], worker: dict[str, Any], row: dict[str, Any], seconds: float, *more: Any
) -> Any:
    attempt = {"sk": "attempt#0001", "offer": {"pool": "p"}, "hosts": ["i-a", "i-b"], "launched": AT} | row
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
    run |= {"job": JOB, "progress": {"attempt": 1, "at": wire.stamp(at)}}
    assert detect({}, LEFT, ASKED, 51, run) == PresumeLost(doubted, ("c-1",))
