"""The yard's limits: slots, waiting runs, and refusals."""

from datetime import timedelta

import pytest

from lambdas.core.run import slots
from lambdas.core.run.slots import YardLimits
from tests.unit.core.builders import NOON
from trainyard.core.jobfile import check
from trainyard.core.model.job import Job
from trainyard.protocol.ledger.claim import DEFAULT_PRIORITY, Claim, ClaimKind


def claim(
    run: str,
    minute: float,
    hosts: int = 2,
    *,
    waits: bool = False,
    kind: ClaimKind = ClaimKind.TRAIN,
    priority: int = DEFAULT_PRIORITY,
) -> Claim:
    created = NOON + timedelta(minutes=minute)
    return Claim(run=run, hosts=hosts, created=created, waits=waits, kind=kind, priority=priority)


HELD = claim("dev-mine-1", -5, hosts=1, kind=ClaimKind.HELD)


def job(**more: object) -> Job:
    document = {"name": "digits", "program": {"module": "training.programs.digits"}, **more}
    found = check.check(document, source="job.json", bucket="b")
    assert isinstance(found, Job), found
    return found


@pytest.mark.parametrize(
    ("others", "limits", "is_full"),
    [
        ([], YardLimits(runs=1, hosts=2), False),
        ([], YardLimits(runs=1, hosts=1), True),
        ([claim("a", -5)], YardLimits(runs=1), True),
        ([claim("a", 5)], YardLimits(runs=1), True),
        ([claim("a", -5)], YardLimits(runs=2), False),
        ([claim("a", -5)], YardLimits(hosts=4), False),
        ([claim("a", -5)], YardLimits(hosts=3), True),
        ([claim("a", -5, waits=True)], YardLimits(runs=1), True),
        ([claim("a", 5, waits=True)], YardLimits(runs=1), False),
        ([claim("a", 0, waits=True)], YardLimits(runs=1), True),
        ([claim("z", 0, waits=True)], YardLimits(runs=1), False),
        ([claim("big", -5, hosts=60, waits=True), claim("a", -9)], YardLimits(hosts=64), False),
        ([claim("big", -5, hosts=61, waits=True), claim("a", -9)], YardLimits(hosts=64), True),
        ([HELD], YardLimits(runs=1), False),
        ([HELD], YardLimits(hosts=3), False),
        ([HELD], YardLimits(hosts=2), True),
        ([claim("a", 5, waits=True, priority=51)], YardLimits(runs=1), True),
        ([claim("a", -5, waits=True, priority=49)], YardLimits(runs=1), False),
        ([claim("a", -5, priority=0)], YardLimits(runs=1), True),
        ([claim("big", 5, hosts=64, waits=True, priority=100)], YardLimits(hosts=64), True),
        ([claim("big", -5, hosts=64, waits=True, priority=0)], YardLimits(hosts=64), False),
        ([claim("a", -5, hosts=1_000)] * 1_000, YardLimits(), False),
    ],
    ids=[
        "alone",
        "too large by itself",
        "one has it",
        "one that came later has it",
        "one of two is free",
        "hosts are free",
        "a host is missing",
        "who waits and came earlier is before it",
        "who waits and came later is not",
        "of two at the same time the first by name",
        "and not the last",
        "beside a large one that waits",
        "a small one does not pass a large one",
        "the host of a launch does not count as a run",
        "it is a host",
        "for which there is room or not",
        "a later run of a higher priority is before it",
        "an earlier run of a lower priority is not",
        "a run that trains keeps its slot, whatever its priority",
        "a small one does not pass a large one of a higher priority",
        "a small one passes a large one of a lower priority",
        "no limits",
    ],
)
def test_who_has_a_place(others: list[Claim], limits: YardLimits, is_full: bool) -> None:
    assert bool(slots.why_full(claim("mine", 0), others, limits)) == is_full


