"""Data entries that are folders of Amazon EFS or FSx for Lustre, mounted by mount.efs (efs-utils) and mount.lustre."""

import json
import logging
import subprocess
from pathlib import Path

from training.host.errors import HostTrouble
from training.host.mounts.mounting import Mount, Probe
from training.host.orders import write_whole
from training.host.paths import Paths
from trainyard.core.model.program import Data
from trainyard.protocol.file_systems import CLIENTS, Access, FileSystem, FileSystemKind, FolderOfFileSystem

PROFILE = "trainyard-run"
"""The profile of root's AWS credentials that mount.efs and its watchdog read."""
PROBE_SECONDS = 10.0
FLUSH_SECONDS = 60.0

logger = logging.getLogger(__name__)


def mount_of(name: str, data: Data, zone: str, region: str, paths: Paths) -> Mount:
    """Return the mount of an entry, with the address that Admit found for this host's zone."""
    folder, system = data.folder, data.file_system or FileSystem()
    assert folder is not None
    address = system.addresses.get(zone)
    if address is None:
        raise HostTrouble(f"data.{name}: {folder.id} has no mount target in {zone}, where this host is")
    command = {FileSystemKind.EFS: _efs, FileSystemKind.FSX: _fsx}[folder.kind]
    path, options = paths.mount(name), ["rw" if data.access is Access.WRITE else "ro"]
    label = f"data.{name}"
    return Mount(
        label=label,
        source=data.source,
        path=path,
        command=command(folder, system, address, region, path, options),
        remedy=f"bake an image from a recipe with file_systems: [{CLIENTS[folder.kind]}]",
        is_written=data.access is Access.WRITE,
        probe=Probe(
            command=command(folder, system, address, region, path, _softly(folder, options)),
            seconds=PROBE_SECONDS,
            silence=_silence(label, folder, system, address),
        ),
    )


def keep_credentials(paths: Paths) -> None:
    """Write the run's credentials where mount.efs and its watchdog read them, which renews certificates with them."""
    found = json.loads(paths.credentials.read_bytes())
    names = ("AccessKeyId", "SecretAccessKey", "SessionToken")
    keys = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
    lines = [f"{key} = {found[name]}" for key, name in zip(keys, names, strict=True)]
    text = "\n".join([f"[{PROFILE}]", *lines, ""])
    path = paths.root_credentials
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, text, mode=0o600)


def flush(path: Path) -> None:
    """Wait until the files that a program has written are in the file system, as far as it answers."""
    try:
        subprocess.run(
            ["sync", "--file-system", str(path)], check=False, capture_output=True, timeout=FLUSH_SECONDS
        )
    except subprocess.TimeoutExpired:
        logger.warning("%s did not take all written files within %g s", path, FLUSH_SECONDS)


def _efs(
    folder: FolderOfFileSystem, system: FileSystem, address: str, region: str, path: Path, more: list[str]
) -> list[str]:
    options = [*more, "tls", "iam", f"awsprofile={PROFILE}", f"region={region}", f"mounttargetip={address}"]
    if system.access_point:
        options.append(f"accesspoint={system.access_point}")
    return ["mount.efs", f"{folder.id}:/{folder.path}", str(path), "-o", ",".join(options)]


def _fsx(
    folder: FolderOfFileSystem, system: FileSystem, address: str, region: str, path: Path, more: list[str]
) -> list[str]:
    source = f"{address}@tcp:/{system.mount_name}/{folder.path}".rstrip("/")
    return ["mount.lustre", "-o", ",".join([*more, "noatime", "flock"]), source, str(path)]


def _softly(folder: FolderOfFileSystem, options: list[str]) -> list[str]:
    """Return the options with which requests of NFS end instead of waiting. Lustre has no such options."""
    return [*options, "soft", "timeo=50", "retrans=1"] if folder.kind is FileSystemKind.EFS else options


def _silence(label: str, folder: FolderOfFileSystem, system: FileSystem, address: str) -> str:
    """Return the sentence for a file system that does not answer."""
    ports = " and ".join(
        str(first) if first == last else f"{first}-{last}" for first, last in folder.kind.ports
    )
    groups = ", ".join(system.groups) or "its security group"
    return (
        f"{label}: {folder.id} does not answer at {address}, TCP {ports}, within {PROBE_SECONDS:g} s. The inbound "
        f"rules of {groups} must name the hosts' security group for these ports"
    )
