"""Networks that are in use cannot be deleted: the DependencyViolation that moto does not know."""

from __future__ import annotations

from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response

from localcloud.services.ec2.actions.base import Actions


class DependencyActions(Actions):
    """DeleteSubnet, DeleteSecurityGroup, DetachInternetGateway."""

    def delete_subnet(self) -> ActionResult:
        self.error_on_dryrun()
        subnet_id = self._get_param("SubnetId")
        if any(card.subnet.id == subnet_id for card in self._cards()):
            raise _in_use(f"The subnet '{subnet_id}' has dependencies and cannot be deleted.")
        return EC2Response.delete_subnet(self)

    def delete_security_group(self) -> ActionResult:
        self.error_on_dryrun()
        group_id = self._get_param("GroupId")
        if any(group.id == group_id for card in self._cards() for group in card.group_set):
            raise _in_use(f"resource {group_id} has a dependent object")
        return EC2Response.delete_security_group(self)

    def detach_internet_gateway(self) -> ActionResult:
        self.error_on_dryrun()
        vpc_id = self._get_param("VpcId")
        if any(card.subnet.vpc_id == vpc_id and card.public_ip for card in self._cards()):
            raise _in_use(f"Network {vpc_id} has some mapped public address(es). Please unmap those first.")
        return EC2Response.detach_internet_gateway(self)

    def _cards(self) -> list[Any]:
        return list(self.ec2_backend.get_all_network_interfaces())


def _in_use(message: str) -> EC2ClientError:
    return EC2ClientError("DependencyViolation", message)
