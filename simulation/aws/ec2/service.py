"""The whole of EC2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulation.aws.door.api import Caller, Check
from simulation.aws.ec2 import permissions
from simulation.aws.ec2.books import Bill, bill
from simulation.aws.ec2.fleets import FleetCalls
from simulation.aws.ec2.images import ImageCalls
from simulation.aws.ec2.instances import InstanceCalls
from simulation.aws.ec2.offers import OfferCalls


class Ec2(InstanceCalls, FleetCalls, ImageCalls, OfferCalls):
    """Operations are methods in snake case; what people, nature, hosts and the oracle do has plain names.

    People and nature: `interrupt`, `kill`, `pools.leave` / `hold` / `quotas`, `catalogue.set_spot_price`, `short`,
    `refusals`, `image_failures`, `fail_image`. Hosts: `shut_down`, `tags`, `spot_notice`. Oracle: `bill`,
    `tagged`, `ever`.
    """

    def checks(self, caller: Caller, operation: str, request: Mapping[str, Any]) -> list[Check]:
        return permissions.checks(self, operation, request)

    def bill(self, key: str, value: str) -> Bill:
        """What all instances that ever carried this tag have cost until now."""
        gib_month = self.catalogue.settings.here(self.catalogue.settings.storage_prices["gp3"])
        return bill(self.tagged(key, value), self.world.now, gib_month=gib_month)
