"""The warm pool: hosts that a run adds, hosts that a run claims, their cost and their tags."""

from dataclasses import replace
from typing import Any

import pytest

from lambdas.core.run import warm_pool
from lambdas.core.run.records import Records
from lambdas.core.run.release import Act, Disposal, dispose, find_missed
from lambdas.core.run.warm_host import WarmHost
from tests.support.records import AT, JOB, host, ledger
from tests.unit.core.builders import NOON, after, candidate, job, served_job
from trainyard.core.model.job import Hosts, Job
from trainyard.core.model.yard import warm
from trainyard.protocol.plan import Market, Plan
from trainyard.values import serialization

POOL = candidate("g6.xlarge", "a")
PLAN = Plan((POOL, candidate("g5.xlarge", "a")), (), "ami-1", 2, None, NOON, "", disk_gib=100, least_gang=2)
KEEPS = {**JOB, "cluster": {"strategy": "multi_worker", "workers": 2}, "pool": {"keep": 2, "minutes": 30}}
ENDED = {
    "sk": "attempt#0001",
    "candidate": {"pool": "p"},
    "hosts": ["i-0", "i-1"],
    "launched": AT,
    "ending": "finished",
}
READY = {"ready": 1, "disk_gib": 100}


def over(
    *,
    run: dict[str, Any] | None = None,
    attempt: dict[str, Any] | None = None,
    keep: int = 2,
    **hosts: dict[str, Any],
) -> Records:
    """Return a run of two hosts that has succeeded and keeps both. `hosts` change each one's row."""
    kept = {**KEEPS, "pool": {"keep": keep, "minutes": 30}}
    row = {
        "sk": "run",
        "kind": "train",
        "state": "Train",
        "attempt": 1,
        "created": AT,
        "execution_arn": "arn",
    }
    members = {f"i-{n}": host(**READY | hosts.get(f"i_{n}", {})) for n in range(2)}
    return ledger(
        {**row, "job": kept, **(run or {})},
        {**ENDED, **(attempt or {})},
        {"sk": "plan", **serialization.to_json(PLAN)},
        hosts=members,
        job=kept,
    )


def waits(name: str = "i-9", **more: Any) -> WarmHost:
    """Return a host of the warm pool that a run may claim."""
    known = WarmHost(
        instance=name,
        run="before",
        type="g6.xlarge",
        zone="a",
        market=Market.SPOT,
        image="ami-1",
        price=0.3,
        disk_gib=100,
        gib_month=0.08,
        since=after(-60),
        until=after(600),
        minutes=30,
        ready=after(-30),
    )
    return replace(known, **more)


