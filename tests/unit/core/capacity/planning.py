"""Plans for tests."""

from typing import Any

from lambdas.core.capacity import candidates
from tests.unit.core.builders import (
    NOON,
    plan_inputs,
)
from trainyard.core.model.job import Job
from trainyard.protocol.plan import Plan


def planned(made: Job, **inputs: Any) -> Plan:
    plan = candidates.make_plan(made, plan_inputs(**inputs), now=NOON)
    assert isinstance(plan, Plan), plan.reason
    return plan
