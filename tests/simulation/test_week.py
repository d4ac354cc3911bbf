"""A small version of the week benchmark and of the growth benchmark: their budgets hold and their code works."""

import pytest
from botocore.retries.quota import RetryQuota

from benchmarks import budgets
from benchmarks.simulated import growth
from benchmarks.simulated.scale import Scale
from benchmarks.simulated.week import week
from simulation.template import YardTemplate


@pytest.fixture(scope="module")
def found(yard: YardTemplate) -> Scale:
    """Twenty simultaneous runs, and yards of 20 and 60 hosts."""
    return Scale(
        week(yard, days=0.02, runs_a_day=1_000), [growth.measure_world(yard, size) for size in (20, 60)]
    )


def test_where_a_limit_is_met_a_yard_slows_down_and_loses_nothing(found: Scale) -> None:
    rush = found.week
    assert rush.runs == rush.succeeded == rush.attempts == 20
    assert rush.requests["service-quotas.get_service_quota"].throttled > 0
    assert not rush.broken
    assert not rush.dead_letters


@pytest.mark.usefixtures("yard")
def test_no_function_uses_up_the_retries_of_another() -> None:
    assert RetryQuota(initial_capacity=0).acquire(5)


def test_every_budget_holds_on_small_yards(found: Scale) -> None:
    """CPU seconds are left out, because they are too short for twenty hosts to measure on a busy machine."""
    assert [row for row in budgets.measure_week(found) if not row.holds and "CPU" not in row.what] == []


def test_a_pass_of_patrol_sends_no_more_requests_for_more_hosts_on_a_page(found: Scale) -> None:
    small, large = (each.patrol for each in found.held)
    assert small == large


@pytest.mark.parametrize(
    ("values", "slope"), [((3, 3, 3), 0.0), ((1, 10, 100), 1.0), ((0, 1, 10), 1.0), ((0, 0, 5), 0.0)]
)
def test_the_exponent_of_growth(values: tuple[float, ...], slope: float) -> None:
    assert growth.exponent((10, 100, 1_000), values) == pytest.approx(slope)
