"""Preemption: the running run that leaves for a waiting run of a higher priority, and the runs that stay."""

from datetime import timedelta
from typing import Any

import pytest

from lambdas.core.capacity.retained_hosts import RetainedHosts
from lambdas.core.run import draining, preemption, recovery
from lambdas.core.run.conclusion import steps
from lambdas.core.run.records import Records
from lambdas.core.run.recovery import Retry, Trouble
from lambdas.core.run.slots import YardLimits
from tests.support.records import AT, JOB, host, ledger
from tests.unit.core.builders import NOON, after
from trainyard.protocol.ledger.attempt import AttemptRow, Ending
from trainyard.protocol.ledger.claim import Claim, ClaimKind
from trainyard.values import serialization


def claim(
    run: str,
    priority: int = 50,
    *,
    hosts: int = 2,
    given: float | None = None,
    waits: bool = False,
    kind: ClaimKind = ClaimKind.TRAIN,
    leaves_for: str | None = None,
) -> Claim:
    return Claim(
        run=run,
        hosts=hosts,
        created=NOON,
        waits=waits,
        kind=kind,
        priority=priority,
        given=None if given is None else NOON + timedelta(minutes=given),
        leaves_for=leaves_for,
    )


URGENT = claim("urgent", 80, waits=True)
ONE, FOUR_HOSTS = YardLimits(runs=1), YardLimits(hosts=4)
WHO = [
    # name, running and waiting runs, limits, the run that leaves
    ("a run of a lower priority", [claim("low", 10)], ONE, "low"),
    ("none of the same priority", [claim("same", 80)], ONE, None),
    ("none of a higher priority", [claim("high", 90)], ONE, None),
    ("none if there is a slot", [claim("low", 10)], YardLimits(runs=2), None),
    ("the lowest priority", [claim("a", 30), claim("b", 20), claim("c", 40)], YardLimits(runs=3), "b"),
    (
        "of the same priority the one that started last",
        [claim("old", 10, given=1), claim("new", 10, given=9), claim("mid", 10, given=5)],
        YardLimits(runs=3),
        "new",
    ),
    ("no dev host", [claim("dev", 0, hosts=4, kind=ClaimKind.HELD)], FOUR_HOSTS, None),
    ("no bake", [claim("bake", 0, kind=ClaimKind.BAKE)], ONE, None),
    ("none while another one leaves", [claim("a", 10, leaves_for="x"), claim("b", 10)], ONE, None),
    (
        "only a run that is large enough",
        [claim("one", 10, hosts=1), claim("three", 20, hosts=3)],
        FOUR_HOSTS,
        "three",
    ),
    (
        "the first of several that have to leave",
        [claim("a", 10, hosts=1), claim("b", 20, hosts=1), claim("c", 90, hosts=2)],
        FOUR_HOSTS,
        "a",
    ),
    (
        "none if not even all of them are enough",
        [claim("a", 10, hosts=1), claim("b", 90, hosts=3)],
        FOUR_HOSTS,
        None,
    ),
    (
        "none for the second waiting run, if the first one cannot be helped",
        [claim("a", 85), claim("first", 85, waits=True)],
        ONE,
        None,
    ),
]


@pytest.mark.parametrize(
    ("claims", "limits", "leaves"), [each[1:] for each in WHO], ids=[each[0] for each in WHO]
)
def test_who_leaves(claims: list[Claim], limits: YardLimits, leaves: str | None) -> None:
    claims = [*claims, URGENT]
    head = preemption.first_waiting(claims)
    found = preemption.choose(head, claims, limits, lambda _: True) if head else None
    assert (found.leaves.run if found else None) == leaves


def test_a_run_that_may_not_leave_is_passed_over() -> None:
    claims = [claim("unsaved", 10), claim("saved", 20), URGENT]
    found = preemption.choose(URGENT, claims, YardLimits(runs=2), lambda each: each.run == "saved")
    assert found is not None
    assert (found.leaves.run, found.needs.run) == ("saved", "urgent")
    assert preemption.choose(URGENT, claims, YardLimits(runs=2), lambda _: False) is None


