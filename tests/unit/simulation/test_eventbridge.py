"""The simulated EventBridge: which rules an event matches, the input of their targets, and delivery times."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from simulation.aws.endpoint.api import ACCOUNT, REGION, Caller, Check, ServiceError
from simulation.aws.eventbridge import Delivery, EventBridge, Rule, Target
from simulation.world.world import World

HOST = Caller("i-1", "arn:aws:iam::123456789012:role/host")
FUNCTION = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:signal"
MACHINE = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:yard-retire"
QUEUE = f"arn:aws:sqs:{REGION}:{ACCOUNT}:dead"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/rule"


def rule(pattern: Mapping[str, Any] | None = None, name: str = "rule", **settings: Any) -> Rule:
    """Return a rule with one function."""
    given = {"targets": (Target("it", FUNCTION),), **settings}
    return Rule(name, f"arn:aws:events:{REGION}:{ACCOUNT}:rule/{name}", pattern=pattern, **given)


@dataclass
class Bus:
    """A world with only EventBridge. `refusals` are the errors of targets before they accept an event."""

    rules: list[Rule]
    refusals: list[ServiceError] = field(default_factory=list)
    deliveries: list[tuple[float, Delivery]] = field(default_factory=list)
    started: list[tuple[Caller, Mapping[str, Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world = World(1)
        self.begun = self.world.now
        self.events = EventBridge(
            self.world, self.rules, self.deliver, lambda *asked: self.started.append(asked), buses=["yard"]
        )

    @property
    def seconds(self) -> float:
        return (self.world.now - self.begun).total_seconds()

    def deliver(self, delivery: Delivery) -> None:
        if self.refusals:
            raise self.refusals.pop(0)
        self.deliveries.append((self.seconds, delivery))

    def put(self, *entries: Mapping[str, Any]) -> dict[str, Any]:
        return self.events.put_events(HOST, {"Entries": list(entries)})

    def go_on(self, seconds: float = 1) -> None:
        self.world.run(self.world.now + timedelta(seconds=seconds))

    def payloads(self) -> list[Any]:
        return [delivery.payload for _, delivery in self.deliveries]


ENTRY = {
    "Source": "trainyard.host",
    "DetailType": "ready",
    "Detail": '{"attempt": 1}',
    "EventBusName": "yard",
}


# ---------------------------------------------------------------------------------------------------------- patterns


def test_a_rule_whose_pattern_eventbridge_refuses_is_refused() -> None:
    with pytest.raises(ServiceError, match="Reason: Empty arrays are not allowed"):
        Bus([rule({"source": []})])


# ---------------------------------------------------------------------------------------------------------- put events


def test_an_event_reaches_the_rules_of_its_bus_in_a_moment() -> None:
    here, elsewhere = (
        rule({"source": ["trainyard.host"]}, bus="yard"),
        rule({"source": ["trainyard.host"]}, "other"),
    )
    bus = Bus([here, elsewhere])
    answer = bus.put(ENTRY)
    assert bus.deliveries == []
    bus.go_on()
    [(seconds, delivery)] = bus.deliveries
    assert 0.05 <= seconds <= 0.5
    assert (delivery.rule, delivery.target.arn) == (here, FUNCTION)
    assert delivery.payload == {
        "version": "0",
        "id": answer["Entries"][0]["EventId"],
        "detail-type": "ready",
        "source": "trainyard.host",
        "account": ACCOUNT,
        "time": "2026-01-05T08:00:00Z",
        "region": REGION,
        "resources": [],
        "detail": {"attempt": 1},
    }


def test_a_services_own_event_is_on_the_default_bus() -> None:
    bus = Bus([rule({"source": ["aws.ec2"], "detail": {"state": ["stopped"]}})])
    bus.events.emit("aws.ec2", "EC2 Instance State-change Notification", {"state": "stopped"}, ["arn:i"])
    bus.events.emit("aws.ec2", "EC2 Instance State-change Notification", {"state": "running"}, ["arn:i"])
    bus.go_on()
    assert [each["resources"] for each in bus.payloads()] == [["arn:i"]]


def test_an_invalid_entry_fails_without_the_others() -> None:
    bus = Bus([rule({"source": [{"prefix": "trainyard"}]}, bus="yard")])
    wrong = [{"Detail": "no json"}, {"Detail": "[1]"}, {"DetailType": ""}, {"Source": "aws.ec2"}]
    answer = bus.put(ENTRY, *({**ENTRY, **change} for change in wrong), ENTRY)
    codes = [entry.get("ErrorCode") for entry in answer["Entries"]]
    assert codes == [
        None,
        *("MalformedDetail", "MalformedDetail", "InvalidArgument", "NotAuthorizedForSourceException"),
        None,
    ]
    assert answer["FailedEntryCount"] == 4
    bus.go_on()
    assert len(bus.deliveries) == 2


@pytest.mark.parametrize(
    ("entries", "code"),
    [
        ([ENTRY] * 11, "ValidationException"),
        ([], "ValidationException"),
        ([{**ENTRY, "Detail": json.dumps({"x": "x" * 262_144})}], "ValidationException"),
        ([{**ENTRY, "EventBusName": "nobodys"}], "ResourceNotFoundException"),
        ([{**ENTRY, "TraceHeader": "x"}], "NotSimulated"),
    ],
)
def test_a_request_that_is_wrong_as_a_whole_is_refused(entries: list[Mapping[str, Any]], code: str) -> None:
    with pytest.raises(ServiceError) as refused:
        Bus([]).put(*entries)
    assert refused.value.code == code


def test_permissions_are_checked_for_each_entry() -> None:
    arn = f"arn:aws:events:{REGION}:{ACCOUNT}:event-bus"
    entries = [
        ENTRY,
        {**ENTRY, "EventBusName": f"{arn}/yard"},
        {"Source": "x", "DetailType": "y", "Detail": "{}"},
    ]
    checks = Bus([]).events.checks(HOST, "put_events", {"Entries": entries})
    said = {"events:source": "trainyard.host", "events:detail-type": "ready"}
    assert checks == [
        Check("events:PutEvents", f"{arn}/yard", said),
        Check("events:PutEvents", f"{arn}/yard", said),
        Check("events:PutEvents", f"{arn}/default", {"events:source": "x", "events:detail-type": "y"}),
        *(
            Check(
                "events:PutEvents",
                f"{arn}/{bus}",
                {"events:source": ["trainyard.host", "x"], "events:detail-type": ["ready", "y"]},
            )
            for bus in ("yard", "default")
        ),
    ]


# ---------------------------------------------------------------------------------------------------- fault and targets


@pytest.mark.parametrize(
    ("delays", "seconds"), [([], []), ([2.0], [2]), ([0.0, 3600.0], [0, 3600]), (None, [0])]
)
def test_an_event_may_be_lost_late_or_delivered_twice(delays: list[float] | None, seconds: list[int]) -> None:
    bus = Bus([rule({"source": ["trainyard.host"]}, bus="yard")])
    bus.events.delays = lambda *_: delays
    bus.put(ENTRY)
    bus.go_on(4000)
    assert [int(at) for at, _ in bus.deliveries] == seconds


TEMPLATE = '{"run":<run>,"n":<n>,"outcome":{"reason":"It ended as \\"<status>\\": <n> times."}}'
PATHS = {"run": "$.detail.name", "n": "$.detail.count", "status": "$.detail.status"}


def transformed(detail: Mapping[str, Any], template: str = TEMPLATE) -> Bus:
    target = Target("it", FUNCTION, paths=PATHS, template=template, dead_letters=QUEUE)
    bus = Bus([rule({"source": ["aws.states"]}, targets=(target,))])
    bus.events.emit("aws.states", "Status Change", detail)
    bus.go_on()
    return bus


def test_an_input_is_made_of_the_event() -> None:
    bus = transformed({"name": 'a "run"', "status": 'AB"ORTED', "count": 3})
    reason = 'It ended as "AB"ORTED": 3 times.'
    assert bus.payloads() == [{"run": 'a "run"', "n": 3, "outcome": {"reason": reason}}]


def test_an_input_that_is_no_json_for_want_of_a_value_is_a_dead_letter() -> None:
    bus = transformed({"status": "ABORTED"})
    [letter] = bus.events.dead_letters
    assert (bus.deliveries, letter.queue) == ([], QUEUE)
    assert "INVALID_JSON" in letter.error


def test_a_template_with_an_undefined_variable_is_refused() -> None:
    with pytest.raises(ServiceError, match="nobody"):
        transformed({}, '{"it": <nobody>}')


def test_a_machine_is_started_under_the_rules_role() -> None:
    target = Target("it", MACHINE, role=ROLE, input="{}")
    bus = Bus([rule({"source": ["trainyard.host"]}, bus="yard", targets=(target,))])
    bus.put(ENTRY)
    bus.go_on()
    assert bus.started == [(Caller("rule", ROLE), {"stateMachineArn": MACHINE, "input": "{}"})]


def test_a_rule_that_is_off_does_nothing() -> None:
    bus = Bus([rule({"source": ["trainyard.host"]}, bus="yard", enabled=False)])
    bus.put(ENTRY)
    bus.go_on()
    assert bus.deliveries == []


def refused_by(*refusals: ServiceError, **settings: Any) -> Bus:
    target = Target("it", FUNCTION, dead_letters=QUEUE, **settings)
    bus = Bus([rule({"source": ["trainyard.host"]}, bus="yard", targets=(target,))], list(refusals))
    bus.put(ENTRY)
    bus.go_on(4000)
    return bus


THROTTLED = ServiceError("TooManyRequestsException", "Rate exceeded", status=429)
BROKEN = ServiceError("ServiceException", "Oops", status=500)


def test_a_temporary_error_of_a_target_is_retried() -> None:
    bus = refused_by(THROTTLED, BROKEN)
    assert len(bus.deliveries) == 1
    assert bus.events.dead_letters == []


@pytest.mark.parametrize(
    ("refusals", "settings"),
    [
        ([THROTTLED] * 3, {"max_retries": 2}),
        ([THROTTLED] * 20, {"max_age": 60}),
        ([ServiceError("ResourceNotFoundException", "Function not found", status=404)], {}),
        ([ServiceError("AccessDeniedException", "not authorized", status=403)], {}),
    ],
)
def test_an_undeliverable_event_is_a_dead_letter(
    refusals: list[ServiceError], settings: dict[str, Any]
) -> None:
    bus = refused_by(*refusals, **settings)
    assert bus.deliveries == []
    [letter] = bus.events.dead_letters
    assert (letter.queue, letter.target, letter.event["detail"]) == (QUEUE, FUNCTION, {"attempt": 1})


# ------------------------------------------------------------------------------------------------------------ schedules


def test_a_schedule_goes_off_every_minute_and_is_no_sign_of_life() -> None:
    bus = Bus([rule(schedule="rate(1 minute)", name="EveryMinute")])
    bus.events.begin_schedules()
    bus.go_on(600)
    times = [at for at, _ in bus.deliveries]
    assert len(times) == 10
    assert all(59 < later - sooner < 61 for sooner, later in itertools.pairwise(times))
    event = bus.payloads()[0]
    assert (event["source"], event["detail-type"]) == ("aws.events", "Scheduled Event")
    assert not bus.world.busy()


def test_the_first_time_of_a_schedule_can_be_set() -> None:
    bus = Bus([rule(schedule="rate(1 day)", name="Daily")])
    bus.events.begin_schedules({"Daily": 3600})
    bus.go_on(86_400 + 3700)
    assert [round(at, -2) for at, _ in bus.deliveries] == [3600, 90_000]


def test_a_schedule_by_the_calendar_is_refused() -> None:
    bus = Bus([rule(schedule="cron(0 8 * * ? *)")])
    with pytest.raises(ServiceError, match="no schedule"):
        bus.events.begin_schedules()
