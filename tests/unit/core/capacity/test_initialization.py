"""The rate at which a gang's disks are initialized, by the region's limit and the cost."""

from dataclasses import replace

import pytest

from lambdas.core.capacity import initialization
from lambdas.core.capacity.image_choice import ImageSource
from tests.unit.core.builders import AMI, an_image, image_reference
from tests.unit.core.builders import job as made
from tests.unit.core.capacity.planning import planned
from trainyard.core.model.images.image import Snapshot
from trainyard.protocol.plan import Plan
from trainyard.values import serialization

DEAR, MOST = 1_000.0, 300


@pytest.mark.parametrize(
    ("hosts", "rate"),
    [(1, 300), (16, 300), (17, 200), (25, 200), (26, 100), (50, 100), (51, 0), (1000, 0)],
)
def test_a_gang_stays_below_what_the_region_allows(hosts: int, rate: int) -> None:
    asked = initialization.rate(
        most=MOST, hosts=hosts, gib=100, gib_month=0.08, dollars_per_hour=hosts * DEAR, limit=1e6
    )
    assert asked == rate
    assert asked * hosts <= 5_000


@pytest.mark.parametrize(
    ("most", "dollars_per_hour", "limit", "rate"),
    [
        (300, 1.44, 100.0, 300),  # 100 GiB at $0.0036 cost as much as a quarter of an hour
        (300, 1.43, 100.0, 200),  # at $0.0024 they cost less
        (300, 0.95, 100.0, 0),
        (300, 30.0, 3.6, 300),  # a tenth of limits.dollars
        (300, 30.0, 3.5, 200),
        (300, 30.0, 2.3, 0),
        (200, 30.0, 100.0, 200),
        (100, 30.0, 100.0, 100),
        (0, 30.0, 100.0, 0),
    ],
)
def test_a_rate_is_asked_for_where_it_is_worth_its_charge(
    most: int, dollars_per_hour: float, limit: float, rate: int
) -> None:
    found = initialization.rate(
        most=most, hosts=1, gib=100, gib_month=0.08, dollars_per_hour=dollars_per_hour, limit=limit
    )
    assert found == rate


@pytest.mark.parametrize(("rate", "dollars"), [(0, 0.0), (100, 0.24), (200, 0.24), (201, 0.36), (300, 0.36)])
def test_what_a_disk_of_100_gib_costs_once_and_where_disks_are_dearer(rate: int, dollars: float) -> None:
    assert initialization.dollars(100, rate, 0.08) == pytest.approx(dollars)
    assert initialization.dollars(100, rate, 0.096) == pytest.approx(1.2 * dollars)


def test_a_plan_says_the_rate_and_what_it_costs_and_survives_the_ledger() -> None:
    job = made(hardware={"instance_types": ["p5.48xlarge"], "market": "spot"}, limits={"dollars": 1000})
    zones = ("us-east-1a", "us-east-1b")
    inputs = {
        "spot_prices": {("p5.48xlarge", zone): 20.0 for zone in zones},
        "offered": frozenset(("p5.48xlarge", zone) for zone in zones),
    }
    image = image_reference(
        ImageSource.PARAMETER, AMI, replace(an_image(), snapshots=(Snapshot("snap-1", 100),))
    )
    plan = planned(job, initialization_rate=300, image=image, **inputs)
    assert {candidate.initialization_rate for candidate in plan.candidates} == {300}
    charge = job.gang * initialization.dollars(plan.disk_gib, 300, plan.gib_month)
    assert charge == pytest.approx(0.72)
    assert f"and ${charge:.3f} once for disks at 300 MiB/s" in plan.reason
    assert serialization.from_json(Plan, serialization.to_json(plan)) == plan
    assert {
        candidate.initialization_rate for candidate in planned(job, image=image, **inputs).candidates
    } == {0}
