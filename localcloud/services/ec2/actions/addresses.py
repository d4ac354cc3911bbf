"""Elastic IP addresses. Each belongs to a VPC and has an allocation id."""

from typing import Any

from localcloud.services.ec2.actions.base import Actions


class AddressActions(Actions):
    def allocate_address(self) -> Any:
        """Accept Domain=standard, the EC2-Classic value that older clients send."""
        self.params["Domain"] = "vpc"
        return super().allocate_address()
