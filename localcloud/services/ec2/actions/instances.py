"""Start, stop, reboot, terminate and modify instances, and read their console output."""

from __future__ import annotations

import base64
from typing import Any

from moto.core.responses import ActionResult, EmptyResult
from moto.ec2.exceptions import EC2ClientError, InvalidSecurityGroupNotFoundError
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.models.instances import InstanceState

from localcloud.services.ec2.actions import encryption
from localcloud.services.ec2.actions.base import Actions
from localcloud.services.ec2.capacity.pools import pool_of
from localcloud.services.ec2.instances import spot_requests
from localcloud.services.ec2.instances.lifecycle import BY_USER, wrong_state
from localcloud.services.ec2.store.records import GONE, now


class InstanceActions(Actions):
    """Actions for launched instances."""

    def start_instances(self) -> ActionResult:
        self.error_on_dryrun()
        chosen = self.ec2_backend.get_multi_instances_by_id(self._get_param("InstanceIds", []))
        for one in chosen:
            if one.state not in ("stopped", "pending", "running"):
                raise wrong_state(one, "started")
            if one.state == "stopped" and spot_requests.stopped_by_ec2(one):
                raise EC2ClientError(
                    "IncorrectSpotRequestState",
                    f"You can't start the Spot Instance '{one.id}' because it was stopped by Amazon EC2.",
                )
        starting = [one for one in chosen if one.state == "stopped"]
        for one in starting:
            grant = self.ec2.capacity.grant(pool_of(one), 1)
            if grant.refusal is not None and grant.count < 1:
                raise EC2ClientError(grant.refusal.code, grant.refusal.message)
        rows = []
        for one in chosen:
            before = one._state
            if one in starting:
                spot_requests.enable_request_of(one)
                self.ec2.lifecycle.start(one, encryption.trouble(encryption.keys_of_volumes(one), ()))
            rows.append(_change(one, before))
        return ActionResult({"StartingInstances": rows})

    def stop_instances(self) -> ActionResult:
        self.error_on_dryrun()
        chosen = self.ec2_backend.get_multi_instances_by_id(self._get_param("InstanceIds", []))
        for one in chosen:
            if one.state not in ("running", "stopping", "stopped"):
                raise wrong_state(one, "stopped")
            if one.disable_api_stop is True:
                raise EC2ClientError(
                    "OperationNotPermitted",
                    f"The instance '{one.id}' may not be stopped. Modify its 'disableApiStop' instance attribute and "
                    "try again.",
                )
            if one.state == "running":
                spot_requests.refuse_stop(one)
        rows = []
        for one in chosen:
            before = one._state
            if one.state == "running":
                self.ec2.lifecycle.stop(one, BY_USER)
            rows.append(_change(one, before))
        return ActionResult({"StoppingInstances": rows})

    def terminate_instances(self) -> ActionResult:
        self.error_on_dryrun()
        ids = self._get_param("InstanceIds", [])
        if not ids:
            raise EC2ClientError("MissingParameter", "The request must contain the parameter InstanceId")
        chosen = self.ec2_backend.get_multi_instances_by_id(ids)
        for one in chosen:
            if one.disable_api_termination is True:
                raise EC2ClientError(
                    "OperationNotPermitted",
                    f"The instance '{one.id}' may not be terminated. Modify its 'disableApiTermination' instance "
                    "attribute and try again.",
                )
        rows = []
        for one in chosen:
            before = one._state
            if one.state not in GONE:
                self.ec2.lifecycle.terminate(one, BY_USER)
            rows.append(_change(one, before))
        return ActionResult({"TerminatingInstances": rows})

    def reboot_instances(self) -> ActionResult:
        """Reboot with the same disk, address and state. As on AWS, stopping and terminated instances are skipped."""
        self.error_on_dryrun()
        chosen = self.ec2_backend.get_multi_instances_by_id(self._get_param("InstanceIds", []))
        for one in chosen:
            if one.state not in ("running", *GONE):
                raise wrong_state(one, "rebooted")
        for one in chosen:
            if one.state == "running":
                self.ec2.lifecycle.reboot(one)
        return EmptyResult()

    def get_console_output(self) -> ActionResult:
        self.error_on_dryrun()
        one = self.ec2_backend.get_instance(self._get_param("InstanceId"))
        printed = self.ec2.hypervisor.console(one.id)
        encoded = base64.b64encode(printed.encode()[-65536:]).decode()
        return ActionResult({"InstanceId": one.id, "Output": encoded, "Timestamp": now()})

    def modify_instance_attribute(self) -> ActionResult:
        """Change one attribute. moto treats unknown attributes as a change to no security groups."""
        self.error_on_dryrun()
        one = self.ec2_backend.get_instance(self._get_param("InstanceId"))
        named = self._get_param("Attribute")
        attributes = [name for name in ATTRIBUTES if self._get_param(name) is not None]
        if len(attributes) + (named is not None) > 1:
            raise EC2ClientError(
                "InvalidParameterCombination", "Fields for multiple attribute types specified."
            )
        if named is not None:
            self.params[named[0].upper() + named[1:]] = {"Value": self._get_param("Value")}
        if (behaviour := self._get_param("InstanceInitiatedShutdownBehavior.Value")) is not None:
            if behaviour not in ("stop", "terminate"):
                raise EC2ClientError(
                    "InvalidParameterValue",
                    f"Value ({behaviour}) for parameter instanceInitiatedShutdownBehavior is invalid.",
                )
            one.instance_initiated_shutdown_behavior = behaviour
            return EmptyResult()
        for parameter, attribute in FLAGS.items():
            if (flag := self._get_param(f"{parameter}.Value")) is not None:
                setattr(one, attribute, str(flag).lower() == "true")
                return EmptyResult()
        if (new_type := self._get_param("InstanceType.Value")) is not None:
            return self._change_type(one, new_type)
        if (groups := self._get_param("Groups")) is not None:
            return self._change_groups(one, groups)
        if self._get_param("BlockDeviceMappings") is not None:
            return super().modify_instance_attribute()
        raise EC2ClientError("InvalidParameterCombination", "No attributes specified.")

    def _change_groups(self, one: Any, group_ids: list[str]) -> ActionResult:
        """Change the groups of the instance and of its network card, which moto leaves unchanged."""
        groups = [self.ec2_backend.get_security_group_from_id(group_id) for group_id in group_ids]
        for group_id, group in zip(group_ids, groups, strict=True):
            if group is None:
                raise InvalidSecurityGroupNotFoundError(group_id)
        self.ec2_backend.modify_network_interface_attribute(one.nics[0].id, group_ids)
        one.security_groups = groups
        return EmptyResult()

    def modify_network_interface_attribute(self) -> ActionResult:
        """Change the groups of the network card and of its instance, which moto leaves unchanged."""
        answer = super().modify_network_interface_attribute()
        card = self.ec2_backend.get_network_interface(self._get_param("NetworkInterfaceId"))
        if card.instance is not None:
            card.instance.security_groups = list(card._group_set)
        return answer

    def _change_type(self, one: Any, new_type: str) -> ActionResult:
        if one.state != "stopped":
            raise EC2ClientError(
                "IncorrectInstanceState", f"The instance '{one.id}' is not in the 'stopped' state."
            )
        if one.lifecycle == "spot":
            raise EC2ClientError("UnsupportedOperation", "You can't change the type of a Spot Instance.")
        if new_type not in INSTANCE_TYPES:
            raise EC2ClientError(
                "InvalidInstanceAttributeValue", f"The instance type '{new_type}' does not exist"
            )
        one.instance_type = new_type
        return EmptyResult()


FLAGS = {
    "DisableApiTermination": "disable_api_termination",
    "DisableApiStop": "disable_api_stop",
    "SourceDestCheck": "source_dest_check",
    "EbsOptimized": "ebs_optimized",
}
ATTRIBUTES = (
    *FLAGS,
    *("InstanceInitiatedShutdownBehavior", "InstanceType", "Groups", "BlockDeviceMappings", "UserData"),
    *("Kernel", "Ramdisk", "SriovNetSupport", "EnaSupport"),
)
"""Attributes that a call may change, one at a time."""


def _change(one: Any, before: InstanceState) -> dict[str, Any]:
    return {
        "InstanceId": one.id,
        "CurrentState": {"Code": one.state_code, "Name": one.state},
        "PreviousState": {"Code": before.code, "Name": before.name},
    }
