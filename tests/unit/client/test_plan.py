"""The client's reading of a plan: the answer of a dry run's execution."""

import json
from typing import Any

import pytest

from lambdas.steps.inputs import Caught
from lambdas.workflows.train.admit import NotPlanned as JobNotPlanned
from lambdas.workflows.train.plan import Outlook
from tests.unit.core.builders import NOON, candidate
from trainyard.client.errors import NotPlanned
from trainyard.client.runs import plan
from trainyard.core.jobfile.check import JobSource
from trainyard.core.model.errors import Refused
from trainyard.protocol.plan import Excluded, Market, Plan
from trainyard.values import serialization


def answered(answer: Any) -> str:
    return json.dumps(serialization.to_json(answer))


def test_a_plan_is_read_as_the_function_has_answered_it() -> None:
    candidates = (
        candidate("g6.xlarge", "us-east-1a", Market.SPOT, ("c7i.large",)),
        candidate("g5.xlarge", "us-east-1b", Market.ON_DEMAND),
    )
    left = Excluded("g4dn.xlarge", "us-east-1c", Market.SPOT, "no_quota", "the quota is 0")
    made = Plan(candidates, (left,), "ami-1", 3, 8.0, NOON, "two pools", prices="prices of us-east-1")
    told = Outlook(
        reason="two pools", plan=serialization.to_json(made), quotas={"L-1": 8.0}, warnings=("no checkpoint",)
    )
    found = plan.read("job.yaml", answered(told))
    assert [(each.type, each.zone, each.market) for each in found.pools] == [
        ("g6.xlarge", "us-east-1a", "spot"),
        ("g5.xlarge", "us-east-1b", "on_demand"),
    ]
    assert [each.price for each in found.pools] == [each.price for each in candidates]
    assert found.pools[0].beside == ("c7i.large",)
    assert (found.left_out[0].code, found.left_out[0].reason) == ("no_quota", "the quota is 0")
    assert (found.gang, found.image, found.hourly_cap, found.made) == (3, "ami-1", 8.0, NOON)
    assert (found.quotas, found.warnings, found.prices) == (
        {"L-1": 8.0},
        ("no checkpoint",),
        "prices of us-east-1",
    )


@pytest.mark.parametrize(
    "answer",
    [
        JobNotPlanned(error="JobRefused", reason="limits.hours: found -1"),
        Refused("NoCapacity", "limits.hours: found -1"),
        Caught(error="ServiceUnavailable", cause="limits.hours: found -1"),
    ],
)
def test_why_there_is_no_plan_is_said(answer: Any) -> None:
    with pytest.raises(
        NotPlanned, match=f"job.yaml would not run: {answer.error}: limits.hours: found -1. Next:"
    ):
        plan.read("job.yaml", answered(answer))


@pytest.mark.parametrize(
    ("source", "planned"),
    [
        (JobSource(job_key="jobs/by/alice/digits.plan.yaml"), True),
        (JobSource(job_key="jobs/digits.plan.json"), True),
        (JobSource(job={}, dry_run=True), True),
        (JobSource(job_key="jobs/digits.yaml", dry_run=True), True),
        (JobSource(job_key="jobs/by/alice/plan.yaml"), False),
        (JobSource(job_key="jobs/a.plan.yaml/digits.yaml"), False),
        (JobSource(job={}), False),
    ],
)
def test_what_is_planned_and_not_run(source: JobSource, planned: bool) -> None:
    assert source.is_to_be_planned is planned
