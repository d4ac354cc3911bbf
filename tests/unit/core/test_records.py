"""What the ledger's rows say about a run: who survives, who is missing, whether the gang has left."""

from typing import Any

import pytest

from lambdas.core import pace, records
from lambdas.core.catalogue import Market
from lambdas.core.job import Hosts
from lambdas.core.records import Records
from lambdas.core.release import Act, dispose
from lambdas.core.summary import Ending
from tests.unit.core.facts import NOON, after

AT = "2026-11-20T12:00:00.000Z"
JOB = {"name": "digits", "program": {"module": "m"}, "limits": {"hours": 2, "dollars": 3}}


def host(attempt: int = 1, **more: Any) -> dict[str, Any]:
    known = {
        "attempt": attempt,
        "type": "g6.xlarge",
        "zone": "a",
        "market": "spot",
        "price": 1.0,
        "launched": AT,
    }
    return known | more


def ledger(
    *rows: dict[str, Any], hosts: dict[str, dict[str, Any]] | None = None, attempt: int = 1
) -> Records:
    """A run with these hosts, all members of the gang of its attempt."""
    hosts = hosts or {}
    run = {
        "sk": "run",
        "kind": "train",
        "state": "Train",
        "attempt": attempt,
        "created": AT,
        "execution_arn": "arn",
        "job": JOB,
    }
    gang = {"sk": f"attempt#{attempt:04d}", "offer": {"pool": "p"}, "hosts": sorted(hosts), "launched": AT}
    found = records.read(
        "digits-1", [run, gang, *({"sk": f"host#{name}"} | row for name, row in hosts.items()), *rows]
    )
    assert found is not None
    return found


def test_a_run_that_nobody_wrote_down_is_unknown() -> None:
    assert records.read("digits-1", []) is None


def test_a_run_of_which_only_a_late_word_is_left_is_unknown_too() -> None:
    assert records.read("digits-1", [{"sk": "run", "progress": {"step": 5}}]) is None


STOPPED = [
    # sentence, a (the chief), b, whether the gang has left
    ("nobody has left", {}, {}, False),
    ("a worker left, the others go on", {}, {"stopped": 1, "why": "peer"}, False),
    ("the chief left as asked: its checkpoint is made", {"stopped": 1, "why": "asked"}, {}, True),
    ("the chief left because EC2 takes it", {"stopped": 1, "why": "interrupted"}, {}, True),
    (
        "the chief left because a peer vanished, which may be the silent one",
        {"stopped": 1, "why": "peer"},
        {},
        False,
    ),
    ("the chief left, and the vanished peer is known", {"stopped": 1, "why": "peer"}, {"lost": "gone"}, True),
    ("all have left", {"stopped": 1, "why": "peer"}, {"stopped": 1, "why": "interrupted"}, True),
    ("a worker left and the chief is lost", {"lost": "gone"}, {"stopped": 1, "why": "peer"}, True),
    ("what they left was an earlier attempt", {"stopped": 0}, {"stopped": 0}, False),
]


@pytest.mark.parametrize(("a", "b", "left"), [row[1:] for row in STOPPED], ids=[row[0] for row in STOPPED])
def test_when_a_gang_has_left(a: dict[str, Any], b: dict[str, Any], left: bool) -> None:
    assert records.gang_has_stopped(ledger(hosts={"i-a": host(**a), "i-b": host(**b)}), 1) is left


def test_an_interruption_names_the_hosts_that_go() -> None:
    hosts = {
        "i-a": host(stopped=1, why="asked"),
        "i-b": host(stopped=1, why="interrupted"),
        "i-c": host(stopped=1, why="peer", warned=AT),
    }
    trouble = records.interruption(ledger(hosts=hosts), 1, 40)
    assert (trouble.error, trouble.lost, trouble.step) == ("Interrupted", ("i-b", "i-c"), 40)


LIVES = [
    ("a host that runs", {}, True),
    ("one that is lost", {"lost": "gone"}, False),
    ("one that Release is about to end", {"releasing": AT}, False),
    ("one that ended", {"ended": AT}, False),
    ("not one that EC2 takes back in two minutes", {"warned": AT}, False),
    ("nor one that said so itself", {"stopped": 1, "why": "interrupted"}, False),
    ("one that left because it was asked", {"stopped": 1, "why": "asked"}, True),
]


@pytest.mark.parametrize(("facts", "lives"), [row[1:] for row in LIVES], ids=[row[0] for row in LIVES])
def test_who_the_next_attempt_goes_on_with(facts: dict[str, Any], lives: bool) -> None:
    found = ledger(hosts={"i-a": host(**facts), "i-new": host(attempt=2)})
    assert [survivor.instance for survivor in found.survivors(2)] == (["i-a"] if lives else [])


READY = [
    # sentence, the attempt the host said ready for (0: never), the attempts that came as far as Train, ready for 2
    ("it said so", 2, [1], True),
    ("it said so already for a later one", 3, [1], True),
    ("it never said so", 0, [], False),
    ("it was started since", 1, [1], False),
    ("the attempt it was ready for ended in Muster", 1, [], True),
]


@pytest.mark.parametrize(("said", "trained", "ready"), [r[1:] for r in READY], ids=[r[0] for r in READY])
def test_who_waits_for_the_start_of_the_second_attempt(said: int, trained: list[int], ready: bool) -> None:
    tokens = [{"sk": f"token#{n:04d}#train", "token": "t", "stored": AT} for n in trained]
    found = ledger(*tokens, hosts={"i-a": host(ready=said)}, attempt=2)
    assert found.ready(2) == ({"i-a"} if ready else set())


