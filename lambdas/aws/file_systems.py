"""Amazon EFS and FSx for Lustre: file systems, their mount targets, and security groups."""

from collections.abc import Collection, Iterable
from typing import Any

from lambdas.aws.calls import call_or_none, list_items
from lambdas.aws.clients import client
from lambdas.core.file_systems.network import Group, MountTarget, Rule, Subnet
from trainyard.protocol.file_systems import FileSystemKind
from trainyard.values.lazy import dataclass

GONE = ("FileSystemNotFound", "AccessPointNotFound")
NETWORK_INTERFACES = 200
"""The most ids in a filter."""


@dataclass(frozen=True)
class Found:
    """A file system as AWS describes it."""

    state: str
    targets: tuple[MountTarget, ...] = ()
    mount_name: str = ""
    type: str = ""
    """The type of a file system of FSx, such as LUSTRE."""


def find(kind: FileSystemKind, name: str) -> Found | None:
    """Return the file system of this id, or None if there is none."""
    return _find_efs(name) if kind is FileSystemKind.EFS else _find_fsx(name)


def access_point_state(name: str, file_system: str) -> str:
    """Return `available`, or why hosts cannot mount through the access point, as the end of a sentence."""
    answer = call_or_none(GONE, client("efs").describe_access_points, AccessPointId=name)
    for found in answer["AccessPoints"] if answer else ():
        if found["FileSystemId"] != file_system:
            return f"belongs to {found['FileSystemId']}"
        state = str(found["LifeCycleState"])
        return "available" if state == "available" else f"is {state}"
    return "does not exist"


def subnets(ids: Iterable[str]) -> tuple[Subnet, ...]:
    answer = client("ec2").describe_subnets(SubnetIds=list(ids))
    return tuple(
        Subnet(each["SubnetId"], each["AvailabilityZone"], each["VpcId"], each["CidrBlock"])
        for each in answer["Subnets"]
    )


def groups(ids: Collection[str]) -> dict[str, Group]:
    """Return the security groups with these ids that exist, by id."""
    by_id = [{"Name": "group-id", "Values": sorted(ids)}]
    found = list_items("ec2", "describe_security_groups", "SecurityGroups", Filters=by_id) if ids else ()
    return {each["GroupId"]: _group(each) for each in found}


def _find_efs(name: str) -> Found | None:
    efs = client("efs")
    answer = call_or_none(GONE, efs.describe_file_systems, FileSystemId=name)
    if answer is None:
        return None
    (found,) = answer["FileSystems"]
    described = list_items("efs", "describe_mount_targets", "MountTargets", FileSystemId=name)
    targets = tuple(
        MountTarget(
            each["AvailabilityZoneName"],
            each["IpAddress"],
            each["VpcId"],
            tuple(
                efs.describe_mount_target_security_groups(MountTargetId=each["MountTargetId"])[
                    "SecurityGroups"
                ]
            ),
            each["LifeCycleState"] == "available",
        )
        for each in described
    )
    return Found(str(found["LifeCycleState"]), targets)


def _find_fsx(name: str) -> Found | None:
    answer = call_or_none(GONE, client("fsx").describe_file_systems, FileSystemIds=[name])
    if answer is None or not answer["FileSystems"]:
        return None
    (found,) = answer["FileSystems"]
    state, kind = str(found.get("Lifecycle", "AVAILABLE")), str(found["FileSystemType"])
    cards = found.get("NetworkInterfaceIds", ())[:NETWORK_INTERFACES]
    by_id = [{"Name": "network-interface-id", "Values": list(cards)}]
    described = (
        list(list_items("ec2", "describe_network_interfaces", "NetworkInterfaces", Filters=by_id))
        if cards
        else []
    )
    targets = tuple(_target_of_fsx(each, str(found["DNSName"])) for each in described[:1])
    return Found(state, targets, str((found.get("LustreConfiguration") or {}).get("MountName", "")), kind)


def _target_of_fsx(card: Any, name: str) -> MountTarget:
    """Return the target of a file system of FSx. All of its network interfaces have the same zone and groups."""
    in_groups = tuple(each["GroupId"] for each in card["Groups"])
    return MountTarget(
        card["AvailabilityZone"], card["PrivateIpAddress"], card["VpcId"], in_groups, name=name
    )


def _group(described: Any) -> Group:
    return Group(
        described["GroupId"],
        tuple(map(_rule, described.get("IpPermissions", ()))),
        tuple(map(_rule, described.get("IpPermissionsEgress", ()))),
    )


def _rule(described: Any) -> Rule:
    first, last = described.get("FromPort"), described.get("ToPort")
    return Rule(
        str(described["IpProtocol"]),
        None if first is None or first == -1 else (int(first), int(last)),
        tuple(each["GroupId"] for each in described.get("UserIdGroupPairs", ()) if "GroupId" in each),
        tuple(each["CidrIp"] for each in described.get("IpRanges", ())),
        bool(described.get("PrefixListIds")),
    )
