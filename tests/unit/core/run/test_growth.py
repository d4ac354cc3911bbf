"""More hosts for an attempt with fewer workers than its job allows: requests, joining, and giving up."""

from dataclasses import replace
from typing import Any

import pytest

from lambdas.core.capacity.plan import parts
from lambdas.core.run import growth
from lambdas.core.run.conclusion.summary import sizes
from lambdas.core.run.draining import interruption
from lambdas.core.run.growth import GiveUp, Join, RequestHosts, Wait
from lambdas.core.run.records import Records
from tests.support.records import AT, JOB, host, ledger
from tests.unit.core.builders import NOON, after, candidate, job
from trainyard.protocol.cluster import Gang
from trainyard.protocol.plan import Market, Plan
from trainyard.values import serialization

ELASTIC = {**JOB, "cluster": {"strategy": "multi_worker", "workers": {"min": 2, "max": 4}}}
ELASTIC["limits"] = {"hours": 2, "dollars": 50}
POOL = candidate("g6.xlarge", "a", Market.SPOT)
DUE = {"grows": AT}
LATER = {"grows": serialization.timestamp(after(60))}
READY = host(ready=2, ready_at=AT)
BOOTS = host()
SOON = {"attempt": 1, "step": 90, "steps": 100, "steps_per_second": 1.0, "at": AT}


def trains(
    *newcomers: dict[str, Any],
    gang: int = 2,
    run: dict[str, Any] | None = None,
    attempt: dict[str, Any] | None = None,
    rows: tuple[dict[str, Any], ...] = (),
    plan: Plan | None = None,
) -> Records:
    """Return a run of two to four workers that trains with `gang` hosts, and joining hosts i-x0, i-x1 and so on."""
    members = {f"i-{n}": host(ready=1) for n in range(gang)}
    joining = [{"sk": f"host#i-x{n}", **row} for n, row in enumerate(newcomers)]
    row = {
        "sk": "run",
        "kind": "train",
        "state": "Train",
        "attempt": 1,
        "created": AT,
        "execution_arn": "arn",
    }
    made = plan or Plan((POOL,), (), "ami-1", 4, None, NOON, "", least_gang=2)
    begun = {"sk": "attempt#0001", "candidate": {"pool": POOL.pool}, "hosts": sorted(members), "launched": AT}
    return ledger(
        {**row, "job": ELASTIC, **DUE, **(run or {})},
        {**begun, "started": AT, **(attempt or {})},
        {"sk": "plan", **serialization.to_json(made)},
        *joining,
        *rows,
        hosts=members,
        job=ELASTIC,
    )


WHAT = [
    # name, records, next step
    ("it asks for all that it lacks", trains(), RequestHosts(2)),
    ("one that has most of them asks for the rest", trains(gang=3), RequestHosts(1)),
    (
        "not sooner than ten minutes after the last time",
        trains(run=LATER),
        Wait("the next request for more hosts is not due yet"),
    ),
    ("not one that has all", trains(gang=4), Wait("it has all workers that its capacity pool may hold")),
    ("not before it trains", trains(attempt={"started": None}), Wait("none of its attempts can grow now")),
    ("not once it is over", trains(attempt={"ending": "lost"}), Wait("none of its attempts can grow now")),
    ("not when a user stops it", trains(run={"stopping": AT}), Wait("the gang is about to leave")),
    ("not at its cap", trains(attempt={"capped": AT}), Wait("the gang is about to leave")),
    ("not for a few minutes", trains(run={"progress": SOON}), Wait("the run ends too soon for more hosts")),
    (
        "not while one of its hosts goes",
        trains(rows=({"sk": "host#i-0", **host(ready=1, warned=AT)},)),
        Wait("a host of the gang is leaving: the next attempt comes first"),
    ),
    ("hosts that boot are waited for", trains(READY, BOOTS), Wait("i-x0, i-x1 will join")),
    (
        "when all are ready they join",
        trains(READY, READY),
        Join(("i-x0", "i-x1"), "2 more hosts of the same capacity pool are ready: it continues with 4 workers "
        "instead of 2"),
    ),
    (
        "one is enough",
        trains(READY),
        Join(("i-x0",), "1 more host of the same capacity pool is ready: it continues with 3 workers instead of 2"),
    ),
    ("the gang is asked once", trains(READY, attempt={"growing": AT}), Wait("the gang is about to leave")),
    ("a host that is lost does not join", trains(host(lost="it died")), GiveUp(("i-x0",), "i-x0: it died")),
    (
        "nor one that EC2 takes back",
        trains(READY, host(warned=AT)),
        GiveUp(("i-x1",), "i-x1: EC2 takes it back"),
    ),
    (
        "nor one that does not get ready in twenty minutes",
        trains(host(launched="2026-11-20T11:40:00.000Z")),
        GiveUp(("i-x0",), "i-x0 not ready 20 minutes after launch"),
    ),
    ("one that was ended is forgotten", trains(host(lost="it died", ended=AT)), RequestHosts(2)),
]  # fmt: skip


@pytest.mark.parametrize(("records", "step"), [row[1:] for row in WHAT], ids=[row[0] for row in WHAT])
def test_what_comes_next(records: Records, step: object) -> None:
    assert growth.decide(records, NOON) == step


def test_a_gang_that_has_not_left_is_asked_once_more() -> None:
    """The first caller may have died before the order was sent."""
    records = trains(READY, attempt={"growing": AT})
    assert isinstance(growth.decide(records, after(60)), Join)