BOTH = ("i-0", "i-1")
TRIAL = {"trial": {"study": "digits-0a1b2c3d", "number": 2, "submitter": "ada"}}
PRUNED = {"stopping": AT, "pruned": {"rung": 4, "value": 0.1, "reason": "the median is 0.5"}}
OF_STUDY = (waits("i-7", study="digits-0a1b2c3d"), waits("i-8", study="digits-0a1b2c3d"))
KEPT = [
    # name, the run, its running hosts, hosts that wait already, the limit, hosts that enter the pool
    ("a run that has ended well keeps its hosts", over(), BOTH, (), 8, BOTH),
    ("no more than its job says", over(keep=1), BOTH, (), 8, ("i-0",)),
    ("no more than the yard has room for", over(), BOTH, (waits("i-7"), waits("i-8")), 3, ("i-0",)),
    ("none in a pool that is full", over(), BOTH, (waits("i-7"), waits("i-8")), 2, ()),
    ("none in a yard without a pool", over(), BOTH, (), 0, ()),
    ("none where the job asks for none", over(keep=0), BOTH, (), 8, ()),
    ("none of a run that has failed", over(attempt={"ending": "failed"}), BOTH, (), 8, ()),
    ("none of a stopped one", over(run={"stopping": AT}), BOTH, (), 8, ()),
    ("none of one that was cut short", over(run={"cut_short": AT}), BOTH, (), 8, ()),
    ("none that EC2 does not call running", over(), ("i-1",), (), 8, ("i-1",)),
    ("none that EC2 takes back", over(i_0={"warned": AT}), BOTH, (), 8, ("i-1",)),
    ("none that is lost", over(i_1={"lost": "gone"}), BOTH, (), 8, ("i-0",)),
    ("none of the second gang", over(i_1={"gang": 2}), BOTH, (), 8, ("i-0",)),
    ("a failed trial", over(run=TRIAL, attempt={"ending": "failed"}), BOTH, (), 0, BOTH),
    ("a trial that its study stopped at a rung", over(run=TRIAL | PRUNED), BOTH, (), 0, BOTH),
    ("none of a trial that was stopped otherwise", over(run=TRIAL | {"stopping": AT}), BOTH, (), 8, ()),
    ("none of a trial that was cut short", over(run=TRIAL | {"cut_short": AT}), BOTH, (), 8, ()),
    ("none of a trial that never launched", over(run=TRIAL, attempt={"ending": None}), BOTH, (), 8, ()),
    ("none of a failed trial that is lost", over(run=TRIAL, i_0={"lost": "x"}), BOTH, (), 8, ("i-1",)),
    ("a trial whatever the yard has room for", over(run=TRIAL), BOTH, (waits("i-9"), *OF_STUDY), 1, BOTH),
    ("hosts of studies take no room from other runs", over(), BOTH, OF_STUDY, 2, BOTH),
    (
        "a second call finds the same hosts, and no others",
        over(keep=1, i_0={"pooled": AT, "ended": AT}),
        BOTH,
        (waits("i-0", run="digits-1", ready=None),),
        8,
        ("i-0",),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("sentence", "records", "running", "there", "most", "goes"), KEPT, ids=[row[0] for row in KEPT]
)
def test_which_hosts_go_into_the_pool(
    sentence: str,
    records: Records,
    running: tuple[str, ...],
    there: tuple[WarmHost, ...],
    most: int,
    goes: tuple[str, ...],
) -> None:
    chosen = warm_pool.choose_hosts(records, running, there, most=most, now=NOON)
    assert tuple(each.instance for each in chosen) == goes, sentence


def test_a_host_has_five_minutes_until_it_is_wiped_and_then_those_of_its_job() -> None:
    first, _ = warm_pool.choose_hosts(over(), BOTH, (), most=8, now=NOON)
    assert (first.until, first.ready, first.since) == (after(300), None, NOON)
    assert first.wipe_times(after(20)) == (after(20), after(20 + 1800))
    again = replace(first, ready=after(20), until=after(1820))
    assert again.wipe_times(after(40)) == (after(20), after(1820)), "the first word counts"


TWO = job(cluster={"workers": 2})
FROM_TWO = job(cluster={"strategy": "multi_worker", "workers": {"min": 2, "max": 4}})
PAIR = (waits("i-8"), waits("i-9"))
DEARER = (waits("i-0", type="g5.xlarge"), waits("i-1", type="g5.xlarge"))
TAKEN = [
    # name, waiting hosts, job, candidate and hosts
    ("a whole gang of what would be asked for", PAIR, TWO, (0, {"i-8", "i-9"})),
    ("in the plan's order", (*DEARER, *PAIR), TWO, (0, {"i-8", "i-9"})),
    ("of a later candidate where the first has none", DEARER, TWO, (1, {"i-0", "i-1"})),
    ("those that stay longest", (*PAIR, waits("i-7", until=after(900))), TWO, (0, {"i-7", "i-9"})),
    ("not a part of a gang", PAIR[:1], TWO, None),
    ("not two types for one gang", (PAIR[0], DEARER[1]), TWO, None),
    ("not two zones", (PAIR[0], replace(PAIR[1], zone="b")), TWO, None),
    ("not two markets", (PAIR[0], replace(PAIR[1], market=Market.ON_DEMAND)), TWO, None),
    ("not of another image", tuple(replace(each, image="ami-2") for each in PAIR), TWO, None),
    ("not with another disk", tuple(replace(each, disk_gib=200) for each in PAIR), TWO, None),
    ("not before it is wiped", (PAIR[0], replace(PAIR[1], ready=None)), TWO, None),
    ("not when it is about to end", (PAIR[0], replace(PAIR[1], until=after(119))), TWO, None),
    ("as many as there are of a job of min and max", PAIR, FROM_TWO, (0, {"i-8", "i-9"})),
    ("except for fewer than it needs", PAIR[:1], FROM_TWO, None),
    ("not for a job with a gang beside it", tuple(waits(f"i-{n}") for n in range(9)), served_job(), None),
    ("no host in an empty pool", (), TWO, None),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "there", "wanted", "taken"), TAKEN, ids=[row[0] for row in TAKEN])
