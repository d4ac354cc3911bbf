"""The sentences for a file system that runs cannot mount: what is wrong, and what to type."""

from collections.abc import Sequence

from lambdas.core.file_systems.network import Closed, MountTarget, Network, Ports
from trainyard.command_line import command_line
from trainyard.core.model.yard.file_systems import ListedFileSystem
from trainyard.protocol.file_systems import Access, FileSystemKind, FolderOfFileSystem
from trainyard.values.validation import Fault


def not_listed(
    path: str, folder: FolderOfFileSystem, access: Access, listed: Sequence[ListedFileSystem], yard: str
) -> Fault:
    """Return the fault of a file system that the setting `file_systems` does not list."""
    mounts = ", ".join(f"{each.kind}://{each.id}/" for each in listed) or "none"
    added = ListedFileSystem(folder.kind, folder.id, access)
    problem = (
        f"{folder.kind}://{folder.id}/ is not in this yard's setting file_systems ({mounts}). Ask the administrator of "
        f"the yard to add it: {_deploy(yard, [*listed, added])}"
    )
    return Fault(path, problem)


def read_only(path: str, found: ListedFileSystem, listed: Sequence[ListedFileSystem], yard: str) -> Fault:
    """Return the fault of a job that wants to write where the setting allows only reading."""
    writable = ListedFileSystem(found.kind, found.id, Access.WRITE, found.access_point)
    setting = [writable if each == found else each for each in listed]
    problem = (
        f"found write, but the yard's setting file_systems allows runs only to read {found.kind}://{found.id}/. Write "
        f"access: read, or ask the administrator of the yard to allow it: {_deploy(yard, setting)}"
    )
    return Fault(f"{path}.access", problem)


def missing(path: str, folder: FolderOfFileSystem, region: str) -> Fault:
    service = folder.kind if folder.kind is FileSystemKind.FSX else "efs"
    problem = (
        f"{folder.kind.service} has no file system {folder.id} in {region}. Its file systems there: aws {service} "
        f"describe-file-systems --region {region} --query 'FileSystems[].FileSystemId'"
    )
    return Fault(path, problem)


def not_lustre(path: str, folder: FolderOfFileSystem, kind: str) -> Fault:
    return Fault(path, f"{folder.id} is of the type {kind}; hosts mount only FSx for Lustre (type LUSTRE)")


def unusable(path: str, folder: FolderOfFileSystem, state: str) -> Fault:
    """Return the fault of a file system that is being created or deleted, or has failed."""
    if state.lower() == "deleting":
        then = "name another one; its files are lost"
    elif state.lower() == "creating":
        then = "submit again once it is available"
    else:
        then = "name another one, or look at it in the console of AWS"
    return Fault(
        path, f"{folder.kind}://{folder.id}/ cannot be mounted, because it is {state.lower()}: {then}"
    )


def no_access_point(path: str, found: ListedFileSystem, state: str) -> Fault:
    """Return the fault of an access point that is missing or unusable. `state` says which."""
    problem = (
        f"the yard mounts {found.id} through the access point {found.access_point}, which {state}. The administrator "
        f"names another one in the setting file_systems: aws efs describe-access-points --file-system-id {found.id}"
    )
    return Fault(path, problem)


def no_targets(path: str, folder: FolderOfFileSystem, network: Network) -> Fault:
    """Return the fault of a file system without any mount target."""
    problem = (
        f"{folder.id} has no mount target, so that no host reaches it. Make one in a subnet of the yard: "
        f"{_create(folder, network)}"
    )
    return Fault(path, problem)


def other_vpc(path: str, folder: FolderOfFileSystem, target: MountTarget, network: Network) -> Fault:
    """Return the fault of a file system in another VPC than the hosts."""
    problem = (
        f"{folder.kind}://{folder.id}/ is in {target.vpc}, and the hosts of this yard are in {network.vpc}, so that "
        f"they do not reach it. Name a file system of {network.vpc}"
    )
    if folder.kind is FileSystemKind.EFS:
        problem += f", or move its mount targets there: delete them, then {_create(folder, network)}"
    return Fault(path, problem)


def closed(
    path: str, folder: FolderOfFileSystem, zones: Sequence[str], found: Sequence[Closed], region: str
) -> Fault:
    """Return the fault of ports that security groups close, with the commands that open them."""
    ports = " and ".join(dict.fromkeys(_named(each.ports) for each in found))
    commands = dict.fromkeys(_open(each, region) for each in found)
    problem = (
        f"the hosts cannot reach {folder.id} in {', '.join(zones)}: security groups do not open TCP {ports} between "
        f"them. Open it: {' && '.join(commands)}"
    )
    return Fault(path, problem)


def no_zone(path: str, names: Sequence[str], zones: Sequence[str]) -> Fault:
    """Return the fault of a job without a zone that reaches all of its file systems."""
    problem = (
        f"no zone of {', '.join(zones)} reaches {' and '.join(names)}: allow another zone in hardware.zones, or make a "
        "mount target in one of these"
    )
    return Fault(path, problem)


def no_target_there(folder: FolderOfFileSystem) -> str:
    """Return why a zone leaves the plan. The sentence names no zone, so that zones can be grouped."""
    if folder.kind is FileSystemKind.FSX:
        return f"{folder.id} (FSx for Lustre) is in another zone."
    return f"{folder.id} has no mount target in that zone."


def _create(folder: FolderOfFileSystem, network: Network) -> str:
    subnet = network.subnets[0].id
    return f"aws efs create-mount-target --file-system-id {folder.id} --subnet-id {subnet} --security-groups GROUP"


def _open(each: Closed, region: str) -> str:
    if each.source:
        return (
            f"aws ec2 authorize-security-group-ingress --region {region} --group-id {each.group} --protocol tcp "
            f"--port {_named(each.ports)} --source-group {each.source}"
        )
    first, last = each.ports
    permission = f"IpProtocol=tcp,FromPort={first},ToPort={last},UserIdGroupPairs=[{{GroupId={each.toward}}}]"
    return (
        f"aws ec2 authorize-security-group-egress --region {region} --group-id {each.group} --ip-permissions "
        f"'{permission}'"
    )


def _named(ports: Ports) -> str:
    return str(ports[0]) if ports[0] == ports[1] else f"{ports[0]}-{ports[1]}"


def _deploy(yard: str, listed: Sequence[ListedFileSystem]) -> str:
    return command_line("--yard", yard, "yard", "deploy", "-c", f"file_systems={','.join(map(str, listed))}")