def test_hundreds_of_waiting_runs_start_by_priority_and_then_by_age() -> None:
    """Give 20 slots, one after the other. Each time exactly one run gets the slot."""
    waiting = [
        claim(f"r{n:03}", minute=n % 40, waits=True, priority=(0, 50, 50, 99, 100)[n % 5]) for n in range(300)
    ]
    expected = sorted(waiting, key=lambda each: (-each.priority, each.created, each.run))
    limits, queue = YardLimits(runs=1), waiting[::-1]
    for turn in expected[:20]:
        others = {each.run: [other for other in queue if other is not each] for each in queue}
        free = [each for each in queue if slots.why_full(each, others[each.run], limits) is None]
        assert free == [turn]
        queue.remove(turn)


def test_a_waiting_run_reports_its_number_and_its_priority() -> None:
    others = [
        claim("trains", -9, priority=90),
        claim("urgent", 3, waits=True, priority=80),
        claim("older", -3, waits=True),
        claim("later", 3, waits=True),
        claim("low", -8, waits=True, priority=10),
    ]
    assert slots.describe_turn(claim("mine", 0), others) == (
        "it is number 3 of 5 waiting runs, with priority 50"
    )
    assert slots.describe_turn(claim("mine", 0, priority=7), others[:1]) == (
        "it is the only waiting run, with priority 7"
    )
    assert "4 runs are before it (trains, urgent, older and 1 more)" in (
        slots.why_full(claim("mine", 9), others, YardLimits(runs=1)) or ""
    )


def test_it_says_who_is_before_it_and_which_limit_it_is() -> None:
    others = [claim(name, -minute) for minute, name in enumerate("abcd")]
    assert slots.why_full(claim("mine", 1), others, YardLimits(runs=4, hosts=64)) == (
        "4 runs are before it (d, c, b and 1 more), and the yard has 4 at once (most_runs)"
    )
    assert slots.why_full(claim("mine", 1), others[:1], YardLimits(runs=4, hosts=3)) == (
        "1 run is before it (a) with 2 hosts; this run needs 2, and the yard has 3 at once (most_hosts)"
    )


@pytest.mark.parametrize(
    ("limits", "path", "setting"),
    [
        (YardLimits(dollars=19.99), "limits.dollars", "most_dollars_per_run=20"),
        (YardLimits(hosts=1), "cluster", "most_hosts=3"),
        (YardLimits(dollars=20, hosts=3, runs=1), None, None),
        (YardLimits(), None, None),
    ],
)
def test_what_no_run_may_have_is_a_fault_that_says_who_may_raise_it(
    limits: YardLimits, path: str | None, setting: str | None
) -> None:
    found = slots.faults(job(cluster={"workers": 3}), limits)
    assert [fault.path for fault in found] == ([path] if path else [])
    assert all(
        f"the operator of the yard to raise it (cdk deploy --all -c {setting})" in str(fault)
        for fault in found
    )


@pytest.mark.parametrize(("minutes", "seconds"), [(0.5, 30), (60, 36), (240, 144), (1440, 300)])
def test_how_often_it_looks(minutes: float, seconds: int) -> None:
    assert slots.pause(job(limits={"wait_minutes": minutes})) == seconds


@pytest.mark.parametrize(("waited", "late"), [(0, False), (59.9, False), (60, True), (600, True)])
def test_how_long_it_waits(waited: float, late: bool) -> None:
    assert bool(slots.refuse_late(job(), NOON, NOON + timedelta(minutes=waited))) == late


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (YardLimits(), "this yard has no warm pool: keep fewer"),
        (YardLimits(pool=1), "this yard allows 1 host in its warm pool: keep fewer"),
        (YardLimits(pool=2), None),
    ],
)
def test_a_pool_larger_than_the_yards_is_a_fault(limits: YardLimits, said: str | None) -> None:
    found = [str(fault) for fault in slots.faults(job(cluster={"workers": 3}, pool={"keep": 2}), limits)]
    assert [said in each and "-c most_pool_hosts=2" in each for each in found if said] == (
        [True] if said else []
    )
    assert bool(found) is bool(said)