def test_which_hosts_a_run_takes(
    sentence: str, there: tuple[WarmHost, ...], wanted: Job, taken: tuple[int, set[str]] | None
) -> None:
    found = warm_pool.choose_gang(there, PLAN, wanted, NOON)
    known = (found.candidate, {each.instance for each in found.hosts}) if found else None
    assert known == taken, sentence


STUDY = "digits-0a1b2c3d"
WIPING = tuple(replace(each, ready=None, since=after(-5)) for each in OF_STUDY)
FOR_TRIAL = [
    # name, waiting hosts, with hosts that are being wiped, the hosts that a trial of the study takes
    ("hosts of its study first", (*PAIR, *OF_STUDY), False, {"i-7", "i-8"}),
    ("hosts of other runs, too", PAIR, False, {"i-8", "i-9"}),
    ("none of another study", tuple(replace(each, study="other-1") for each in OF_STUDY), True, None),
    ("not before they are wiped", WIPING, False, None),
    ("hosts that are being wiped", WIPING, True, {"i-7", "i-8"}),
    ("not hosts whose wipe takes too long", (OF_STUDY[0], replace(WIPING[1], since=after(-16))), True, None),
    ("not hosts of another run before they are wiped", tuple(replace(each, ready=None) for each in PAIR), True, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("sentence", "there", "unwiped", "taken"), FOR_TRIAL, ids=[row[0] for row in FOR_TRIAL]
)
def test_which_hosts_a_trial_takes_or_waits_for(
    sentence: str, there: tuple[WarmHost, ...], unwiped: bool, taken: set[str] | None
) -> None:
    found = warm_pool.choose_gang(there, PLAN, TWO, NOON, study=STUDY, with_unwiped=unwiped)
    assert (found and {each.instance for each in found.hosts}) == taken, sentence


def test_hosts_of_a_study_are_for_its_trials_only() -> None:
    assert warm_pool.choose_gang(OF_STUDY, PLAN, TWO, NOON) is None
    (kept, _) = warm_pool.choose_hosts(over(run=TRIAL), BOTH, (), most=0, now=NOON)
    assert kept.study == STUDY


def test_the_pool_costs_what_the_hosts_do_while_they_wait() -> None:
    assert waits(since=NOON).dollars(after(3600)) == pytest.approx(0.3 + 100 * 0.08 / 730, abs=1e-5)
    assert waits(since=NOON).dollars(after(-5)) == 0.0, "clocks differ"


TAGS = [
    # name, tags, end of the wait
    ("its run's tag and the pool's", {"trainyard:run": "a", "trainyard:pool": warm.tag_of("a", NOON)}, NOON),
    ("taken by another run", {"trainyard:run": "b", "trainyard:pool": warm.tag_of("a", NOON)}, None),
    ("never in the pool", {"trainyard:run": "a"}, None),
    ("a tag of another writer", {"trainyard:run": "a", "trainyard:pool": "soon a"}, None),
    ("an empty tag", {"trainyard:run": "a", "trainyard:pool": ""}, None),
]


@pytest.mark.parametrize(("sentence", "tags", "until"), TAGS, ids=[row[0] for row in TAGS])
def test_what_the_tag_says_and_the_host_reads_in_it(
    sentence: str, tags: dict[str, str], until: object
) -> None:
    assert warm.warm_until(tags) == until, sentence


def test_what_release_does_with_a_host_in_the_pool_and_one_that_was_just_taken() -> None:
    disposed = dispose(
        [("i-0", Market.SPOT), ("i-1", Market.SPOT)],
        after=Hosts.TERMINATE,
        keep=(),
        run_is_over=True,
        pooled={"i-1"},
    )
    assert disposed == (
        Disposal("i-0", Act.TERMINATE, "the run has ended"),
        Disposal("i-1", Act.POOL, "it waits in the warm pool for the next run"),
    )
    records = over(i_0={"claimed_from": "before"}, i_1={"claimed_from": "before", "ended": AT})
    assert find_missed(records.hosts.values(), ()) == (("i-0", Market.SPOT),), "its tags were never written"
    assert find_missed(records.hosts.values(), {"i-0"}) == ()


def test_a_plan_says_what_the_pool_may_cost() -> None:
    keeps = job(cluster={"workers": 2}, pool={"keep": 2, "minutes": 30})
    assert warm_pool.most_dollars(PLAN, keeps) == pytest.approx(
        2 * 0.5 * (0.3 + 100 * PLAN.gib_month / 730), abs=1e-5
    )
    assert warm_pool.most_dollars(PLAN, TWO) is None
