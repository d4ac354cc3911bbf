"""A service of AWS is down for three minutes for functions and hosts, and a run still succeeds at its first
attempt."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from simulation.aws.endpoint.api import Caller, ServiceError
from simulation.aws.stepfunctions import Execution
from simulation.invariants.model import Invariant
from simulation.scenarios import SCENARIOS
from simulation.simulate import simulate
from simulation.template import YardTemplate
from simulation.yard import Yard

OUTAGE = timedelta(seconds=180)
EVERYWHERE = ("Launch", "AwaitHosts", "Release", "Conclude")
OUTAGES = [
    *(
        (service, state)
        for service in ("s3", "dynamodb", "events", "sts", "ssm", "ec2")
        for state in EVERYWHERE
    ),
    *((service, "Train") for service in ("dynamodb", "sts", "ssm", "ec2")),
]


def with_outage(service: str, state: str, ends: list[datetime]) -> Callable[[Yard], None]:
    """Return the start of a train run whose service fails when the state is first entered. `ends` receives the end
    of the outage."""

    def begin(yard: Yard) -> None:
        enter, throttle = yard.stepfunctions.on_state, yard.gateway.throttle

        def entered(execution: Execution, name: str, what: str) -> None:
            if (name, what) == (state, "entered") and not ends:
                ends.append(yard.world.now + OUTAGE)
            enter(execution, name, what)

        def refused(caller: Caller, operation: str, request: Mapping[str, Any]) -> ServiceError | None:
            is_down = ends and yard.world.now < ends[0]
            if is_down and caller.role != "root" and operation.startswith(f"{service}."):
                return ServiceError("ServiceUnavailable", "Service is unavailable", status=503)
            return throttle(caller, operation, request)

        yard.stepfunctions.on_state, yard.gateway.throttle = entered, refused
        SCENARIOS["train"].begin(yard)

    return begin


@pytest.mark.parametrize(("service", "state"), OUTAGES)
def test_an_outage_of_three_minutes_costs_no_attempt(yard: YardTemplate, service: str, state: str) -> None:
    """Retries may take more transitions than a run without faults; every other invariant holds."""
    attempts: list[int] = []
    ends: list[datetime] = []

    def look(world: Yard) -> None:
        attempts.extend(len((world.summary(each.name) or {})["attempts"]) for each in world.runs())

    scenario = replace(SCENARIOS["train"], begin=with_outage(service, state, ends))
    result = simulate(yard, scenario, at_end=look)
    assert "SUCCEEDED" in result.outcome
    assert (attempts, len(ends)) == ([1], 1)
    assert {each.invariant for each in result.broken} <= {Invariant.WITHIN_BUDGETS}
