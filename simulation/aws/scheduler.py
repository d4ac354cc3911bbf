"""EventBridge Scheduler: schedules with cron expressions, whose times reach a function at least once.

AWS promises at least one delivery. The simulator delivers each time twice, the second time after the next one, unless a
test changes `delays`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from simulation.aws.endpoint.api import (
    ACCOUNT,
    PARTITION,
    REGION,
    Answer,
    Caller,
    Check,
    Request,
    ServiceError,
)
from simulation.aws.endpoint.parameters import not_simulated, only
from simulation.aws.iam import Iam
from simulation.world.world import World
from trainyard.core.model import cron

KNOWN = (
    "GroupName",
    "Name",
    "ScheduleExpression",
    "ScheduleExpressionTimezone",
    "FlexibleTimeWindow",
    "State",
    "Target",
    "ClientToken",
)
ACTIONS = {
    "create_schedule": "scheduler:CreateSchedule",
    "update_schedule": "scheduler:UpdateSchedule",
    "delete_schedule": "scheduler:DeleteSchedule",
}
SCHEDULED_TIME = "<aws.scheduler.scheduled-time>"
SIX = re.compile(r"cron\((\S+) (\S+) (\S+) (\S+) (\S+) \*\)")


class Scheduler:
    def __init__(self, world: World, iam: Iam, call: Callable[[str, Mapping[str, Any]], None]) -> None:
        self.world, self._iam, self._call = world, iam, call
        self.schedules: dict[tuple[str, str], Request] = {}
        self.delivered: list[datetime] = []
        self._delivered_to: dict[str, set[datetime]] = {}
        self.delays: Callable[[int], tuple[float, ...]] = lambda number: (1.0, 3700.0)
        """The seconds from the nth time of all schedules to its deliveries. No delay: the time is lost."""
        self._times = 0

        self.on_time: Callable[[str], Sequence[float] | None] = lambda name: None
        """Returns the delays of a time of a schedule instead; None for `delays`."""
        self.under_way = 0
        """The number of deliveries that are planned."""

    def names(self) -> frozenset[str]:
        """Return the names of all schedules."""
        return frozenset(name for _, name in self.schedules)

    def delivered_to(self, name: str) -> frozenset[datetime]:
        """Return the times of a schedule that were delivered."""
        return frozenset(self._delivered_to.get(name, ()))

    def checks(self, caller: Caller, operation: str, request: Mapping[str, Any]) -> list[Check]:
        if operation not in ACTIONS:
            raise not_simulated(f"scheduler.{operation}")
        name = f"{request['GroupName']}/{request['Name']}"
        found = [
            Check(ACTIONS[operation], f"arn:{PARTITION}:scheduler:{REGION}:{ACCOUNT}:schedule/{name}", {})
        ]
        if target := request.get("Target"):
            passed = {"iam:passedtoservice": "scheduler.amazonaws.com"}
            found.append(Check("iam:PassRole", str(target["RoleArn"]), passed))
        return found

    def create_schedule(self, caller: Caller, request: Request) -> Answer:
        if _key(request) in self.schedules:
            raise ServiceError("ConflictException", f"Schedule {request['Name']} already exists.", status=409)
        return self._put(request)

    def update_schedule(self, caller: Caller, request: Request) -> Answer:
        self._require(request)
        return self._put(request)

    def delete_schedule(self, caller: Caller, request: Request) -> Answer:
        self._require(request)
        del self.schedules[_key(request)]
        return {}

    def _require(self, request: Request) -> None:
        if _key(request) not in self.schedules:
            raise ServiceError(
                "ResourceNotFoundException", f"Schedule {request['Name']} does not exist.", status=404
            )

    def _put(self, request: Request) -> Answer:
        only(request, KNOWN, "Schedule")
        self._next(request, self.world.now)
        kept = {**request}
        self.schedules[_key(request)] = kept
        self._plan(kept)
        return {"ScheduleArn": f"arn:{PARTITION}:scheduler:{REGION}:{ACCOUNT}:schedule/{request['Name']}"}

    def _next(self, request: Request, after: datetime) -> datetime:
        found = SIX.fullmatch(request["ScheduleExpression"])
        if found is None:
            raise ServiceError("ValidationException", "Invalid Schedule Expression.")
        minutes, hours, days, months, weekdays = found.groups()
        five = " ".join(
            (minutes, hours, days, months, re.sub(r"\d+", lambda n: str(int(n[0]) - 1), weekdays))
        )
        return cron.next_times(five, request["ScheduleExpressionTimezone"], after)[0]

    def _plan(self, schedule: Request) -> None:
        at = self._next(schedule, self.world.now)
        seconds = (at - self.world.now).total_seconds()
        self.world.after(seconds, lambda: self._fire(schedule, at), what="a time comes", standing=True)

    def _fire(self, schedule: Request, at: datetime) -> None:
        """Deliver one time, unless the schedule was replaced meanwhile."""
        if self.schedules.get(_key(schedule)) is not schedule:
            return
        self._plan(schedule)
        if schedule["State"] != "ENABLED":
            return
        self._times += 1
        instead = self.on_time(schedule["Name"])
        for delay in self.delays(self._times) if instead is None else instead:
            self.under_way += 1
            self.world.after(delay, lambda: self._deliver(schedule, at), what="a time arrives", standing=True)

    def _deliver(self, schedule: Request, at: datetime) -> None:
        self.under_way -= 1
        target = schedule["Target"]
        caller = Caller("scheduler", target["RoleArn"])
        if not self._iam.may(caller, Check("lambda:InvokeFunction", target["Arn"], {})):
            raise AssertionError(f"{target['RoleArn']} may not call {target['Arn']}")
        self.world.note("scheduler", "delivers a time", at=f"{at:%H:%M}", of=schedule["Name"])
        self.delivered.append(at)
        self._delivered_to.setdefault(schedule["Name"], set()).add(at)
        self._call(
            target["Arn"], json.loads(target["Input"].replace(SCHEDULED_TIME, f"{at:%Y-%m-%dT%H:%M:%SZ}"))
        )


def _key(request: Mapping[str, Any]) -> tuple[str, str]:
    return request["GroupName"], request["Name"]
