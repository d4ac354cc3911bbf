"""Elastic IP addresses: every one is of a VPC and has an allocation id, since there is no EC2-Classic any more."""

from typing import Any

from localcloud.services.ec2.actions.base import Actions


class AddressActions(Actions):
    def allocate_address(self) -> Any:
        """Domain=standard, which older clients say, is EC2-Classic's word."""
        self.params["Domain"] = "vpc"
        return super().allocate_address()
