"""The APIs of EFS and FSx: moto's, with AWS's refusals, security groups by default, network interfaces, and deletions
that take a while."""

from __future__ import annotations

import asyncio
import json
import logging
import urllib.parse
from collections.abc import Mapping
from functools import partialmethod
from typing import Any

from ministack.core.responses import get_account_id, get_region
from moto.core.exceptions import JsonRESTError
from moto.core.request import Request
from moto.core.responses import BaseResponse
from moto.efs.exceptions import FileSystemInUse, MountTargetNotFound
from moto.efs.responses import EFSResponse
from moto.fsx.exceptions import FileSystemNotFound
from moto.fsx.responses import FSxResponse
from moto.moto_api._internal import mock_random

from localcloud.base.context import Context
from localcloud.machine.hypervisor import Hypervisor
from localcloud.machine.hypervisor.mounts import SHARED_FOLDERS
from localcloud.patches import MINISTACK, MOTO
from localcloud.services.ec2 import install as ec2
from localcloud.services.ec2.api import NOT_FORWARDED
from localcloud.services.ec2.store import records
from localcloud.services.file_systems import access, share, store

log = logging.getLogger(__name__)

EFS, FSX = "elasticfilesystem", "fsx"
TARGET = "AWSSimbaAPIService_v20180301"
Answer = tuple[int, dict[str, str], bytes]


class Ids:
    """moto's random values, with ids as long as AWS's."""

    def get_random_hex(self, length: int = 8) -> str:
        return str(mock_random.get_random_hex(17))


class EfsActions(EFSResponse):
    """Actions that moto answers differently, or not at all."""

    def delete_file_system(self) -> Any:
        systems = store.efs().file_systems_by_id
        system = systems.get(self._get_param("FileSystemId"))
        if system is None:
            return super().delete_file_system()
        if system.number_of_mount_targets:
            raise FileSystemInUse("Must delete all mount targets before deleting file system.")
        system.life_cycle_state = "deleting"
        store.mark_deleted(system)
        return "{}", {"status": 204, "Content-Type": "application/json"}

    def describe_access_points(self) -> Any:
        name = self._get_param("AccessPointId")
        if name and name not in store.efs().access_points:
            raise _refusal("AccessPointNotFound", f"Access point '{name}' does not exist.", 404)
        return super().describe_access_points()

    def create_mount_target(self) -> Any:
        system = store.efs().file_systems_by_id.get(self._get_param("FileSystemId"))
        if system is not None and store.is_deleting(system):
            message = f"File system '{system.file_system_id}' is in the state deleting."
            raise _refusal("IncorrectFileSystemLifeCycleState", message, 409)
        return super().create_mount_target()

    def modify_mount_target_security_groups(self) -> Any:
        name, groups = self._get_param("MountTargetId"), self._get_param("SecurityGroups")
        if name not in store.efs().mount_targets_by_id:
            raise MountTargetNotFound(name)
        _check_groups(groups, "SecurityGroupNotFound")
        return super().modify_mount_target_security_groups()


class FsxActions(FSxResponse):
    """Actions that moto answers differently, or not at all."""

    def create_file_system(self) -> str:
        asked = json.loads(self.body)
        subnets = [_subnet(name) for name in asked.get("SubnetIds") or ()]
        if len(subnets) != 1:
            raise _refusal("BadRequest", "A file system of type LUSTRE has exactly one subnet.")
        subnet, groups = subnets[0], asked.get("SecurityGroupIds") or [_default_group(subnets[0].vpc_id)]
        _check_groups(groups, "InvalidNetworkSettings")
        answer = json.loads(super().create_file_system())["FileSystem"]
        system = store.fsx().file_systems[answer["FileSystemId"]]
        system.file_system_id = f"fs-0{mock_random.get_random_hex(16)}"
        for written in ("dns_name", "resource_arn"):
            text = getattr(system, written).replace(answer["FileSystemId"], system.file_system_id)
            setattr(system, written, text)
        card = records.backend().create_network_interface(
            subnet, [subnet.get_available_subnet_ip(system)], group_ids=groups
        )
        system.card, system.vpc = card.id, subnet.vpc_id
        if system.lustre_configuration is not None or system.file_system_type == "LUSTRE":
            system.lustre_configuration = {
                "DeploymentType": "SCRATCH_1",
                **(system.lustre_configuration or {}),
                "MountName": mock_random.get_random_hex(8),
            }
        systems = store.fsx().file_systems
        systems[system.file_system_id] = systems.pop(answer["FileSystemId"])
        return json.dumps({"FileSystem": _described(system)})

    def describe_file_systems(self) -> str:
        known = store.fsx().file_systems
        for name in json.loads(self.body or "{}").get("FileSystemIds") or ():
            if name not in known:
                raise FileSystemNotFound(name)
        answer = json.loads(super().describe_file_systems())
        found = [_described(known[each["FileSystemId"]]) for each in answer["FileSystems"]]
        return json.dumps(answer | {"FileSystems": found})

    def delete_file_system(self) -> str:
        name = json.loads(self.body).get("FileSystemId")
        system = store.fsx().file_systems.get(name)
        if system is None:
            raise FileSystemNotFound(name)
        store.mark_deleted(system)
        return json.dumps({"FileSystemId": name, "Lifecycle": "DELETING"})


