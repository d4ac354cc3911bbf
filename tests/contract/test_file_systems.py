"""File systems before a launch: EFS and FSx as AWS describes them, and what Admit says of a job that cannot mount them,
in a function that has only the permissions of Admit for it."""

from __future__ import annotations

import io
import json
import uuid
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.conftest import ACCOUNT, REGION, Cloud, allow

ROOT = Path(__file__).parents[2]
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
EFS = f"arn:aws:elasticfilesystem:{REGION}:{ACCOUNT}"
CODE = """
from lambdas.steps import file_systems
from trainyard.core.jobfile import check
from trainyard.core.model.yard.file_systems import read_file_systems
from trainyard.values import serialization

def handler(event, context):
    job = check.check(event["job"], source="job.yaml", bucket="b")
    if not hasattr(job, "data"):
        return {"faults": [str(each) for each in job.faults]}
    listed, subnets, group = event["yard"]
    yard = file_systems.Yard("yard", "us-east-1", read_file_systems(listed), tuple(subnets), group)
    found, faults = file_systems.pin(job, yard)
    mounted = {name: serialization.to_json(each.file_system) for name, each in found.data.items() if each.file_system}
    return {"faults": [str(fault) for fault in faults], "mounted": mounted}
"""
Check = Callable[..., Any]


@dataclass(frozen=True)
class Network:
    """A VPC with the hosts of a yard, and a security group for mount targets."""

    vpc: str
    subnets: Mapping[str, str]
    hosts: str
    targets: str


@pytest.fixture(scope="module")
def function(cloud: Cloud) -> str:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("index.py", CODE)
        for package in ("lambdas", "trainyard"):
            for path in (ROOT / package).rglob("*"):
                if path.suffix in (".py", ".json") and "ui" not in path.parts:
                    archive.write(path, path.relative_to(ROOT))
    looks = ("DescribeFileSystems", "DescribeMountTargets", "DescribeMountTargetSecurityGroups")
    may = (
        allow([f"elasticfilesystem:{call}" for call in looks], f"{EFS}:file-system/fs-*"),
        allow("elasticfilesystem:DescribeAccessPoints", f"{EFS}:access-point/fsap-*"),
        allow(["fsx:DescribeFileSystems", "ec2:DescribeNetworkInterfaces"], "*"),
        allow(["ec2:DescribeSecurityGroups", "ec2:DescribeSubnets"], "*"),
    )
    name = f"function-{uuid.uuid4().hex[:12]}"
    cloud.client("lambda").create_function(
        FunctionName=name,
        Runtime="python3.11",
        Handler="index.handler",
        Role=cloud.role("lambda.amazonaws.com", *may),
        Code={"ZipFile": content.getvalue()},
        Timeout=60,
        MemorySize=512,
    )
    return name


@pytest.fixture(scope="module")
def hosts(cloud: Cloud) -> Network:
    return make_network(cloud)


def make_network(cloud: Cloud) -> Network:
    ec2 = cloud.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.88.0.0/16")["Vpc"]["VpcId"]
    subnets = {
        zone: ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.88.{index}.0/24", AvailabilityZone=zone)["Subnet"][
            "SubnetId"
        ]
        for index, zone in enumerate(ZONES)
    }
    groups = [
        ec2.create_security_group(GroupName=f"group-{uuid.uuid4().hex[:8]}", Description="test", VpcId=vpc)[
            "GroupId"
        ]
        for _ in range(2)
    ]
    return Network(vpc, subnets, *groups)


@pytest.fixture
def checked(cloud: Cloud, function: str, hosts: Network) -> Check:
    """Return a function that checks the data of a job."""

    def check(data: Any, *listed: str, zones: tuple[str, ...] = ()) -> Any:
        hardware = {"instance_types": ["g6.xlarge"], **({"zones": list(zones)} if zones else {})}
        job = {
            "name": "train",
            "program": {"module": "training.programs.digits"},
            "hardware": hardware,
            "data": data,
        }
        yard = [listed, list(hosts.subnets.values()), hosts.hosts]
        event = json.dumps({"job": job, "yard": yard})
        answer = cloud.client("lambda").invoke(FunctionName=function, Payload=event)
        found = json.load(answer["Payload"])
        assert "faults" in found, found
        return found

    return check


