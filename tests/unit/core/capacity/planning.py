"""Plans made of candidates."""

from typing import Any

from lambdas.core.capacity import candidates
from tests.unit.core.facts import (
    NOON,
    plan_facts,
)
from trainyard.core.model.job import Job
from trainyard.protocol.plan import Plan


def planned(made: Job, **facts: Any) -> Plan:
    plan = candidates.make_plan(made, plan_facts(**facts), now=NOON)
    assert isinstance(plan, Plan), plan.reason
    return plan
