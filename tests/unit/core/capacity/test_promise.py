"""The money promised to a run: the most that its job may cost, and the rest of that."""

from datetime import timedelta

import pytest

from lambdas.core.capacity.promise import most_dollars
from lambdas.core.patrol import budget
from tests.unit.core.builders import NOON, job, prices, served_job
from trainyard.core.model.yard import promises
from trainyard.core.model.yard.promises import Promise, remaining
from trainyard.protocol.ledger.yard import Money

DISK = 200 * 0.08 / 730


def test_a_job_may_cost_its_dollars() -> None:
    assert most_dollars(job(limits={"hours": 100, "dollars": 20}), prices()) == 20


def test_or_less_when_its_hours_are_too_few_for_them() -> None:
    g5 = prices().on_demand("g5.xlarge")
    assert g5
    found = most_dollars(job(limits={"hours": 2, "dollars": 20}), prices())
    assert found == pytest.approx(2 * 2 * (g5 + DISK), abs=0.01), (
        "two hosts of the dearest type for two hours"
    )
    beside = most_dollars(served_job(), prices())
    assert beside > 0
    capped = job(hardware={"instance_types": ["g5.xlarge"], "max_dollars_per_hour": 0.1}, limits={"hours": 2})
    assert most_dollars(capped, prices()) == pytest.approx(2 * (0.1 + 2 * DISK), abs=0.01)


def test_a_launch_may_cost_its_hold() -> None:
    long = job(limits={"hours": 1, "dollars": 1_000})
    assert most_dollars(long, prices(), hours=10) == pytest.approx(
        10 * most_dollars(long, prices()), abs=0.01
    )


@pytest.mark.parametrize(
    ("hours", "left"), [(None, 20.0), (5, 10.0), (100, 20.0), (-1, 0.0)], ids=["new", "half", "far", "over"]
)
def test_what_is_left_of_a_promise(hours: float | None, left: float) -> None:
    until = None if hours is None else NOON + timedelta(hours=hours)
    assert remaining(20.0, None if hours is None else 2.0, until, NOON) == left


def test_the_largest_promises_are_named_with_the_sum() -> None:
    some = [Promise(run=f"r-{n}", by="ada", dollars=float(n)) for n in range(1, 6)]
    assert promises.describe_promises(some) == (
        "$15.00 to ada ($5.00, r-5), ada ($4.00, r-4), ada ($3.00, r-3) and 2 more ($3.00)"
    )
    assert promises.describe_promises(some[:2]) == "$3.00 to ada ($2.00, r-2) and ada ($1.00, r-1)"
    assert promises.describe_promises([]) == "$0.00"


SPENT = Money("2026-11", 40.0, NOON)
ADA = (Promise(run="digits-1", by="ada", dollars=50.0),)


@pytest.mark.parametrize(
    ("asks", "promised", "month", "refused"),
    [
        (10.0, ADA, 100.0, False),
        (10.01, ADA, 100.0, True),
        (60.0, (), 100.0, False),
        (60.01, (), 100.0, True),
        (1e9, ADA, None, False),
    ],
)
def test_what_is_spent_and_promised_leaves_the_rest(
    asks: float, promised: tuple[Promise, ...], month: float | None, refused: bool
) -> None:
    why = budget.refusal(SPENT, month, NOON, asks=asks, promised=promised)
    assert bool(why) is refused
    if promised and why:
        assert "$10.00 are left of the yard's $100.00 a month" in why
        assert "promised: $50.00 to ada ($50.00, digits-1)" in why
        assert (
            "Ask for at most $10.00 (limits.dollars; of a host: --hours; of a recipe: builder.hours)" in why
        )
