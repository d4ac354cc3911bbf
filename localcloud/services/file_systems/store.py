"""The file systems of an account in a region: moto's stores, which hold subnets and groups of EC2."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from ministack.core.responses import get_account_id, get_region
from moto.efs.models import efs_backends
from moto.fsx.models import fsx_backends

from localcloud.services.ec2.store import records

DELETING_SECONDS = 60.0
"""How long a deleted file system is shown as being deleted. AWS takes minutes."""
DELETED_AT = "_deleted_at"
"""The attribute of moto's file system with the time of its deletion. moto shows no attributes with an underscore."""


removed: list[Callable[[str], None]] = []
"""Called with the id of each file system whose deletion has ended."""


def efs() -> Any:
    """Return moto's store of EFS, without file systems whose deletion has ended. It is saved together with EC2's."""
    store = efs_backends[get_account_id()][get_region()]
    records.here().beside["efs"] = store
    for name in _deleted(store.file_systems_by_id):
        store.delete_file_system(name)
        _tell(name)
    return store


def fsx() -> Any:
    """Return moto's store of FSx, without file systems whose deletion has ended. It is saved together with EC2's."""
    store = fsx_backends[get_account_id()][get_region()]
    records.here().beside["fsx"] = store
    for name in _deleted(store.file_systems):
        del store.file_systems[name]
        _tell(name)
    return store


def restore() -> None:
    """Return the saved stores to moto."""
    for (account, region), found in records.everything().items():
        for backends, name in ((efs_backends, "efs"), (fsx_backends, "fsx")):
            if name in found.beside:
                backends[account][region] = found.beside[name]


def mark_deleted(system: Any) -> None:
    setattr(system, DELETED_AT, time.time())


def is_deleting(system: Any) -> bool:
    return hasattr(system, DELETED_AT)


def _tell(name: str) -> None:
    for listener in removed:
        listener(name)


def _deleted(systems: dict[str, Any]) -> list[str]:
    return list(_ended(systems))


def _ended(systems: dict[str, Any]) -> Iterator[str]:
    for name, system in systems.items():
        if is_deleting(system) and time.time() - getattr(system, DELETED_AT) >= DELETING_SECONDS:
            yield name