GOING = [
    ("a host that stays", {}, None),
    ("one that left because it was asked", {"stopped": 1, "why": "asked"}, None),
    ("one that is lost", {"lost": "gone", "warned": AT}, "gone"),
    ("one that EC2 warned of", {"warned": AT}, "EC2 takes it back"),
    ("one that heard it itself", {"stopped": 1, "why": "interrupted"}, "EC2 takes it back"),
]


@pytest.mark.parametrize(("facts", "why"), [row[1:] for row in GOING], ids=[row[0] for row in GOING])
def test_why_nobody_can_count_on_a_host(facts: dict[str, Any], why: str | None) -> None:
    assert ledger(hosts={"i-a": host(**facts)}).hosts["i-a"].going == why


def test_a_lost_answer_is_found_by_its_intent() -> None:
    asked = {"sk": "intent#0001#002#000", "token": "t", "at": AT}
    open_ask = ledger(asked).unanswered(1)
    assert open_ask is not None
    assert (open_ask.offer, open_ask.round) == (2, 0)
    assert ledger(asked | {"answer": "launched"}).unanswered(1) is None
    assert ledger(asked).unanswered(2) is None


def test_refusals_are_told_as_they_happened() -> None:
    rows = [
        {
            "sk": f"intent#0001#{offer:03d}#{round_:03d}",
            "token": "t",
            "at": AT,
            "answer": "refused",
            "refusal": "quota",
            "answered": AT,
        }
        for round_, offer in ((1, 0), (0, 1), (0, 0))
    ]
    assert [refusal.round for refusal in ledger(*rows).refusals(1)] == [0, 0, 1]


def test_a_token_that_was_answered_waits_no_more() -> None:
    muster = {"sk": "token#0001#muster", "token": "m", "stored": AT, "answered": AT}
    train = {"sk": "token#0001#train", "token": "t", "stored": AT}
    found = ledger(muster, train).waiting(1)
    assert found is not None
    assert found.token == "t"
    assert ledger(muster).waiting(1) is None


def test_an_attempt_tells_its_trouble_again() -> None:
    ended = {
        "sk": "attempt#0001",
        "offer": {},
        "hosts": [],
        "launched": AT,
        "ending": "lost",
        "error": "HostLost",
        "cause": '{"lost": ["i-a"]}',
    }
    row = ledger(ended).attempts[1]
    assert row.ending is Ending.LOST
    assert row.trouble is not None
    assert row.trouble.lost == ("i-a",)


def test_dollars_shorten_what_the_hours_allow() -> None:
    hosts = {"i-a": host(), "i-b": host()}
    two_for_three_dollars = pace.deadline(ledger(hosts=hosts), 1, NOON)
    assert abs((two_for_three_dollars - after(3600 * (3 - 2 / 60) / 2)).total_seconds()) < 1
    assert pace.deadline(ledger(hosts={"i-a": host(price=0.1)}), 1, NOON) == after(2 * 3600)


def test_a_run_may_spend_what_its_job_says() -> None:
    assert pace.out_of_money(ledger(hosts={"i-a": host()}), after(3600)) is None
    said = pace.out_of_money(ledger(hosts={"i-a": host(price=3.5)}), after(3600))
    assert said is not None
    assert "$3.50" in said
    assert "limits.dollars" in said


def test_the_heartbeat_is_shorter_than_the_wait() -> None:
    spent = pace.pace(ledger(hosts={"i-a": host()}), 1, after(3 * 3600))
    assert spent.heartbeat_seconds < spent.train_seconds == 61


DISPOSALS = [
    # sentence, market, after, kept, the run is over, act
    ("a run that is over ends its hosts", Market.SPOT, Hosts.TERMINATE, False, True, Act.TERMINATE),
    (
        "an on-demand host stops when the job keeps its hosts",
        Market.ON_DEMAND,
        Hosts.STOP,
        False,
        True,
        Act.STOP,
    ),
    ("a fleet's spot host cannot stop", Market.SPOT, Hosts.STOP, False, True, Act.TERMINATE),
    ("the end of the run keeps nobody", Market.SPOT, Hosts.TERMINATE, True, True, Act.TERMINATE),
    ("between attempts a survivor stays", Market.SPOT, Hosts.TERMINATE, True, False, Act.KEEP),
    ("between attempts nobody is stopped", Market.ON_DEMAND, Hosts.STOP, False, False, Act.TERMINATE),
]


@pytest.mark.parametrize(
    ("market", "hosts", "kept", "over", "act"), [r[1:] for r in DISPOSALS], ids=[r[0] for r in DISPOSALS]
)
def test_what_becomes_of_a_host(market: Market, hosts: Hosts, kept: bool, over: bool, act: Act) -> None:
    keep = {"i-a"} if kept else set()
    (found,) = dispose([("i-a", market)], after=hosts, keep=keep, run_is_over=over)
    assert found.act is act
    assert found.reason


USED_UP = [
    # sentence, hours after it began, what the limits say in figures
    ("the time is over", 2, "limits.hours is 2"),
    ("neither is over", 0.5, None),
    ("the money is over before the time", 1.6, "limits.dollars is 3"),
]


@pytest.mark.parametrize(("hours", "said"), [row[1:] for row in USED_UP], ids=[row[0] for row in USED_UP])
def test_which_limits_are_used_up_is_said_in_figures(hours: float, said: str | None) -> None:
    found = pace.used_up(ledger(hosts={"i-a": host(), "i-b": host()}), 1, after(hours * 3600))
    assert found is None if said is None else said in (found or "")
