"""Permissions to look up the file systems of the setting `file_systems`, and to mount them."""

import aws_cdk as cdk

from stacks.constructs.permissions import allow, anywhere
from stacks.constructs.permissions.holder import Holder
from trainyard.core.model.yard.file_systems import ListedFileSystem
from trainyard.protocol.file_systems import Access, FileSystemKind

LOOKED_UP = ("DescribeFileSystems", "DescribeMountTargets", "DescribeMountTargetSecurityGroups")
MOUNT, WRITE = "elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"


def look_up_file_systems(role: Holder, *listed: ListedFileSystem) -> None:
    """Allow reading where these file systems can be mounted, and the rules of security groups."""
    for each in _of_efs(listed):
        allow(role, [f"elasticfilesystem:{call}" for call in LOOKED_UP], [_arn("file-system", each.id)])
        if each.access_point:
            points = _arn("access-point", each.access_point)
            allow(role, ["elasticfilesystem:DescribeAccessPoints"], [points])
    if listed:
        anywhere(role, "ec2:DescribeSecurityGroups", "ec2:DescribeSubnets")
    if any(each.kind is FileSystemKind.FSX for each in listed):
        anywhere(role, "fsx:DescribeFileSystems", "ec2:DescribeNetworkInterfaces")


def mount_file_systems(role: Holder, *listed: ListedFileSystem) -> None:
    """Allow mounting these file systems of Amazon EFS, through their access points. FSx for Lustre has no permission
    for mounts: its security group decides."""
    for each in _of_efs(listed):
        actions = [MOUNT, *([WRITE] if each.allows(Access.WRITE) else [])]
        point = _arn("access-point", each.access_point)
        through = {"ArnEquals": {"elasticfilesystem:AccessPointArn": point}} if each.access_point else None
        allow(role, actions, [_arn("file-system", each.id)], through)


def _of_efs(listed: tuple[ListedFileSystem, ...]) -> list[ListedFileSystem]:
    return [each for each in listed if each.kind is FileSystemKind.EFS]


def _arn(kind: str, name: str) -> str:
    return f"arn:{cdk.Aws.PARTITION}:elasticfilesystem:{cdk.Aws.REGION}:{cdk.Aws.ACCOUNT_ID}:{kind}/{name}"
