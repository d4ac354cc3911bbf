"""Hosts mount file systems of EFS and FSx by the commands of their makers: shared folders, groups, permissions."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.contract.conftest import ACCOUNT, REGION, Credentials, allow
from tests.contract.hosts.conftest import Hosts

ARN = f"arn:aws:elasticfilesystem:{REGION}:{ACCOUNT}"
MOUNT, WRITE = "elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"


@dataclass
class Efs:
    """A file system with an access point and a mount target beside a pair of hosts."""

    hosts: Hosts
    name: str
    point: str
    address: str
    group: str
    """The group of the mount target."""
    members: str
    """The group of the hosts."""

    def mount(self, host: str, who: Credentials | None = None, *, path: str = "/", more: str = "rw") -> str:
        """Mount on a host. Return the folder, or the message of the command that failed."""
        folder = f"/mnt/{uuid.uuid4().hex[:8]}"
        options = f"{more},tls,mounttargetip={self.address},accesspoint={self.point}"
        keys = ""
        if who:
            options += ",iam,awsprofile=run"
            keys = f"mkdir -p /root/.aws && printf '[run]\\naws_access_key_id = {who.key}\\n' > /root/.aws/credentials"
        command = f"mount.efs {self.name}:{path} {folder} -o {options}"
        return self.hosts.run(
            host, f"mkdir -p {folder}", keys or "true", f"{command} 2>&1 && echo {folder} || true"
        )

    def let_in(self, *, opened: bool) -> None:
        ec2 = self.hosts.ec2
        call = ec2.authorize_security_group_ingress if opened else ec2.revoke_security_group_ingress
        pair = [{"GroupId": self.members}]
        rule = {"IpProtocol": "tcp", "FromPort": 2049, "ToPort": 2049, "UserIdGroupPairs": pair}
        call(GroupId=self.group, IpPermissions=[rule])


@pytest.fixture
def efs(shared: Hosts, pair: list[str]) -> Iterator[Efs]:
    client, instance = shared.cloud.client("efs"), shared.instance(pair[0])
    group = shared.ec2.create_security_group(
        GroupName=f"nfs-{uuid.uuid4().hex[:8]}", Description="test", VpcId=instance["VpcId"]
    )["GroupId"]
    name = client.create_file_system(CreationToken=uuid.uuid4().hex)["FileSystemId"]
    target = client.create_mount_target(
        FileSystemId=name, SubnetId=instance["SubnetId"], SecurityGroups=[group]
    )
    point = client.create_access_point(
        ClientToken="a",
        FileSystemId=name,
        RootDirectory={"Path": "/runs"},
        PosixUser={"Uid": 1000, "Gid": 1000},
    )["AccessPointId"]
    members = instance["SecurityGroups"][0]["GroupId"]
    made = Efs(shared, name, point, target["IpAddress"], group, members)
    made.let_in(opened=True)
    yield made
    client.delete_mount_target(MountTargetId=target["MountTargetId"])
    client.delete_file_system(FileSystemId=name)


def test_two_hosts_share_the_files_of_a_file_system(efs: Efs, pair: list[str]) -> None:
    first, second = (efs.mount(host) for host in pair)
    efs.hosts.run(pair[0], f"mkdir {first}/team && echo from-the-first > {first}/team/file")
    assert efs.hosts.run(pair[1], f"cat {second}/team/file") == "from-the-first"
    below = efs.mount(pair[1], path="/team/", more="ro")
    assert efs.hosts.run(pair[1], f"cat {below}/file") == "from-the-first"
    assert "Read-only" in efs.hosts.run(pair[1], f"touch {below}/other 2>&1 || true")
    efs.hosts.run(pair[0], f"umount --lazy {first}")
    assert efs.hosts.run(pair[0], f"ls {first}") == ""
    files = efs.hosts.cloud.state / "file-systems" / efs.name / "runs" / "team" / "file"
    assert files.read_text() == "from-the-first\n"


def test_a_missing_folder_is_refused_as_nfs_refuses_it(efs: Efs, pair: list[str]) -> None:
    assert "No such file or directory" in efs.mount(pair[0], path="/nothing/")


def test_a_host_behind_a_closed_group_waits(efs: Efs, pair: list[str]) -> None:
    efs.let_in(opened=False)
    options = f"rw,tls,mounttargetip={efs.address}"
    command = f"mkdir -p /mnt/closed; timeout 2 mount.efs {efs.name}:/ /mnt/closed -o {options}; echo $?"
    assert efs.hosts.run(pair[0], command) == "124"


def test_the_roles_permission_decides_about_mounts_and_writes(efs: Efs, pair: list[str]) -> None:
    cloud, system = efs.hosts.cloud, f"{ARN}:file-system/{efs.name}"
    through: Any = {"ArnEquals": {"elasticfilesystem:AccessPointArn": f"{ARN}:access-point/{efs.point}"}}
    other = cloud.acting_as(allow(MOUNT, f"{ARN}:file-system/fs-0123456789abcdef0"))
    assert "access denied by server" in efs.mount(pair[0], other)
    reader = efs.mount(pair[0], cloud.acting_as({**allow(MOUNT, system), "Condition": through}))
    assert "Read-only" in efs.hosts.run(pair[0], f"touch {reader}/file 2>&1 || true")
    writer = efs.mount(pair[0], cloud.acting_as({**allow([MOUNT, WRITE], system), "Condition": through}))
    efs.hosts.run(pair[0], f"touch {writer}/file")


def test_hosts_mount_lustre_by_its_name(shared: Hosts, pair: list[str]) -> None:
    client, instance = shared.cloud.client("fsx"), shared.instance(pair[0])
    groups = [each["GroupId"] for each in instance["SecurityGroups"]]
    made = client.create_file_system(
        FileSystemType="LUSTRE",
        StorageCapacity=1200,
        SubnetIds=[instance["SubnetId"]],
        SecurityGroupIds=groups,
    )["FileSystem"]
    source = f"{made['DNSName']}@tcp:/{made['LustreConfiguration']['MountName']}"
    for host in pair:
        shared.run(host, "mkdir -p /mnt/fast", f"mount.lustre -o rw,noatime,flock {source} /mnt/fast")
    shared.run(pair[0], "echo fast > /mnt/fast/file")
    assert shared.run(pair[1], "cat /mnt/fast/file") == "fast"
    client.delete_file_system(FileSystemId=made["FileSystemId"])
