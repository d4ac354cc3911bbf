"""The check of a job's file systems before a launch: the setting, their state, zones and security groups."""

from collections.abc import Mapping
from dataclasses import replace

from lambdas.aws import file_systems
from lambdas.core.file_systems import refusals
from lambdas.core.file_systems.network import Closed, MountTarget, Network
from trainyard.core.model.job import Job
from trainyard.core.model.program import Data
from trainyard.core.model.yard.file_systems import ListedFileSystem
from trainyard.protocol.file_systems import FileSystem, FileSystemKind, FolderOfFileSystem
from trainyard.values.lazy import dataclass
from trainyard.values.validation import Fault

AVAILABLE = ("available", "updating")


@dataclass(frozen=True)
class Yard:
    """The parts of a yard that decide which file systems its hosts mount."""

    name: str
    region: str
    listed: tuple[ListedFileSystem, ...]
    """The setting `file_systems`."""
    subnet_ids: tuple[str, ...]
    group: str
    """The security group of the hosts."""


@dataclass(frozen=True)
class _Entry:
    """A data entry that is a folder of a file system."""

    path: str
    """The path of the entry in the job file."""
    data: Data
    folder: FolderOfFileSystem
    listed: ListedFileSystem


class _FaultError(Exception):
    """A fault of a file system."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def pin(job: Job, yard: Yard) -> tuple[Job, tuple[Fault, ...]]:
    """Return the job with the addresses of its file systems by zone, and its faults."""
    entries, faults = _find_listed(job, yard)
    if faults:
        return job, faults
    found = {
        (each.folder.kind, each.folder.id): file_systems.find(each.folder.kind, each.folder.id)
        for each in entries
    }
    network = _read_network(found, yard)
    pinned, faults = dict(job.data), ()
    for each in entries:
        try:
            system = _check(each, found[each.folder.kind, each.folder.id], network, job, yard)
        except _FaultError as error:
            faults = (*faults, error.fault)
        else:
            pinned[each.path.partition(".")[2]] = replace(each.data, file_system=system)
    job = replace(job, data=pinned)
    return job, faults or _faults_of_zones(job, _zones(job, network))


def _find_listed(job: Job, yard: Yard) -> tuple[list[_Entry], tuple[Fault, ...]]:
    """Return the entries that the setting allows, and a fault for each other one."""
    listed = yard.listed
    entries: list[_Entry] = []
    faults: list[Fault] = []
    for name, data in job.data.items():
        path, folder = f"data.{name}", data.folder
        if folder is None:
            continue
        known = next((each for each in listed if each.holds(folder)), None)
        if known is None:
            faults.append(refusals.not_listed(path, folder, data.access, listed, yard.name))
        elif not known.allows(data.access):
            faults.append(refusals.read_only(path, known, listed, yard.name))
        else:
            entries.append(_Entry(path, data, folder, known))
    return entries, tuple(faults)


def _read_network(
    found: Mapping[tuple[FileSystemKind, str], file_systems.Found | None], yard: Yard
) -> Network:
    named = {group for each in found.values() if each for target in each.targets for group in target.groups}
    return Network(
        yard.group,
        file_systems.subnets(yard.subnet_ids),
        file_systems.groups({yard.group, *named}),
    )


def _check(
    entry: _Entry, found: file_systems.Found | None, network: Network, job: Job, yard: Yard
) -> FileSystem:
    """Return the file system for the plan and the hosts. Raise _FaultError if no host can mount it."""
    path, folder, listed = entry.path, entry.folder, entry.listed
    if found is None:
        raise _FaultError(refusals.missing(path, folder, yard.region))
    if found.type and found.type != "LUSTRE":
        raise _FaultError(refusals.not_lustre(path, folder, found.type))
    if found.state.lower() not in AVAILABLE:
        raise _FaultError(refusals.unusable(path, folder, found.state))
    if listed.access_point:
        state = file_systems.access_point_state(listed.access_point, folder.id)
        if state != "available":
            raise _FaultError(refusals.no_access_point(path, listed, state))
    if not found.targets:
        raise _FaultError(refusals.no_targets(path, folder, network))
    targets = {
        target.zone: target for target in found.targets if target.is_available and target.vpc == network.vpc
    }
    if not any(target.vpc == network.vpc for target in found.targets):
        raise _FaultError(refusals.other_vpc(path, folder, found.targets[0], network))
    zones = _zones(job, network)
    _check_ports(entry, [targets[zone] for zone in zones if zone in targets], network, yard.region)
    return FileSystem(
        addresses={zone: targets[zone].name or targets[zone].address for zone in zones if zone in targets},
        unreachable={zone: refusals.no_target_there(folder) for zone in zones if zone not in targets},
        access_point=listed.access_point,
        mount_name=found.mount_name,
        groups=tuple(sorted({group for target in targets.values() for group in target.groups})),
    )


def _check_ports(entry: _Entry, targets: list[MountTarget], network: Network, region: str) -> None:
    """Raise _FaultError if security groups close a port between hosts and a mount target of their zone."""
    closed: dict[Closed, None] = {}
    zones = []
    for target in targets:
        found = [
            each
            for subnet in network.subnets
            if subnet.zone == target.zone
            for each in network.closed(entry.folder.kind, target, subnet)
        ]
        closed |= dict.fromkeys(found)
        zones += [target.zone] if found else []
    if closed:
        raise _FaultError(refusals.closed(entry.path, entry.folder, zones, list(closed), region))


def _faults_of_zones(job: Job, zones: list[str]) -> tuple[Fault, ...]:
    """Return a fault if no zone reaches all file systems of the job. The members of a gang share a zone."""
    mounted = {name: entry.file_system for name, entry in job.data.items() if entry.file_system}
    if any(all(zone in each.addresses for each in mounted.values()) for zone in zones):
        return ()
    first = next(iter(mounted))
    return (refusals.no_zone(f"data.{first}", [job.data[name].source for name in mounted], zones),)


def _zones(job: Job, network: Network) -> list[str]:
    """Return the zones of the yard that the job allows."""
    return [zone for zone in network.zones if not job.hardware.zones or zone in job.hardware.zones]