def trains(run: dict[str, Any] | None = None, attempt: dict[str, Any] | None = None) -> Records:
    row = {
        "sk": "run",
        "kind": "train",
        "state": "Train",
        "attempt": 1,
        "created": AT,
        "execution_arn": "arn",
        "job": JOB,
        **(run or {}),
    }
    members = {f"i-{n}": host(ready=1, stopped=1) for n in range(2)}
    begun = {"sk": "attempt#0001", "candidate": {}, "hosts": sorted(members), "launched": AT, "started": AT}
    return ledger(row, {**begun, "saved": AT, **(attempt or {})}, hosts=members)


LEFT = {"run": "urgent", "priority": 80, "attempt": 1, "at": AT}
CAME_BACK = {**LEFT, "queued": AT, "given": AT}
STAYS = [
    # run, attempt, why it stays
    ({}, {}, None),
    ({}, {"saved": None}, "it has saved no checkpoint"),
    ({}, {"saved": None, "from_step": 10}, None),
    ({"serves": {"model": "digits", "number": 1, "submitter": "alice"}}, {}, "it serves a model"),
    ({"stopping": AT}, {}, "it ends"),
    ({"preempted": LEFT}, {}, "it ends, or leaves already"),
    ({"state": "Launch"}, {}, "it does not train now"),
    ({}, {"started": None}, "it does not train now"),
    ({}, {"growing": AT}, "it does not train now"),
    ({}, {"capped": AT}, "it does not train now"),
    ({"preempted": CAME_BACK}, {}, "only a moment ago"),
    ({"preempted": CAME_BACK}, {"started": serialization.timestamp(after(-3600))}, None),
]


@pytest.mark.parametrize(("run", "attempt", "why"), STAYS)
def test_which_runs_stay(run: dict[str, Any], attempt: dict[str, Any], why: str | None) -> None:
    found = preemption.why_stays(trains(run, attempt), after(60))
    assert found is None if why is None else why in (found or "")


def test_a_gang_that_left_for_another_run_says_so_in_one_sentence() -> None:
    records = trains({"preempted": LEFT}, {"preempted": AT, "checkpointed": 20})
    told = "stopped for run urgent of priority 80: it waits in the queue and continues from step"
    found = draining.interruption(records, 1, 27, 27)
    assert (found.error, found.reason, found.all_well, found.lost) == ("Preempted", f"{told} 27", False, ())
    assert draining.interruption(records, 1, 27).reason == f"{told} 20"
    without = trains({"preempted": LEFT}, {"preempted": AT})
    assert "continues from its last checkpoint" in draining.interruption(without, 1, None).reason


def test_a_preempted_attempt_is_no_restart_and_keeps_no_host() -> None:
    left = Trouble(error="Preempted", reason="stopped for run urgent", step=27)
    found = recovery.decide(left, attempt=1, restarts=0, now=NOON, deadline=after(3600))
    assert isinstance(found, Retry)
    assert (found.attempt, found.resized, found.seconds, found.keep) == (2, 1, 0, RetainedHosts.NONE)
    assert found.reason == (
        "Attempt 1 ended at step 27: Preempted, a run of a higher priority needs its slot: stopped for run urgent. "
        "Attempt 2 of at most 2 follows once the run has a slot again: a whole new gang; it resumes from the last "
        "checkpoint, or else from the outputs of its working folder."
    )


def test_the_wait_for_the_slot_is_no_lost_time() -> None:
    rows = [
        AttemptRow(attempt=1, candidate={}, hosts=(), launched=NOON, ended=NOON, ending=Ending.PREEMPTED),
        AttemptRow(attempt=2, candidate={}, hosts=(), launched=after(999), started=after(1000)),
    ]
    assert steps.seconds_lost(rows) == 0


@pytest.mark.parametrize(("minutes", "seconds"), [(0, 30), (20, 60), (600, 300)])
def test_a_long_wait_has_longer_pauses(minutes: int, seconds: int) -> None:
    assert preemption.pause(NOON, NOON + timedelta(minutes=minutes)) == seconds
