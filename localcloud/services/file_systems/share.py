"""The folder of the state that a host mounts as a file system, and whether the host reaches it and may mount it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ministack.core.responses import get_account_id, get_region, request_scope

from localcloud.machine.hypervisor.mounts import SILENT, Share
from localcloud.services.ec2.instances import security
from localcloud.services.ec2.store import records
from localcloud.services.file_systems import store
from localcloud.services.file_systems.access import EFS, arn
from localcloud.services.iam import enforcement
from localcloud.services.iam.checks import Check

NFS, LUSTRE = 2049, (988, 1018, 1023)
MOUNT_FAILED = 32
"""The exit code of mount(8) for a refused mount."""
EVERYONE = 0o777


def find(order: Mapping[str, Any], instance_id: str, root: Path) -> Share:
    """Return the folder below `root` that an order to mount names, or the refusal."""
    root = root.resolve()
    for account, region in list(records.everything()):
        with request_scope(account, region), records.LOCK:
            instance = records.instance(instance_id)
            if instance is not None:
                return (
                    _efs(order, instance, root) if order["service"] == "efs" else _fsx(order, instance, root)
                )
    return Share(code=MOUNT_FAILED, text="the host does not exist any more")


def remove(name: str, root: Path) -> None:
    """Remove the files of a deleted file system."""
    shutil.rmtree(root / name, ignore_errors=True)


def _efs(order: Mapping[str, Any], instance: Any, root: Path) -> Share:
    system = store.efs().file_systems_by_id.get(order["name"])
    targets = [] if system is None else list(system.iter_mount_targets())
    target = next((each for each in targets if each.ip_address == order["address"]), None)
    if system is None or target is None or not _reaches(instance, target, (NFS,)):
        return SILENT
    read_only, point = bool(order["read_only"]), str(order["access_point"])
    if refusal := _refusal(order, point, write=False):
        return refusal
    if not read_only and _refusal(order, point, write=True):
        read_only = True  # as AWS does: the mount succeeds, and writes fail
    below = ""
    if point:
        found = store.efs().access_points.get(point)
        if found is None or found.file_system_id != order["name"]:
            return _denied()
        below = str((found.root_directory or {}).get("Path") or "/")
    return _folder(root / order["name"], below, str(order["path"]), read_only=read_only)


def _fsx(order: Mapping[str, Any], instance: Any, root: Path) -> Share:
    name = str(order["address"]).partition(".")[0]
    system = store.fsx().file_systems.get(name)
    card = records.backend().enis.get(system.card) if system is not None else None
    if system is None or card is None or store.is_deleting(system):
        return SILENT
    mount_name, _, path = str(order["path"]).strip("/").partition("/")
    target = _Card(card.private_ip_address, system.vpc, [group.id for group in card.group_set])
    if not _reaches(instance, target, LUSTRE):
        return SILENT
    if mount_name != system.lustre_configuration["MountName"]:
        return Share(
            code=MOUNT_FAILED,
            text=f"mount.lustre: mount {order['address']}@tcp:/{mount_name} failed: Invalid argument",
        )
    return _folder(root / name, "", path, read_only=bool(order["read_only"]))


class _Card:
    """A network interface in the form of a mount target."""

    def __init__(self, address: str, vpc: str, groups: list[str]) -> None:
        self.ip_address, self.vpc_id, self.security_groups = address, vpc, groups


def _reaches(instance: Any, target: Any, ports: tuple[int, ...]) -> bool:
    return all(
        security.reaches(instance, target.ip_address, target.vpc_id, target.security_groups, port)
        for port in ports
    )


def _refusal(order: Mapping[str, Any], point: str, *, write: bool) -> Share | None:
    """Return the refusal of a caller that IAM does not allow to mount, or to write. A mount without IAM is allowed, as
    on a file system without a policy."""
    if not order.get("key"):
        return None
    where = get_region(), get_account_id()
    context = {"elasticfilesystem:accesspointarn": arn("access-point", point, *where)} if point else {}
    action = f"elasticfilesystem:Client{'Write' if write else 'Mount'}"
    check = Check(action, arn("file-system", str(order["name"]), *where), context)
    denial = enforcement.first_denial(str(order["key"]), EFS, get_region(), [check])
    return _denied() if denial else None


def _denied() -> Share:
    return Share(code=MOUNT_FAILED, text="mount.nfs4: access denied by server while mounting 127.0.0.1:/")


def _folder(top: Path, below: str, path: str, *, read_only: bool) -> Share:
    start = top / below.strip("/")
    if not start.exists():
        start.mkdir(parents=True)
        start.chmod(EVERYONE)
    folder = (start / path.strip("/")).resolve()
    if not folder.is_relative_to(start) or not folder.is_dir():
        text = f"mount.nfs4: mounting 127.0.0.1:/{path} failed, reason given by server: No such file or directory"
        return Share(code=MOUNT_FAILED, text=text)
    return Share(source=str(folder), read_only=read_only)