def install(context: Context, hypervisor: Hypervisor) -> None:
    """Answer the services `elasticfilesystem` and `fsx`. Their state is saved with EC2's."""
    stock = MOTO.stock("efs.models:EFSBackend.create_mount_target")
    MOTO.replace("efs.models:EFSBackend.create_mount_target", partialmethod(_create_mount_target, stock))
    MOTO.replace("efs.models:mock_random", Ids())

    def handler(service: str, actions: type[BaseResponse]) -> Any:
        async def handle(
            method: str, path: str, headers: Mapping[str, str], body: bytes, query_params: Mapping[str, Any]
        ) -> Answer:
            pairs = [
                (name, value)
                for name, given in (query_params or {}).items()
                for value in (given if isinstance(given, list) else [given])
            ]
            url = f"https://{service}.{get_region()}.amazonaws.com{path}"
            url += f"?{urllib.parse.urlencode(pairs)}" if pairs else ""
            return await asyncio.to_thread(_answer, actions, method, url, headers, body)

        return handle

    MINISTACK.extend("app:SERVICE_HANDLERS", {EFS: handler(EFS, EfsActions), FSX: handler(FSX, FsxActions)})
    pattern = {"target_prefixes": [TARGET], "host_patterns": []}
    MINISTACK.extend("core.router:SERVICE_PATTERNS", {FSX: pattern})
    MINISTACK.extend("core.iam_actions:SERVICE_TO_IAM_NAMESPACE", {FSX: FSX})
    access.install()
    hypervisor.share = share.find
    store.removed.append(lambda name: share.remove(name, context.state / SHARED_FOLDERS))
    ec2.RESTORED.append(store.restore)


def _answer(
    actions: type[BaseResponse], method: str, url: str, headers: Mapping[str, str], body: bytes
) -> Answer:
    kept = {name: value for name, value in headers.items() if name.lower() not in NOT_FORWARDED}
    kept["x-moto-account-id"] = get_account_id()
    with records.LOCK:
        store.efs(), store.fsx()
        status, answer_headers, answer = actions.dispatch(Request.from_primitives(method, url, kept, body))
    content = answer.encode() if isinstance(answer, str) else answer
    return (
        int(status),
        {name: str(value) for name, value in answer_headers.items() if name != "status"},
        content,
    )


def _refusal(code: str, message: str, status: int = 400) -> JsonRESTError:
    error = JsonRESTError(code, message)
    error.code = status
    return error


def _create_mount_target(backend: Any, stock: Any, *, subnet_id: str, **more: Any) -> Any:
    """Give a mount target without security groups the default group of its VPC."""
    groups = more.pop("security_groups", None)
    subnet = next((found for found in _subnets() if found.id == subnet_id), None)
    if subnet is not None and not groups:
        groups = [_default_group(subnet.vpc_id)]
    return stock(backend, subnet_id=subnet_id, security_groups=groups, **more)


def _subnets() -> list[Any]:
    return [subnet for by_id in records.backend().subnets.values() for subnet in by_id.values()]


def _subnet(name: str) -> Any:
    found = next((subnet for subnet in _subnets() if subnet.id == name), None)
    if found is None:
        raise _refusal("InvalidNetworkSettings", f"The subnet ID '{name}' does not exist")
    return found


def _default_group(vpc: str) -> str:
    return str(records.backend().get_default_security_group(vpc).id)


def _check_groups(names: Any, code: str) -> None:
    known = {group.id for group in records.backend().describe_security_groups()}
    for name in names or ():
        if name not in known:
            raise _refusal(code, f"The security group '{name}' does not exist")


def _described(system: Any) -> dict[str, Any]:
    lifecycle = "DELETING" if store.is_deleting(system) else "AVAILABLE"
    network = {"NetworkInterfaceIds": [system.card], "VpcId": system.vpc, "OwnerId": get_account_id()}
    return {**system.to_dict(), "Lifecycle": lifecycle, **network}