def test_an_ask_whose_answer_was_lost_is_made_again_when_the_next_one_is_due() -> None:
    ask = {"sk": "launch-request#0001#000#001", "token": "t", "at": AT, "more": 2}
    assert isinstance(growth.decide(trains(run=LATER, rows=(ask,)), NOON), Wait)
    assert growth.decide(trains(rows=(ask,)), NOON) == RequestHosts(2)


def test_a_pool_that_holds_fewer_is_asked_for_no_more() -> None:
    plan = Plan((replace(POOL, workers=3),), (), "ami-1", 4, None, NOON, "", least_gang=2)
    assert growth.decide(trains(plan=plan), NOON) == RequestHosts(1)


def evaluated(*, evaluator: dict[str, Any], rows: tuple[dict[str, Any], ...] = ()) -> Records:
    """Return a run with two workers of two to four, and an evaluator on i-9, a host without a GPU."""
    cluster = {"strategy": "multi_worker", "workers": {"min": 2, "max": 4}, "evaluator": True}
    hardware = {"cpu_instance_types": ["m7i.xlarge"], "cpu_roles": ["evaluator"]}
    made = Plan(
        (candidate("g6.xlarge", "a", beside=("m7i.xlarge",)),), (), "ami-1", 5, None, NOON, "", cpu_gang=1
    )
    known = {**host(ready=1), "type": "m7i.xlarge", "gang": 2, **evaluator}
    return trains(
        run={"job": {**ELASTIC, "cluster": cluster, "hardware": hardware}},
        attempt={"hosts": ["i-0", "i-1", "i-9"]},
        plan=made,
        rows=({"sk": "host#i-9", **known}, *rows),
    )


def test_an_evaluator_is_none_of_the_workers_that_it_lacks() -> None:
    records = evaluated(evaluator={})
    assert growth.decide(records, NOON) == RequestHosts(2)
    assert growth.workers_of(records, 1) == 2


def test_workers_that_are_enough_do_not_go_on_without_an_evaluator_that_is_not_ready() -> None:
    more = ({"sk": "host#i-2", **host(ready=1)},)
    found = evaluated(evaluator={"ready": 0}, rows=more)
    assert [each.instance for each in found.initial_hosts(2)] == ["i-0", "i-1", "i-9", "i-2"]


def test_one_number_of_workers_never_grows() -> None:
    records = ledger({"sk": "host#i-x", **host()}, hosts={"i-0": host(ready=1)})
    assert records.joining() == ()
    assert isinstance(growth.decide(records, NOON), Wait)


def test_the_next_attempt_takes_those_that_are_ready_and_waits_for_no_other() -> None:
    assert [each.instance for each in trains(READY, BOOTS).initial_hosts(2)] == ["i-0", "i-1", "i-x0"]


def test_it_waits_for_the_others_where_it_needs_them() -> None:
    records = trains(BOOTS, rows=({"sk": "host#i-1", **host(ready=1, lost="it died")},))
    assert [each.instance for each in records.initial_hosts(2)] == ["i-0", "i-x0"]


def test_a_gang_that_leaves_to_grow_loses_nobody_and_says_the_sizes() -> None:
    left: dict[str, Any] = {"stopped": 1, "stopped_at": AT, "why": "asked"}
    rows = tuple({"sk": f"host#i-{n}", **host(ready=1, **left)} for n in range(2))
    trouble = interruption(trains(READY, attempt={"growing": AT}, rows=rows), 1, 40)
    assert (trouble.error, trouble.lost, trouble.all_well) == ("Resized", (), True)
    assert "3 hosts instead of 2" in trouble.reason


def test_one_whose_host_goes_meanwhile_is_interrupted() -> None:
    rows = ({"sk": "host#i-0", **host(ready=1, stopped=1, stopped_at=AT, why="interrupted")},)
    trouble = interruption(trains(READY, attempt={"growing": AT}, rows=rows), 1, 40)
    assert (trouble.error, trouble.lost) == ("Interrupted", ("i-0",))


ASKED = [
    # name, remaining hosts, number of requested hosts, least number
    ("at first as many as it may have", 0, (4, 2)),
    ("below the least up to the most", 1, (3, 1)),
    ("enough hosts continue", 2, None),
    ("all are there", 4, None),
]


@pytest.mark.parametrize(("survive", "asked"), [row[1:] for row in ASKED], ids=[row[0] for row in ASKED])
def test_who_is_asked_for(survive: int, asked: tuple[int, int] | None) -> None:
    made = job(cluster={"workers": {"min": 2, "max": 4}})
    survivors = [(f"i-{n}", Gang.MAIN, "g6.xlarge") for n in range(survive)]
    found = [(part.count, part.least) for part in parts(made, [POOL], survivors)]
    assert found == ([asked] if asked else [])


def test_a_summary_says_each_size_and_why_it_changed() -> None:
    begun = {"candidate": {"pool": "p"}, "launched": AT}
    rows = [
        {"sk": "attempt#0001", **begun, "hosts": ["i-0", "i-1", "i-2"], "reason": "i-2 was taken back"},
        {"sk": "attempt#0002", **begun, "hosts": ["i-0", "i-1"], "reason": "a program was killed"},
        {"sk": "attempt#0003", **begun, "hosts": ["i-0", "i-1"]},
    ]
    attempts = trains(rows=tuple(rows)).attempts
    found = [(each["attempt"], each["hosts"], each["reason"]) for each in sizes(tuple(attempts.values()))]
    assert found == [(1, 3, "what there was at the start"), (2, 2, "i-2 was taken back")]
