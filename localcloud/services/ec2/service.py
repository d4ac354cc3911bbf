"""moto's EC2 with our actions in front: the class that answers every EC2 request."""

from __future__ import annotations

from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response

from localcloud.services.ec2.actions.catalogue import CatalogueActions
from localcloud.services.ec2.actions.dependencies import DependencyActions
from localcloud.services.ec2.actions.fleets import FleetActions
from localcloud.services.ec2.actions.images import ImageActions
from localcloud.services.ec2.actions.launch import LaunchActions
from localcloud.services.ec2.actions.spot import SpotActions
from localcloud.services.ec2.instances.lifecycle import LifecycleActions
from localcloud.services.ec2.throttle import thrown


class Ec2(
    LaunchActions,
    FleetActions,
    LifecycleActions,
    SpotActions,
    ImageActions,
    CatalogueActions,
    DependencyActions,
    EC2Response,
):
    """An action's method of one of the mixins wins over moto's."""

    def call_action(self) -> Any:
        fault = thrown(self._get_action())
        if fault is None:
            return super().call_action()
        error = EC2ClientError(fault.code, fault.message)
        status, headers, body = self.serialized(ActionResult(error))
        return status, headers, body
