"""EventBridge Scheduler: strict expressions and zones, and deliveries at the times that AWS documents.

ministack ignores time zones, accepts any expression, and sends the input without its context attributes. AWS skips a
time that the clock skips, and delivers a time that the clock shows twice only once (User Guide, schedule types).
"""

from __future__ import annotations

import json
import logging
import re
import time
import zoneinfo
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ministack.core.responses import (
    get_account_id,
    get_region,
    new_uuid,
    set_request_account_id,
    set_request_region,
)
from ministack.services import eventbridge
from ministack.services import scheduler as stock

from localcloud.patches import MINISTACK

log = logging.getLogger(__name__)

UTC_ZONE = "UTC"
NAME = r"[0-9a-zA-Z_.-]{1,64}"
AT = r"at\(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\)"
RATE = r"rate\([1-9]\d* (minutes?|hours?|days?)\)"
USUAL_AGE = 86_400
"""The default of MaximumEventAgeInSeconds."""
RESTART_SECONDS = 60.0
"""How far back a restarted server delivers times."""
MOST_SKIPPED = 10
"""The most consecutive times that a change of the clock skips or repeats."""


def install() -> None:
    stock_create = MINISTACK.stock("services.scheduler:_create_schedule")
    stock_update = MINISTACK.stock("services.scheduler:_update_schedule")

    def create_schedule(name: str, body: dict[str, Any]) -> Any:
        wrong = refusal(name, body)
        return stock._error(400, "ValidationException", wrong) if wrong else stock_create(name, body)

    def update_schedule(name: str, body: dict[str, Any]) -> Any:
        wrong = refusal(name, body)
        if wrong:
            return stock._error(400, "ValidationException", wrong)
        answer = stock_update(name, body)
        stock._schedule_last_fired.pop((get_account_id(), get_region(), f"{_group(body)}/{name}"), None)
        return answer

    MINISTACK.replace("services.scheduler:_create_schedule", create_schedule)
    MINISTACK.replace("services.scheduler:_update_schedule", update_schedule)
    MINISTACK.replace("services.scheduler:_tick_schedules", lambda: deliver_due(time.time()))


def refusal(name: str, body: Mapping[str, Any]) -> str | None:
    """Return why AWS refuses the schedule."""
    expression, zone = (
        str(body.get("ScheduleExpression", "")),
        body.get("ScheduleExpressionTimezone", UTC_ZONE),
    )
    if not re.fullmatch(NAME, name):
        return f"Value '{name}' at 'name' failed to satisfy constraint"
    if not re.fullmatch(f"{AT}|{RATE}", expression) and not is_cron(expression):
        return f"Invalid Schedule Expression {expression}."
    if zone not in zoneinfo.available_timezones():
        return f"Provided ScheduleExpressionTimezone is invalid: {zone}"
    if (body.get("FlexibleTimeWindow") or {}).get("Mode") not in ("OFF", "FLEXIBLE"):
        return "Value at 'flexibleTimeWindow.mode' failed to satisfy constraint"
    if body.get("State", "ENABLED") not in ("ENABLED", "DISABLED"):
        return "Value at 'state' failed to satisfy constraint"
    given = (body.get("Target") or {}).get("Input")
    if given is not None and not _is_json(given):
        return "Invalid Target Input: it must be valid JSON."
    return None


def is_cron(expression: str) -> bool:
    """Return True for six valid fields in at most 256 characters. Exactly one of both days is `?`."""
    found = re.fullmatch(r"cron\((\S+ \S+ (\S+) \S+ (\S+) \S+)\)", expression)
    if found is None or len(expression) > 256 or (found[2] == "?") == (found[3] == "?"):
        return False
    return eventbridge._parse_cron_fields(expression) is not None


