"""EventBridge: events, rules, schedules, and delivery to targets, which may be delayed or fail.

Retries of a rule cover the delivery only. Lambda itself retries a function that fails on an event.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from localcloud.base import event_entries
from localcloud.services.eventbridge.patterns import InvalidPatternError, compile_pattern
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
from simulation.aws.input_transformers import Event, make_input
from simulation.world.world import World

Matcher = Callable[[Event], bool]
DEFAULT_BUS = "default"
DELIVERY_SECONDS = (0.05, 0.5)
MOST_ENTRIES = 10
ENTRY_FIELDS = frozenset({"Source", "DetailType", "Detail", "EventBusName", "Time", "Resources"})
RETRIED = frozenset(
    {"ThrottlingException", "TooManyRequestsException", "ServiceException", "InternalFailure"}
)
"""Temporary errors of a target, besides every 5xx. All other errors send the event to the dead-letter queue at
once."""
LONGEST_PAUSE = 600.0
SECONDS = {"minute": 60, "hour": 3600, "day": 86_400}


@dataclass(frozen=True)
class Target:
    id: str
    arn: str
    role: str | None = None
    input: str | None = None
    """A constant that replaces the event."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """The paths of an InputTransformer."""
    template: str | None = None
    """The template of an InputTransformer."""
    max_retries: int = 185
    max_age: float = 86_400.0
    dead_letters: str | None = None
    """The ARN of the queue."""

    @property
    def is_function(self) -> bool:
        return ":lambda:" in self.arn


@dataclass(frozen=True)
class Rule:
    """A rule of a template, with a `pattern` or a `schedule`."""

    name: str
    arn: str
    bus: str = DEFAULT_BUS
    pattern: Mapping[str, Any] | None = None
    schedule: str | None = None
    targets: tuple[Target, ...] = ()
    enabled: bool = True


@dataclass(frozen=True)
class Delivery:
    """An event as a target receives it."""

    rule: Rule
    target: Target
    event: Event
    payload: Any


@dataclass(frozen=True)
class DeadLetter:
    """An event that could not be delivered."""

    at: datetime
    queue: str | None
    """None: the event is lost."""
    rule: str
    target: str
    event: Event
    error: str


class EventBridge:
    """The EventBridge service.

    `deliver` invokes a function asynchronously; `start` starts an execution with the rule's role. Both raise
    ServiceError if the target refuses.
    """

    def __init__(
        self,
        world: World,
        rules: Iterable[Rule],
        deliver: Callable[[Delivery], object],
        start: Callable[[Caller, Request], object] | None = None,
        *,
        buses: Iterable[str] = (),
    ) -> None:
        self.world = world
        self.rules = [rule for rule in rules if rule.enabled]
        self.dead_letters: list[DeadLetter] = []
        self.delays: Callable[[Event, Rule, Target], Sequence[float] | None] = _usual_delay
        """Hook of the fault plan: the delay in seconds of each delivery of the event; None: the usual delay."""
        self.under_way = 0
        """The number of undelivered events, without schedules."""
        self._deliver, self._start = deliver, start
        self._buses = {DEFAULT_BUS, *buses, *(rule.bus for rule in self.rules)}
        self._inputs = {
            (rule.arn, target.id): make_input(target.input, target.template, target.paths)
            for rule in self.rules
            for target in rule.targets
        }
        self._matchers: dict[tuple[str, str], list[tuple[Rule, Matcher]]] = {}
        for rule in self.rules:
            self._remember(rule)

    # --------------------------------------------------------------------------------------------------- operations

    def checks(self, caller: Caller, operation: str, request: Mapping[str, Any]) -> list[Check]:
        if operation != "put_events":
            raise ServiceError("NotSimulated", f"events has no {operation} in the simulator")
        entries = request["Entries"]
        buses = [f"arn:{PARTITION}:events:{REGION}:{ACCOUNT}:event-bus/{_bus_of(each)}" for each in entries]
        contexts = [
            {
                "events:source": str(entry.get("Source", "")),
                "events:detail-type": str(entry.get("DetailType", "")),
            }
            for entry in entries
        ]
        checks = [Check("events:PutEvents", bus, each) for bus, each in zip(buses, contexts, strict=True)]
        if len({tuple(each.values()) for each in contexts}) > 1:
            whole = {key: _merge_values([each[key] for each in contexts]) for key in contexts[0]}
            checks += [Check("events:PutEvents", bus, whole) for bus in dict.fromkeys(buses)]
        return checks

    def put_events(self, caller: Caller, request: Request) -> Answer:
        """Put the entries. An invalid entry fails without affecting the others."""
        if set(request) != {"Entries"}:
            raise ServiceError(
                "NotSimulated",
                f"the simulator does not model {sorted(set(request) - {'Entries'})} of PutEvents",
            )
        entries = request["Entries"]
        if not 0 < len(entries) <= MOST_ENTRIES:
            raise ServiceError("ValidationException", "Member must have length between 1 and 10 at 'entries'")
        if event_entries.are_too_large(entries):
            raise ServiceError("ValidationException", event_entries.TOO_LARGE)
        answers = [self._put(entry) for entry in entries]
        return {"FailedEntryCount": sum("ErrorCode" in answer for answer in answers), "Entries": answers}

    def emit(
        self, source: str, detail_type: str, detail: Mapping[str, Any], resources: Sequence[str] = ()
    ) -> None:
        """Emit an event of an AWS service on the default bus of the account."""
        self._route(self._event(source, detail_type, detail, resources), DEFAULT_BUS)

    def begin_schedules(self, phases: Mapping[str, float] | None = None) -> None:
        """Start all schedules. The first event comes within the period, at random or at the seconds given by
        `phases` for the rule."""
        for rule in self.rules:
            if rule.schedule is not None:
                period = _period(rule.schedule)
                drawn = self.world.chance(f"events/{rule.name}").uniform(0, period)
                self._plan_schedule(rule, period, (phases or {}).get(rule.name, drawn))

    # ------------------------------------------------------------------------------------------------ events to rules

    def _put(self, entry: Mapping[str, Any]) -> dict[str, str]:
        unknown = sorted(set(entry) - ENTRY_FIELDS)
        if unknown:
            raise ServiceError("NotSimulated", f"the simulator does not model {unknown} in an entry")
        fault = event_entries.fault_of(entry) or _refuse_aws_source(entry)
        if fault:
            return fault
        bus = _bus_of(entry)
        if bus not in self._buses:
            raise ServiceError("ResourceNotFoundException", f"Event bus {bus} does not exist.")
        event = self._event(
            entry["Source"],
            entry["DetailType"],
            json.loads(entry["Detail"]),
            entry.get("Resources", ()),
            entry.get("Time"),
        )
        self._route(event, bus)
        return {"EventId": event["id"]}

    def _event(
        self,
        source: str,
        detail_type: str,
        detail: Mapping[str, Any],
        resources: Sequence[str],
        time: datetime | None = None,
    ) -> Event:
        number = self.world.new_id("event/", 12).removeprefix("event/")
        return {
            "version": "0",
            "id": f"00000000-0000-4000-8000-{number}",
            "detail-type": detail_type,
            "source": source,
            "account": ACCOUNT,
            "time": _to_seconds(time or self.world.now),
            "region": REGION,
            "resources": list(resources),
            "detail": detail,
        }

    def _remember(self, rule: Rule) -> None:
        if any(not target.is_function and self._start is None for target in rule.targets):
            raise ValueError(f"{rule.name} starts executions: EventBridge needs `start`")
        if rule.pattern is None:
            return
        matches = compile_matcher(rule.pattern)
        sources = rule.pattern.get("source", [""])
        plain = [source for source in sources if isinstance(source, str)]
        for source in plain if len(plain) == len(sources) else [""]:
            self._matchers.setdefault((rule.bus, source), []).append((rule, matches))

    def _route(self, event: Event, bus: str) -> None:
        for source in (event["source"], ""):
            for rule, matches in self._matchers.get((bus, source), ()):
                if matches(event):
                    self._plan(rule, event)

    def _plan_schedule(self, rule: Rule, period: float, seconds: float) -> None:
        def goes_off() -> None:
            self._plan_schedule(rule, period, period)
            event = self._event("aws.events", "Scheduled Event", {}, [rule.arn])
            self._plan(rule, event, standing=True)

        self.world.after(seconds, goes_off, what=f"{rule.name} goes off", standing=True)

    # ---------------------------------------------------------------------------------------------- rules to targets

    def _plan(self, rule: Rule, event: Event, *, standing: bool = False) -> None:
        for target in rule.targets:
            delays = self.delays(event, rule, target)
            if delays is None:
                delays = (self.world.chance("events").uniform(*DELIVERY_SECONDS),)
            for delay in delays:
                self._plan_delivery(rule, target, event, delay, standing=standing)

    def _plan_delivery(
        self, rule: Rule, target: Target, event: Event, delay: float, *, standing: bool
    ) -> None:
        def deliver() -> None:
            self.under_way -= not standing
            self._try(rule, target, event, since=self.world.now, tries=0)

        self.under_way += not standing
        self.world.after(delay, deliver, what=f"{rule.name} delivers", standing=standing)

    def _try(self, rule: Rule, target: Target, event: Event, *, since: datetime, tries: int) -> None:
        try:
            payload = self._inputs[rule.arn, target.id](event)
            self._hand_over(Delivery(rule, target, event, payload))
        except ServiceError as error:
            self._refused(rule, target, event, error, since=since, tries=tries)

    def _hand_over(self, delivery: Delivery) -> None:
        if delivery.target.is_function:
            self._deliver(delivery)
            return
        assert self._start is not None
        assert delivery.target.role is not None
        caller = Caller(delivery.rule.name, delivery.target.role)
        self._start(caller, {"stateMachineArn": delivery.target.arn, "input": json.dumps(delivery.payload)})

    def _refused(
        self, rule: Rule, target: Target, event: Event, error: ServiceError, *, since: datetime, tries: int
    ) -> None:
        pause = self.world.chance("events").uniform(0.5, 1) * min(2.0**tries, LONGEST_PAUSE)
        age = (self.world.now - since).total_seconds() + pause
        passes = error.status >= 500 or error.code in RETRIED
        if passes and tries < target.max_retries and age <= target.max_age:
            again = tries + 1
            self.world.after(
                pause,
                lambda: self._try(rule, target, event, since=since, tries=again),
                what=f"{rule.name} delivers again",
            )
            return
        self.world.note(rule.name, "cannot deliver an event", error=str(error))
        letter = DeadLetter(self.world.now, target.dead_letters, rule.name, target.arn, event, str(error))
        self.dead_letters.append(letter)


def _usual_delay(event: Event, rule: Rule, target: Target) -> Sequence[float] | None:
    return None


def _to_seconds(when: datetime) -> str:
    return when.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _period(schedule: str) -> float:
    """Return the seconds of a rate such as `rate(1 minute)`."""
    found = re.fullmatch(r"rate\((\d+) (minute|hour|day)s?\)", schedule)
    if not found:
        raise ServiceError("NotSimulated", f"the simulator has no schedule {schedule!r}")
    return timedelta(seconds=int(found[1]) * SECONDS[found[2]]).total_seconds()


def _bus_of(entry: Mapping[str, Any]) -> str:
    """Return the name of the bus, given a name or an ARN."""
    return str(entry.get("EventBusName") or DEFAULT_BUS).rpartition("event-bus/")[2]


def _refuse_aws_source(entry: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the error of an entry with a source that is reserved for AWS; None otherwise."""
    if not entry["Source"].startswith("aws."):
        return None
    contexts = f"Not authorized for the source {entry['Source']}."
    return {"ErrorCode": "NotAuthorizedForSourceException", "ErrorMessage": contexts}


def compile_matcher(pattern: Mapping[str, Any]) -> Matcher:
    """Compile an event pattern. Raises ServiceError if EventBridge refuses it."""
    try:
        return compile_pattern(pattern).matches
    except InvalidPatternError as reason:
        refusal = f"Event pattern is not valid. Reason: {reason}"
        raise ServiceError("InvalidEventPatternException", refusal) from reason


def _merge_values(values: list[str]) -> str | list[str]:
    """Return the common value, or a list of the different ones. AWS's reference calls both keys of PutEvents
    arrays."""
    found = list(dict.fromkeys(values))
    return found[0] if len(found) == 1 else found
