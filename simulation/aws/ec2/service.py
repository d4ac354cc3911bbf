"""The EC2 service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulation.aws.ec2 import permissions
from simulation.aws.ec2.fleets import FleetCalls
from simulation.aws.ec2.ground_truth import Bill, bill
from simulation.aws.ec2.images import ImageCalls
from simulation.aws.ec2.instances import InstanceCalls
from simulation.aws.ec2.offerings import OfferingCalls
from simulation.aws.endpoint.api import Caller, Check


class Ec2(InstanceCalls, FleetCalls, ImageCalls, OfferingCalls):
    """The EC2 service. Operations are methods in snake case; other methods are for users, faults, hosts and the
    oracle.

    Users and faults: `interrupt`, `kill`, `pools.leave` / `hold` / `quotas`, `catalogue.set_spot_price`,
    `short`, `refusals`, `image_failures`, `fail_image`. Hosts: `shut_down`, `tags`, `spot_notice`. Oracle:
    `bill`, `tagged`, `ever`.
    """

    def checks(self, caller: Caller, operation: str, request: Mapping[str, Any]) -> list[Check]:
        return permissions.checks(self, operation, request)

    def bill(self, key: str, value: str) -> Bill:
        """Return the cost so far of all instances that ever had this tag."""
        gib_month = self.catalogue.settings.here(self.catalogue.settings.storage_prices["gp3"])
        return bill(self.find_tagged(key, value), self.world.now, gib_month=gib_month)