@pytest.fixture
def efs(cloud: Cloud, hosts: Network) -> Callable[..., str]:
    """Return a function that makes a file system with mount targets in these zones."""

    def make(*zones: str, inside: Network = hosts, groups: Any = None) -> str:
        client = cloud.client("efs")
        name = client.create_file_system(CreationToken=uuid.uuid4().hex)["FileSystemId"]
        for zone in zones:
            client.create_mount_target(
                FileSystemId=name, SubnetId=inside.subnets[zone], SecurityGroups=groups or [inside.targets]
            )
        return str(name)

    return make


def fault(found: Any) -> str:
    (only,) = found["faults"]
    return str(only)


@pytest.fixture
def opened(cloud: Cloud, hosts: Network) -> Any:
    """Open the port of NFS between hosts and mount targets during a test."""
    ec2 = cloud.client("ec2")
    pair = [{"GroupId": hosts.hosts}]
    rule = [{"IpProtocol": "tcp", "FromPort": 2049, "ToPort": 2049, "UserIdGroupPairs": pair}]
    ec2.authorize_security_group_ingress(GroupId=hosts.targets, IpPermissions=rule)
    yield rule
    ec2.revoke_security_group_ingress(GroupId=hosts.targets, IpPermissions=rule)


def test_a_file_system_has_its_addresses_in_the_zones_of_its_mount_targets(
    checked: Check, efs: Any, opened: Any, hosts: Network
) -> None:
    name = efs(*ZONES[:2])
    found = checked({"shared": f"efs://{name}/team/"}, name)
    assert found["faults"] == []
    mounted = found["mounted"]["shared"]
    assert {zone: address.rpartition(".")[0] for zone, address in mounted["addresses"].items()} == {
        ZONES[0]: "10.88.0",
        ZONES[1]: "10.88.1",
    }
    assert mounted["unreachable"] == {ZONES[2]: f"{name} has no mount target in that zone."}
    assert mounted["groups"] == [hosts.targets]
    only = checked({"shared": f"efs://{name}/"}, name, zones=ZONES[2:])
    assert fault(only).startswith(f"data.shared: no zone of {ZONES[2]} reaches efs://{name}/")


def test_a_closed_port_is_refused_with_the_command_that_opens_it(
    cloud: Cloud, checked: Check, efs: Any, hosts: Network
) -> None:
    name = efs(*ZONES)
    says = fault(checked({"shared": f"efs://{name}/"}, name))
    command = (
        f"aws ec2 authorize-security-group-ingress --region {REGION} --group-id {hosts.targets} --protocol tcp "
        f"--port 2049 --source-group {hosts.hosts}"
    )
    assert says.startswith(f"data.shared: the hosts cannot reach {name} in {', '.join(ZONES)}")
    assert says.endswith(f"Open it: {command}")


def test_outbound_rules_of_the_hosts_are_compared_too(
    cloud: Cloud, checked: Check, efs: Any, opened: Any, hosts: Network
) -> None:
    name, ec2 = efs(ZONES[0]), cloud.client("ec2")
    everything = [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]
    ec2.revoke_security_group_egress(GroupId=hosts.hosts, IpPermissions=everything)
    try:
        says = fault(checked({"shared": f"efs://{name}/"}, name))
    finally:
        ec2.authorize_security_group_egress(GroupId=hosts.hosts, IpPermissions=everything)
    assert f"authorize-security-group-egress --region {REGION} --group-id {hosts.hosts}" in says
    assert (
        f"'IpProtocol=tcp,FromPort=2049,ToPort=2049,UserIdGroupPairs=[{{GroupId={hosts.targets}}}]'" in says
    )


def test_what_the_setting_does_not_allow_is_refused_with_the_setting(checked: Check, efs: Any) -> None:
    name = efs(ZONES[0])
    says = fault(checked({"shared": f"efs://{name}/"}, "fs-0123456789abcdef0:write"))
    assert f"efs://{name}/ is not in this yard's setting file_systems (efs://fs-0123456789abcdef0/)" in says
    assert says.endswith(f"-c file_systems=fs-0123456789abcdef0:write,{name}:read")
    says = fault(checked({"shared": {"source": f"efs://{name}/", "access": "write"}}, name))
    assert says.startswith(
        "data.shared.access: found write, but the yard's setting file_systems allows runs only to read"
    )
    assert says.endswith(f"file_systems={name}:write")
    assert "is not in this yard's setting" in fault(checked({"shared": f"fsx://{name}/"}, name))