def next_time(expression: str, zone: str, after: datetime) -> datetime | None:
    """Return the next time of a cron expression in a zone after a time, in UTC."""
    fields, place = eventbridge._parse_cron_fields(expression), zoneinfo.ZoneInfo(zone)
    shown: datetime | None = after.astimezone(place).replace(tzinfo=UTC, fold=0)
    for _ in range(MOST_SKIPPED):
        shown = eventbridge._cron_next_fire(fields, shown)
        if shown is None:
            return None
        local = shown.replace(tzinfo=place, fold=0)
        moment: datetime = local.astimezone(UTC)
        exists = moment.astimezone(place).replace(tzinfo=None) == local.replace(tzinfo=None)
        if exists and moment > after:
            return moment
    return None


def deliver_due(now: float) -> None:
    """Deliver the due time of each schedule, and skip times that are older than the schedule's event age."""
    account, region = get_account_id(), get_region()
    try:
        for key, schedule in list(stock._schedules._data.items()):
            set_request_account_id(key[0])
            set_request_region(key[1])
            due = _due(key, schedule, now)
            if due is not None:
                _deliver(schedule, due)
                if (
                    schedule.get("ActionAfterCompletion") == "DELETE"
                    and schedule["ScheduleExpression"][0] == "a"
                ):
                    stock._schedules._data.pop(key, None)
    finally:
        set_request_account_id(account)
        set_request_region(region)


def _due(key: Any, schedule: Mapping[str, Any], now: float) -> datetime | None:
    """Return the time to deliver now, and remember it."""
    if schedule.get("State") != "ENABLED":
        stock._schedule_last_fired.pop(key, None)
        return None
    start, end = (stock._to_epoch(schedule.get(name)) for name in ("StartDate", "EndDate"))
    if (start is not None and now < start) or (end is not None and now > end):
        return None
    policy = (schedule.get("Target") or {}).get("RetryPolicy") or {}
    age = float(policy.get("MaximumEventAgeInSeconds", USUAL_AGE))
    first = float(schedule.get("LastModificationDate") or now)
    last = max(stock._schedule_last_fired.setdefault(key, max(first, now - RESTART_SECONDS)), now - age)
    due = _after(
        str(schedule["ScheduleExpression"]), str(schedule["ScheduleExpressionTimezone"]), last, first
    )
    if due is None or due > now:
        return None
    stock._schedule_last_fired[key] = due
    return datetime.fromtimestamp(due, UTC)


def _after(expression: str, zone: str, last: float, first: float) -> float | None:
    if expression.startswith("at"):
        local = datetime.fromisoformat(expression[3:-1]).replace(tzinfo=zoneinfo.ZoneInfo(zone))
        return local.timestamp() if last <= first and local.timestamp() != last else None
    seconds = eventbridge._parse_rate_seconds(expression)
    if seconds is not None:
        return last + float(seconds)
    found = next_time(expression, zone, datetime.fromtimestamp(last, UTC))
    return found.timestamp() if found else None


def _deliver(schedule: Mapping[str, Any], at: datetime) -> None:
    target = dict(schedule.get("Target") or {})
    if target.get("Input"):
        attributes = {
            "schedule-arn": str(schedule["Arn"]),
            "scheduled-time": f"{at:%Y-%m-%dT%H:%M:%SZ}",
            "execution-id": new_uuid(),
            "attempt-number": "1",
        }
        for word, value in attributes.items():
            target["Input"] = target["Input"].replace(f"<aws.scheduler.{word}>", value)
    event = {
        "EventId": new_uuid(),
        "Source": "aws.scheduler",
        "DetailType": "Scheduled Event",
        "Detail": "{}",
        "Time": at.timestamp(),
        "Resources": [schedule["Arn"]],
        "Account": get_account_id(),
        "Region": get_region(),
    }
    try:
        eventbridge._invoke_target(target, event, schedule)
    except Exception:
        log.exception("the schedule %s was not delivered", schedule["Arn"])


def _group(body: Mapping[str, Any]) -> str:
    return str(body.get("GroupName", "default"))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
