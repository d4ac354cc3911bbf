"""Users with the yard's policies, and the command under their credentials."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from scripts.local_yard import ROOT, client_environment
from tests.e2e.patience import PATIENCE
from tests.e2e.runs import Runs

POLICIES = {"viewer": ("Viewer",), "user": ("User", "Dev"), "operator": ("User", "Dev", "Operator")}
"""The policies that `trainyard yard grant` attaches."""


@contextmanager
def person(runs: Runs, who: str, name: str) -> Iterator[Mapping[str, str]]:
    """Create a user with these policies and an access key, and yield the environment for the command."""
    session = runs.yard.session
    iam, stacks = session.client("iam"), session.client("cloudformation")
    (stack,) = stacks.describe_stacks(StackName="Trainyard-People")["Stacks"]
    arns = {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}
    attached = [arns[f"{policy}PolicyArn"] for policy in POLICIES[who]]
    iam.create_user(UserName=name)
    for arn in attached:
        iam.attach_user_policy(UserName=name, PolicyArn=arn)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    found = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
    try:
        yield {**client_environment(runs.cloud.environment()), **found, "PYTHONPATH": str(ROOT)}
    finally:
        for arn in attached:
            iam.detach_user_policy(UserName=name, PolicyArn=arn)
        iam.delete_access_key(UserName=name, AccessKeyId=key["AccessKeyId"])
        iam.delete_user(UserName=name)


def words(*given: str) -> list[str]:
    return [sys.executable, "-m", "trainyard.cli", *given]


def done(environment: Mapping[str, str], *given: str, piped: str = "") -> tuple[int, str, str]:
    ended = subprocess.run(
        words(*given),
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        input=piped,
    )
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended.returncode, ended.stdout, ended.stderr