def test_a_file_system_that_is_missing_deleted_or_elsewhere_has_its_sentence(
    cloud: Cloud, checked: Check, efs: Any, opened: Any, hosts: Network
) -> None:
    missing = "fs-0123456789abcdef0"
    assert f"Amazon EFS has no file system {missing} in {REGION}" in fault(
        checked({"a": f"efs://{missing}/"}, missing)
    )
    bare = efs()
    assert "has no mount target, so that no host reaches it" in fault(checked({"a": f"efs://{bare}/"}, bare))
    cloud.client("efs").delete_file_system(FileSystemId=bare)
    assert "cannot be mounted, because it is deleting" in fault(checked({"a": f"efs://{bare}/"}, bare))
    other = make_network(cloud)
    away = efs(ZONES[0], inside=other)
    says = fault(checked({"a": f"efs://{away}/"}, away))
    assert f"is in {other.vpc}, and the hosts of this yard are in {hosts.vpc}" in says


def test_the_access_point_of_the_setting_must_exist_and_belong_to_it(
    cloud: Cloud, checked: Check, efs: Any, opened: Any
) -> None:
    name, other, client = efs(ZONES[0]), efs(ZONES[0]), cloud.client("efs")
    point = client.create_access_point(ClientToken="a", FileSystemId=name)["AccessPointId"]
    assert checked({"a": f"efs://{name}/"}, f"{name}:read:{point}")["mounted"]["a"]["access_point"] == point
    says = fault(checked({"a": f"efs://{other}/"}, f"{other}:read:{point}"))
    assert f"the access point {point}, which belongs to {name}" in says
    client.delete_access_point(AccessPointId=point)
    says = fault(checked({"a": f"efs://{name}/"}, f"{name}:read:{point}"))
    assert f"the access point {point}, which does not exist" in says


def test_fsx_is_mounted_in_its_own_zone_through_three_ranges_of_ports(
    cloud: Cloud, checked: Check, hosts: Network
) -> None:
    client, ec2 = cloud.client("fsx"), cloud.client("ec2")
    made = client.create_file_system(
        FileSystemType="LUSTRE",
        StorageCapacity=1200,
        SubnetIds=[hosts.subnets[ZONES[1]]],
        SecurityGroupIds=[hosts.targets],
    )["FileSystem"]
    name, listed = made["FileSystemId"], f"fsx://{made['FileSystemId']}"
    says = fault(checked({"fast": f"{listed}/"}, listed))
    assert "security groups do not open TCP 988 and 1018-1023 between them" in says
    commands = says.partition("Open it: ")[2].split(" && ")
    assert [each.partition("--port ")[2].split()[0] for each in commands] == ["988", "1018-1023"]
    for first, last in ((988, 988), (1018, 1023)):
        pair = [{"GroupId": hosts.hosts}]
        rule = [{"IpProtocol": "tcp", "FromPort": first, "ToPort": last, "UserIdGroupPairs": pair}]
        ec2.authorize_security_group_ingress(GroupId=hosts.targets, IpPermissions=rule)
    found = checked({"fast": f"{listed}/"}, listed)
    assert found["faults"] == []
    mounted = found["mounted"]["fast"]
    assert mounted["addresses"] == {ZONES[1]: f"{name}.fsx.{REGION}.amazonaws.com"}
    assert mounted["mount_name"] == made["LustreConfiguration"]["MountName"]
    assert set(mounted["unreachable"]) == {ZONES[0], ZONES[2]}
    client.delete_file_system(FileSystemId=name)
    assert "cannot be mounted, because it is deleting" in fault(checked({"fast": f"{listed}/"}, listed))
    assert "fsx describe-file-systems" in fault(
        checked({"a": "fsx://fs-0123456789abcdef0/"}, "fsx://fs-0123456789abcdef0")
    )


def test_a_role_may_look_up_only_the_file_systems_that_it_names(cloud: Cloud, efs: Any) -> None:
    name, other = efs(), efs()
    who = cloud.acting_as(allow("elasticfilesystem:DescribeFileSystems", f"{EFS}:file-system/{name}"))
    client = cloud.client("efs", who)
    assert client.describe_file_systems(FileSystemId=name)["FileSystems"][0]["LifeCycleState"] == "available"
    with pytest.raises(ClientError, match="not authorized to perform: elasticfilesystem:DescribeFileSystems"):
        client.describe_file_systems(FileSystemId=other)
