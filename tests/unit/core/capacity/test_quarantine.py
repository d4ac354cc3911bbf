"""Capacity pools whose last host had a fault of its hardware are tried last, for a day."""

from datetime import timedelta

import pytest

from lambdas.core.capacity import quarantine
from tests.unit.core.builders import NOON, job
from tests.unit.core.capacity.planning import planned
from trainyard.protocol.ledger.yard import QuarantineRow

FAULT = "a GPU reports Xid 79"


def row(zone: str, hours: float) -> QuarantineRow:
    return QuarantineRow(
        instance="i-bad",
        type="g6.xlarge",
        zone=zone,
        run="earlier",
        reason=FAULT,
        at=NOON,
        until=NOON + timedelta(hours=hours),
    )


def test_a_quarantined_pool_is_the_last_candidate_and_the_plan_says_why() -> None:
    plain = planned(job())
    first = plain.candidates[0]
    plan = planned(job(), quarantined=(row(first.zone, 1),))
    bad = (first.type, first.zone)
    assert {*plan.candidates} == {*plain.candidates}, "the pool may still be tried"
    places = [(each.type, each.zone) == bad for each in plan.candidates]
    assert any(places)
    assert places == sorted(places)
    assert f"{first.type} in {first.zone} is tried last (i-bad: {FAULT})." in plan.reason


@pytest.mark.parametrize("quarantined", [(), (row("us-east-1z", 1),), (row("us-east-1a", -1),)])
def test_a_pool_of_another_zone_or_of_yesterday_changes_nothing(
    quarantined: tuple[QuarantineRow, ...],
) -> None:
    assert planned(job(), quarantined=quarantined) == planned(job())


def test_a_launch_tries_pools_last_that_were_quarantined_after_its_plan() -> None:
    candidates = planned(job()).candidates
    assert candidates[0].type == "g6.xlarge"
    rows = (row(candidates[0].zone, 1),)
    found = quarantine.find_indexes(candidates, rows, NOON)
    assert 0 in found
    assert {(candidates[each].type, candidates[each].zone) for each in found} == {("g6.xlarge", rows[0].zone)}
    assert quarantine.find_indexes(candidates, rows, NOON + timedelta(hours=1)) == ()
