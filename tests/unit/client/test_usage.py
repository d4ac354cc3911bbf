"""How busy the hosts of a run are, by CloudWatch."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.unit.client.facts import HOST, NOON
from trainyard.client.runs.usage import MEASURES, MOST_POINTS, usage_of


class Session:
    """A session whose CloudWatch has one value for each metric, at the start of the period."""

    def __init__(self, *without: str) -> None:
        self.without, self.queries = without, list[dict[str, Any]]()

    def client(self, service: str) -> "Session":
        assert service == "cloudwatch"
        return self

    def get_paginator(self, name: str) -> "Session":
        assert name == "get_metric_data"
        return self

    def paginate(self, **asked: Any) -> Any:
        self.queries = asked["MetricDataQueries"]
        assert len(self.queries) <= 500
        yield {"MetricDataResults": [self._result(query, asked["StartTime"]) for query in self.queries]}

    def _result(self, query: dict[str, Any], begin: datetime) -> dict[str, Any]:
        host = query["MetricStat"]["Metric"]["Dimensions"][0]["Value"]
        known = host not in self.without
        return {"Id": query["Id"], "Timestamps": [begin] * known, "Values": [42.0] * known}


NOW = NOON + timedelta(hours=1)


def test_each_host_has_its_curve_by_its_role_and_a_host_without_values_has_none() -> None:
    hosts = [
        replace(HOST, instance="i-1", role="chief 0"),
        replace(HOST, instance="i-2", role="worker 1", attempt=2),
        replace(HOST, instance="i-3", role="worker 2"),
    ]
    found = usage_of(Session("i-3"), hosts, NOW)  # type: ignore[arg-type]
    assert [each.measure.title for each in found] == ["GPU", "GPU memory", "Processors"]
    assert found[0].hosts == {"chief 0": (42.0,), "worker 1, attempt 2": (42.0,)}
    assert found[0].times == (int(NOON.timestamp()),)


def test_a_host_without_a_gpu_is_asked_about_its_processors_only() -> None:
    session = Session()
    (found,) = usage_of(session, [replace(HOST, type="m7i.xlarge")], NOW)  # type: ignore[arg-type]
    assert found.measure.title == "Processors"
    assert len(session.queries) == 1


def test_a_run_without_hosts_or_values_costs_and_shows_nothing() -> None:
    session = Session("i-1")
    assert usage_of(session, [], NOW) == ()  # type: ignore[arg-type]
    assert not session.queries
    assert usage_of(session, [HOST], NOW) == ()  # type: ignore[arg-type]


@pytest.mark.parametrize("hours", [0.01, 1, 5, 24, 720])
def test_a_long_run_has_no_more_points_than_a_chart_shows(hours: float) -> None:
    for measure in MEASURES:
        period = measure.period(timedelta(hours=hours), timedelta(hours=hours))
        assert period % measure.seconds == 0
        assert hours * 3600 / period <= MOST_POINTS


def test_of_many_hosts_the_newest_are_asked_about_in_one_request() -> None:
    session = Session()
    usage_of(session, [replace(HOST, instance=f"i-{n}") for n in range(900)], NOW)  # type: ignore[arg-type]
    assert {query["MetricStat"]["Metric"]["Dimensions"][0]["Value"] for query in session.queries} == {
        f"i-{n}" for n in range(840, 900)
    }


@pytest.mark.parametrize(("days", "shortest"), [(1, 60), (16, 300), (64, 3600)])
def test_of_old_runs_the_periods_that_cloudwatch_keeps_are_asked(days: int, shortest: int) -> None:
    gpu, *_ = MEASURES
    assert gpu.period(timedelta(minutes=10), timedelta(days=days)) == shortest


def test_a_host_in_the_place_of_a_lost_one_continues_its_curve() -> None:
    hosts = [
        replace(HOST, instance="i-1", role="worker 0", ended=NOON + timedelta(minutes=5)),
        replace(HOST, instance="i-2", role="worker 0"),
    ]
    (found, *_) = usage_of(Session("i-2"), hosts, NOW)  # type: ignore[arg-type]
    assert found.hosts == {"worker 0": (42.0,)}
