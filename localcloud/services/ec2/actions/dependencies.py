"""Refused deletions of networks in use (DependencyViolation), and VPC endpoints, which moto cannot delete."""

from __future__ import annotations

from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response

from localcloud.services.ec2.actions.base import Actions


class DependencyActions(Actions):
    """DeleteSubnet, DeleteSecurityGroup, DetachInternetGateway, CreateVpcEndpoint, DeleteVpcEndpoints."""

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

    def create_vpc_endpoint(self) -> ActionResult:
        """Default the type to Gateway. moto leaves it out and then cannot delete the endpoint."""
        self.params.setdefault("VpcEndpointType", "Gateway")
        return EC2Response.create_vpc_endpoint(self)

    def delete_vpc_endpoints(self) -> ActionResult:
        """Delete endpoints. The answer lists missing ones, and the request succeeds."""
        self.error_on_dryrun()
        ids = self._get_param("VpcEndpointIds", [])
        known = self.ec2_backend.vpc_end_points
        missing = [each for each in ids if each not in known or known[each].state == "deleted"]
        self.ec2_backend.delete_vpc_endpoints([each for each in ids if each not in missing])
        errors = [
            {
                "ResourceId": each,
                "Error": {
                    "Code": "InvalidVpcEndpoint.NotFound",
                    "Message": f"The VpcEndpoint Id '{each}' does not exist",
                },
            }
            for each in missing
        ]
        return ActionResult({"Unsuccessful": errors})

    def _cards(self) -> list[Any]:
        return list(self.ec2_backend.get_all_network_interfaces())


def _in_use(message: str) -> EC2ClientError:
    return EC2ClientError("DependencyViolation", message)
