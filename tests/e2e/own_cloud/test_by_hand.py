"""`cdk bootstrap` and `cdk deploy --all` by hand create a complete yard in a new account without a GPU quota.

The first bake runs on a type without a GPU.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.local_yard import ROOT, Cloud, client_environment, port_for
from tests.e2e.runs import Runs
from trainyard.client import Yard
from trainyard.core.model.instance_types import catalog

NOTHING_ASKED = ("--require-approval", "never", "--no-notices", "--progress", "events")


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Cloud]:
    codes = [quota.code for name, quota in catalog().quotas.items() if not name.startswith("Standard")]
    settings = tmp_path / "settings.yaml"
    settings.write_text(json.dumps({"quotas": {code: {"applied": 0} for code in codes}}))
    cloud = Cloud(tmp_path / "account", port_for(0), settings)
    cloud.up()
    yield cloud
    cloud.down()


def cdk(cloud: Cloud, *arguments: str) -> str:
    """Return the output of cdk, which reads the zones from the account and writes nothing to the repository."""
    done = subprocess.run(
        ["cdk", *arguments, "--output", str(cloud.state / "cdk.out")],
        cwd=ROOT,
        env=client_environment(cloud.environment()) | {"CI": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_two_commands_leave_a_yard_whose_image_is_being_baked(account: Cloud) -> None:
    cdk(account, "bootstrap")
    outputs = account.state / "outputs.json"
    cdk(account, "deploy", "--all", "--outputs-file", str(outputs), *NOTHING_ASKED)
    prepared = json.loads(outputs.read_text())["Trainyard-Training"]["Prepared"]
    session = account.session()
    roles = session.client("iam").list_roles(PathPrefix="/aws-service-role/")["Roles"]
    assert {role["RoleName"] for role in roles} == {"AWSServiceRoleForEC2Spot", "AWSServiceRoleForEC2Fleet"}
    bakes = executions(account)
    (bake,) = bakes
    assert f"started the bake {bake}" in prepared

    cdk(account, "deploy", "--all", *NOTHING_ASKED)
    assert executions(account) == bakes, "nothing had changed"

    runs = Runs(account, Yard.find(session=session))
    run = runs.yard.run(bake, "bake")
    assert runs.yard.baking == run, "trainyard image bake follows it"
    runs.until(
        "a builder without a GPU",
        lambda: [each["InstanceType"] for each in runs.yard.instances(run.id)] == ["m7i.xlarge"],
    )
    runs.until("the bake installs", lambda: "Install" in [state.name for state in run.states])


def executions(cloud: Cloud) -> list[str]:
    states = cloud.session().client("stepfunctions")
    machines = states.list_state_machines()["stateMachines"]
    (arn,) = [each["stateMachineArn"] for each in machines if each["name"] == "trainyard-bake"]
    return [each["name"] for each in states.list_executions(stateMachineArn=arn)["executions"]]
