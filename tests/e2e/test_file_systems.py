"""Runs whose hosts mount one file system of EFS. Closed ports are found before a launch."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import shared_file_system
from tests.e2e.runs import Runs

SHARES = """\
cd "$TRAINYARD_DATA_SHARED"
if [ ${index} = 0 ]; then
  echo written by ${index} > NAME
else
  until [ -s NAME ]; do sleep 0.1; done
  cp NAME NAME-read
fi
"""


@pytest.fixture(scope="module")
def mounted(runs: Runs) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Yield a file system with mount targets in every zone of the yard, their group, and its rule for hosts."""
    ec2, efs = (runs.yard.session.client(name) for name in ("ec2", "efs"))
    name = shared_file_system(runs.cloud)
    admit = runs.yard.session.client("lambda").get_function_configuration(
        FunctionName="trainyard-train-admit"
    )
    known = admit["Environment"]["Variables"]
    subnets = ec2.describe_subnets(SubnetIds=known["SUBNET_IDS"].split(","))["Subnets"]
    group = ec2.create_security_group(
        GroupName=f"nfs-{uuid.uuid4().hex[:8]}", Description="EFS", VpcId=subnets[0]["VpcId"]
    )["GroupId"]
    pair = [{"GroupId": known["HOSTS_GROUP"]}]
    rule = [{"IpProtocol": "tcp", "FromPort": 2049, "ToPort": 2049, "UserIdGroupPairs": pair}]
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=rule)
    made = [
        efs.create_mount_target(FileSystemId=name, SubnetId=each["SubnetId"], SecurityGroups=[group])
        for each in subnets
    ]
    yield name, group, rule
    for each in made:
        efs.delete_mount_target(MountTargetId=each["MountTargetId"])
    ec2.delete_security_group(GroupId=group)


def job(runs: Runs, name: str, system: str, shell: str = "true") -> dict[str, Any]:
    """Return a job on two hosts."""
    wanted = runs.job(name, data={"shared": {"source": f"efs://{system}/", "access": "write"}})
    return wanted | {"program": {"shell": shell}, "data": {"shared": wanted["data"]["shared"]}}


def test_one_host_writes_and_the_other_reads(runs: Runs, mounted: Any) -> None:
    name, word = mounted[0], f"file-{uuid.uuid4().hex[:8]}"
    run = runs.run(job(runs, "shares-files", name, SHARES.replace("NAME", word)))
    assert run.succeeded, run.why()
    files = runs.cloud.state / "file-systems" / name
    assert (files / word).read_text() == "written by 0\n"
    assert (files / f"{word}-read").read_text() == "written by 0\n"


def test_a_closed_port_is_refused_before_the_launch_with_the_command(runs: Runs, mounted: Any) -> None:
    name, group, rule = mounted
    ec2 = runs.yard.session.client("ec2")
    ec2.revoke_security_group_ingress(GroupId=group, IpPermissions=rule)
    try:
        run = runs.run(job(runs, "closed", name))
    finally:
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=rule)
    hosts = rule[0]["UserIdGroupPairs"][0]["GroupId"]
    assert run.execution.error == "JobRefused"
    command = (
        f"aws ec2 authorize-security-group-ingress --region us-east-1 --group-id {group} --protocol tcp --port 2049 "
        f"--source-group {hosts}"
    )
    assert command in run.why()
