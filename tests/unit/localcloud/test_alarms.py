"""State of an alarm from the values of its periods and from missing values."""

import pytest

from localcloud.services.cloudwatch.alarms import state_of

A, O, N = "ALARM", "OK", "INSUFFICIENT_DATA"  # noqa: E741 - as short as a table wants them


@pytest.mark.parametrize(
    ("values", "missing", "enough", "expected"),
    [
        pytest.param([2.0], "missing", None, A, id="at the threshold or above"),
        pytest.param([0.0], "missing", None, O, id="below"),
        pytest.param([2.0, 0.0], "missing", None, O, id="not in each period"),
        pytest.param([2.0, 0.0], "missing", 1, A, id="in as many as are asked for"),
        pytest.param([None], "missing", None, N, id="nothing is nothing"),
        pytest.param([None], "notBreaching", None, O, id="nothing is well"),
        pytest.param([None], "breaching", None, A, id="nothing is bad"),
        pytest.param([None], "ignore", None, O, id="nothing changes nothing"),
        pytest.param([None, 2.0], "notBreaching", None, O, id="one bad period of two"),
        pytest.param([None, 2.0], "breaching", None, A, id="one bad, one missing"),
    ],
)
def test_the_state_follows_from_the_periods(
    values: list[float | None], missing: str, enough: int | None, expected: str
) -> None:
    alarm = {
        "ComparisonOperator": "GreaterThanOrEqualToThreshold",
        "Threshold": 1.0,
        "TreatMissingData": missing,
        "DatapointsToAlarm": enough,
        "StateValue": O,
    }
    assert state_of(alarm, values) == expected
