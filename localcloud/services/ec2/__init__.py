"""The local cloud's EC2: moto's store and serialising, our launches, lifecycle, fleets, images and network.

Start reading at `service.py` (which class answers what), then `launch.py` and `lifecycle.py`.
"""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING

# moto would load hundreds of AMIs, each with a volume and a snapshot, before the first request.
os.environ.setdefault("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")

if TYPE_CHECKING:
    from localcloud.base.context import Context
    from localcloud.services.ec2.instances.lifecycle import Lifecycle


def install(context: Context) -> None:
    """Answer service `ec2`, provision AWS::EC2::*, keep both over restarts."""
    from ministack import app
    from ministack.core.responses import request_scope

    from localcloud.server import faults
    from localcloud.services.ec2 import cloudformation, transport
    from localcloud.services.ec2.actions import images
    from localcloud.services.ec2.actions.base import World, enter
    from localcloud.services.ec2.capacity.pools import Capacity
    from localcloud.services.ec2.instances import metadata
    from localcloud.services.ec2.instances.lifecycle import Lifecycle
    from localcloud.services.ec2.store import records, views

    timers = records.Timers()
    lifecycle = Lifecycle(context.facts, context.hypervisor, timers, context.store.changed)
    enter(World(context.facts, context.hypervisor, Capacity(context.facts), lifecycle, timers))

    _mend_moto()
    app.SERVICE_HANDLERS["ec2"] = transport.handle
    cloudformation.install()
    views.install()
    context.hypervisor.metadata = metadata.facts_of
    context.machine_listeners.append(lifecycle.machine_changed)

    with request_scope(context.account, context.region):
        records.here()
        images.seed(context.facts.images)
        images.publish_parameters(context.facts.images)

    faults.install(context)
    _keep(context, lifecycle)


def _mend_moto() -> None:
    """Where moto's EC2 has a function that our facts, or our sense of speed, contradict."""
    from moto.ec2.models import iam_instance_profile
    from moto.ec2.models.amis import Ami
    from moto.ec2.models.core import TaggedEC2Resource
    from moto.ec2.models.subnets import Subnet
    from moto.ec2.responses import instances as instance_responses
    from moto.ec2.responses._base_response import EC2BaseResponse
    from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE

    from localcloud.services.ec2.actions import catalogue, images, launch
    from localcloud.services.ec2.store import addresses, records

    catalogue.teach_filters()
    for module in (iam_instance_profile, instance_responses):
        module.filter_iam_instance_profiles = launch.moto_profile
    Ami.block_device_mappings = property(images.devices)
    EC2BaseResponse.RESPONSE_KEY_PATH_TO_TRANSFORMER["Image.CreationDate"] = images.stamp
    TaggedEC2Resource.get_tags = records.tags_of
    Subnet.get_available_subnet_ip = addresses.next_address
    EC2_PREFIX_TO_RESOURCE["sir"] = "spot-instances-request"


def _keep(context: Context, lifecycle: Lifecycle) -> None:
    from ministack.core.responses import request_scope

    from localcloud.services.ec2 import transport
    from localcloud.services.ec2.actions import images
    from localcloud.services.ec2.store import records

    def save() -> bytes:
        with transport.LOCK:
            return pickle.dumps(records.snapshot())

    def restore(saved: bytes) -> None:
        with transport.LOCK:
            records.restore(pickle.loads(saved))  # noqa: S301 - our own file in the state folder
            with request_scope(context.account, context.region):
                images.seed(context.facts.images)
                images.publish_parameters(context.facts.images)
                images.resume()
        lifecycle.resume()

    context.store.keep("ec2", save, restore)
