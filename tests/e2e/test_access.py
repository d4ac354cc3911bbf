"""Least privilege, tried: with one permission gone a run fails, and the reason names that permission."""

import pytest

from tests.e2e.runs import Runs

NEEDED = [
    ("Admit", "s3:GetObject"),
    ("Plan", "ec2:DescribeSpotPriceHistory"),
    ("Launch", "ec2:CreateFleet"),
    ("Launch", "iam:PassRole"),
    ("Train", "ssm:SendCommand"),
    ("Release", "ec2:TerminateInstances"),
    ("Host", "s3:ListBucket"),
]


@pytest.mark.parametrize(("role", "action"), NEEDED, ids=[f"{role}-{action}" for role, action in NEEDED])
def test_a_missing_permission_fails_the_run_and_is_named(runs: Runs, role: str, action: str) -> None:
    name = f"without-{action.partition(':')[2]}".lower()[:40]
    with runs.without(role, action):
        run = runs.run(runs.job(name, cluster={"workers": 1}, program={"args": {"steps": 5}}))
    assert run.execution.status == "FAILED", run.why()
    assert action in run.execution.cause, run.execution.cause
    for (
        instance
    ) in runs.living():  # without Release's permission its host is still there: that is what was tried
        runs.yard.session.client("ec2").terminate_instances(InstanceIds=[instance])
