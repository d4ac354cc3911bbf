"""Without one permission a run fails, and its reason names the permission.

This is a sample with one permission for each way of detection; `make permissions` removes all of them.
"""

import pytest

from tests.e2e.runs import Runs

NEEDED = [
    ("TrainLaunchRole", "iam:PassRole"),  # an error within a 200 answer
    ("HostRole", "events:PutEvents"),  # the host cannot send signals; its report is in the bucket
]


@pytest.mark.parametrize(("role", "action"), NEEDED, ids=[f"{role}-{action}" for role, action in NEEDED])
def test_a_missing_permission_fails_the_run_and_is_named(runs: Runs, role: str, action: str) -> None:
    name = f"without-{action.partition(':')[2]}".lower()[:40]
    with runs.without(role, action):
        run = runs.run(
            runs.job(name, cluster={"workers": 1}, program={"args": {"steps": 100, "step-delay": 0.03}})
        )
    assert run.execution.status == "FAILED", run.why()
    assert action in run.execution.cause, run.execution.cause
    assert action in run.summary["reason"]


def test_a_run_that_may_not_end_its_hosts_says_so_loudly(runs: Runs) -> None:
    """The leases of the hosts are the second path, but the operator gets a command at once."""
    with runs.without("ReleaseRole", "ec2:TerminateInstances"):
        run = runs.run(runs.job("without-release", cluster={"workers": 1}, program={"args": {"steps": 5}}))
    assert run.execution.status == "FAILED", run.why()
    (host,) = [one["InstanceId"] for one in runs.yard.instances(run.id)]
    for cause in (run.execution.cause, run.summary["reason"]):
        assert "ec2:TerminateInstances" in cause
        assert f"aws ec2 terminate-instances --instance-ids {host}" in cause
    runs.yard.session.client("ec2").terminate_instances(InstanceIds=[host])
