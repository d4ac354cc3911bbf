"""Encrypted volumes: the account's default key, and the customer managed keys of a launch.

A launch without permission for its key succeeds, but the host does not start (`trouble`).
"""

from __future__ import annotations

from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError

from localcloud.services.ec2.actions.base import Actions
from localcloud.services.ec2.instances.lifecycle import Reason
from localcloud.services.ec2.store.records import backend
from localcloud.services.iam import keys, service_linked_roles
from localcloud.services.iam.checks import is_skipped

AWS_KEY = "alias/aws/ebs"
DENIED = Reason("Client.InternalError", "Client error on launch", "Client.InternalError")
UNUSABLE = Reason(
    "Client.InvalidKMSKey.InvalidState",
    "The KMS key provided is in an incorrect state",
    "Client.InvalidKMSKey.InvalidState",
)


def default_key() -> str:
    """Return the default key of new volumes, as an ARN if it is customer managed."""
    key = keys.customers(backend().default_kms_key_id)
    return str(key["Arn"]) if key else AWS_KEY


def key_of(device: dict[str, Any]) -> str | None:
    """Return the key of a device: its own, its snapshot's, or the account's default; None if unencrypted."""
    ebs = device.get("Ebs") or {}
    if not is_true(ebs.get("Encrypted")):
        return None
    named = ebs.get("KmsKeyId") or _key_of_snapshot(device) or default_key()
    customers = keys.customers(named)
    return str(customers["Arn"] if customers else named)


def keys_of(devices: list[dict[str, Any]]) -> list[str]:
    """Return all keys of a launch with these devices: keys of volumes and of their snapshots."""
    found = [key for device in devices for key in (key_of(device), _key_of_snapshot(device)) if key]
    return list(dict.fromkeys(found))


def _key_of_snapshot(device: dict[str, Any]) -> str | None:
    snapshot = backend().snapshots.get((device.get("Ebs") or {}).get("SnapshotId"))
    return str(snapshot.kms_key_id) if snapshot is not None and snapshot.kms_key_id else None


def keys_of_volumes(instance: Any) -> list[str]:
    volumes = [backend().get_volume(each.volume_id) for each in instance.block_device_mapping.values()]
    return [each.kms_key_id for each in volumes if each.kms_key_id]


def trouble(named: list[str], services: tuple[str, ...]) -> Reason | None:
    """Return why a host with volumes of these keys cannot start, or None.

    The caller of this request launches the host on behalf of the `services`.
    """
    if not all(keys.is_usable(key) for key in named):
        return UNUSABLE
    customers = [key for key in named if keys.customers(key)]
    denied = any(is_skipped(action) for action in keys.VOLUMES)
    roles = [service_linked_roles.arn(service) for service in services]
    if customers and (denied or not all(keys.allows_role(key, role) for key in customers for role in roles)):
        return DENIED
    return None


def is_true(value: object) -> bool:
    return str(value).lower() == "true"


class EncryptionActions(Actions):
    """Actions for the account's default key."""

    def get_ebs_default_kms_key_id(self) -> ActionResult:
        self.error_on_dryrun()
        return ActionResult({"KmsKeyId": default_key()})

    def modify_ebs_default_kms_key_id(self) -> ActionResult:
        self.error_on_dryrun()
        key = keys.customers(self._get_param("KmsKeyId"))
        if key is None:
            raise EC2ClientError("InvalidKmsKey.NotFound", "The specified KMS key does not exist.")
        backend().default_kms_key_id = str(key["Arn"])
        return ActionResult({"KmsKeyId": default_key()})

    def reset_ebs_default_kms_key_id(self) -> ActionResult:
        self.error_on_dryrun()
        backend().default_kms_key_id = ""
        return ActionResult({"KmsKeyId": default_key()})
