"""Alarms, evaluated by metric, dimensions and periods at each metric interval (once a minute by default, as on AWS).

ministack merges all dimensions and periods of a metric, evaluates only when data arrives, and ignores missing data.
"""

from __future__ import annotations

import logging
import operator
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ministack.core.responses import request_scope
from ministack.services import cloudwatch as stock

from localcloud.base.background import in_background
from localcloud.base.context import Context
from localcloud.patches import MINISTACK
from localcloud.services.cloudwatch import metrics

log = logging.getLogger(__name__)

BREACHES: Mapping[str, Callable[[float, float], bool]] = {
    "GreaterThanOrEqualToThreshold": operator.ge,
    "GreaterThanThreshold": operator.gt,
    "LessThanThreshold": operator.lt,
    "LessThanOrEqualToThreshold": operator.le,
}
STATES_WITHOUT_DATA = {"breaching": "ALARM", "notBreaching": "OK", "missing": "INSUFFICIENT_DATA"}
"""State of an alarm without any data, by TreatMissingData. `ignore` keeps the last state."""


def install(context: Context) -> None:
    """Replace ministack's evaluation of alarms."""
    stock_put = MINISTACK.stock("services.cloudwatch:_put_metric_alarm")

    def put(
        params: Mapping[str, Any], request: Mapping[str, Any], is_cbor: bool, is_json: bool = False
    ) -> Any:
        """Refuse alarms on expressions, which ministack would store as alarms without a metric."""
        if (request or {}).get("Metrics") or any(name.startswith("Metrics.") for name in params or ()):
            refusal = "The local cloud does not support expressions: an alarm needs one metric."
            return stock._error("ValidationError", refusal, 400, is_json, is_cbor)
        return stock_put(params, request, is_cbor, is_json)

    MINISTACK.replace("services.cloudwatch:_put_metric_alarm", put)
    MINISTACK.replace("services.cloudwatch:_evaluate_alarm", _keep_state_without_data)
    in_background("alarms", lambda: _look_forever(context.settings.metrics.interval_seconds))


def _keep_state_without_data(alarm: dict[str, Any]) -> None:
    """Leave the state of an alarm without data unchanged. ministack calls this when data arrives."""
    values = values_of(alarm, time.time())
    if any(value is not None for value in values):
        judge(alarm, values)


def _look_forever(seconds: float) -> None:
    while True:
        time.sleep(seconds)
        metrics.sweep()
        try:
            for (account, region, _), alarm in list(stock._alarms.all_items()):
                with request_scope(account, region):
                    judge(alarm, values_of(alarm, time.time()))
        except Exception:  # one failed evaluation must not stop the thread
            log.exception("alarms were not evaluated")


def values_of(alarm: Mapping[str, Any], now: float) -> list[float | None]:
    """Return the statistic of each evaluation period, newest last; None for a period without data."""
    if not alarm.get("MetricName"):
        return []
    period, count = int(alarm["Period"]), int(alarm["EvaluationPeriods"])
    statistic = str(alarm.get("ExtendedStatistic") or alarm.get("Statistic") or "Average")
    points = metrics.points_of(alarm, alarm.get("Unit"))
    found: list[float | None] = []
    for number in range(count, 0, -1):
        begin = now - number * period
        bucket = [point for point in points if begin < point["Timestamp"] <= begin + period]
        found.append(metrics.value_of(bucket, statistic) if bucket else None)
    return found


def state_of(alarm: Mapping[str, Any], values: Sequence[float | None]) -> str:
    """Return OK, ALARM or INSUFFICIENT_DATA."""
    missing = str(alarm.get("TreatMissingData") or "missing")
    known = [value for value in values if value is not None]
    if not known:
        return STATES_WITHOUT_DATA.get(missing, str(alarm["StateValue"]))
    breaches, threshold = BREACHES[str(alarm["ComparisonOperator"])], float(alarm["Threshold"])
    bad = sum(breaches(value, threshold) for value in known)
    bad += (len(values) - len(known)) * (missing == "breaching")
    return "ALARM" if bad >= int(alarm.get("DatapointsToAlarm") or len(values)) else "OK"


def judge(alarm: dict[str, Any], values: Sequence[float | None]) -> None:
    """Set the alarm's state. A change notifies the alarm's actions."""
    if not values or alarm.get("ComparisonOperator") not in BREACHES:
        return
    before, after = str(alarm["StateValue"]), state_of(alarm, values)
    if before == after:
        return
    reason = (
        f"Threshold Crossed: {list(values)} {alarm['ComparisonOperator']} {alarm['Threshold']} "
        f"(no data is {alarm.get('TreatMissingData') or 'missing'})"
    )
    alarm.update(StateValue=after, StateReason=reason, StateUpdatedTimestamp=int(time.time()))
    stock._record_history(alarm["AlarmName"], before, after, reason)
    stock._dispatch_alarm_actions(alarm, before, after, reason)
    stock._evaluate_parent_alarms(alarm)
