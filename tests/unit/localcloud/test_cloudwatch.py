"""Periods and pages of GetMetricData."""

from typing import Any

import pytest

from localcloud.services.cloudwatch.metrics import Series, buckets, page_of


def points(*times: float) -> list[dict[str, Any]]:
    return [{"Timestamp": at, "Value": at} for at in times]


@pytest.mark.parametrize(
    ("start", "end", "period", "expected"),
    [
        pytest.param(600, 1200, 300, {600: [600, 899], 900: [900]}, id="start is in, end is out"),
        pytest.param(659, 1200, 300, {600: [600, 899], 900: [900]}, id="rounded down to the minute"),
        pytest.param(
            660, 1300, 300, {660: [899, 900], 960: [1200]}, id="periods begin where the request does"
        ),
        pytest.param(897, 902, 5, {895: [899], 900: [900]}, id="rounded down to a short period"),
        pytest.param(2000, 3000, 60, {}, id="a period without a point is not there"),
    ],
)
def test_points_fall_into_periods(
    start: float, end: float, period: int, expected: dict[float, list[float]]
) -> None:
    found = buckets(points(599, 600, 899, 900, 1200), start, end, period)
    assert {at: [point["Timestamp"] for point in bucket] for at, bucket in found} == expected


def series(name: str, count: int) -> Series:
    return Series(name, name, [60.0 * n for n in range(count)], [float(n) for n in range(count)])


def pages(all_series: list[Series], most: int) -> list[list[tuple[str, int, str]]]:
    """Return for each page: query, number of datapoints, status."""
    found, start = [], 0
    while True:
        results, token = page_of(all_series, start, most)
        found.append([(r["Id"], len(r["Values"]), r["StatusCode"]) for r in results])
        if token is None:
            return found
        start = int(token)


@pytest.mark.parametrize(
    ("counts", "most", "expected"),
    [
        pytest.param((2, 3), 10, [[("a", 2, "Complete"), ("b", 3, "Complete")]], id="all at once"),
        pytest.param(
            (0, 0), 10, [[("a", 0, "Complete"), ("b", 0, "Complete")]], id="nothing is an answer too"
        ),
        pytest.param(
            (2, 0), 2, [[("a", 2, "Complete"), ("b", 0, "Complete")]], id="an empty one at the very end"
        ),
        pytest.param(
            (2, 0, 1),
            2,
            [[("a", 2, "Complete")], [("b", 0, "Complete"), ("c", 1, "Complete")]],
            id="empty between",
        ),
        pytest.param(
            (5,),
            2,
            [[("a", 2, "PartialData")], [("a", 2, "PartialData")], [("a", 1, "Complete")]],
            id="one over pages",
        ),
    ],
)
def test_every_datapoint_is_on_one_page(
    counts: tuple[int, ...], most: int, expected: list[list[tuple[str, int, str]]]
) -> None:
    assert pages([series(name, count) for name, count in zip("abc", counts, strict=False)], most) == expected
