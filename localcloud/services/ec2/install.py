"""Installation of the local cloud's EC2: moto's store, our actions, lifecycle, network and faults."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from functools import cache, partial, partialmethod
from typing import TYPE_CHECKING

from ministack.core.responses import request_scope

from localcloud.base.background import Timers
from localcloud.base.context import Context
from localcloud.machine.hypervisor import Hypervisor
from localcloud.patches import MINISTACK, MOTO
from localcloud.services.ec2.actions import catalogue, images, profiles
from localcloud.services.ec2.actions.base import Ec2
from localcloud.services.ec2.api import Api
from localcloud.services.ec2.capacity.pools import Capacity
from localcloud.services.ec2.cloudformation import handlers
from localcloud.services.ec2.faults import ImageFaults, Impairments
from localcloud.services.ec2.instances import metadata, security
from localcloud.services.ec2.instances.lifecycle import Lifecycle
from localcloud.services.ec2.permissions import checks, systems_manager
from localcloud.services.ec2.store import addresses, endpoints, records, views
from localcloud.services.iam import enforcement, expansion

if TYPE_CHECKING:
    from moto.core.serialize import AttributePickerContext

    PossibleKeys = Callable[[object, AttributePickerContext], Iterable[str]]


RESTORED: list[Callable[[], None]] = []
"""Called when the saved state of EC2 is back, for services whose state is saved with it."""


def install(context: Context, hypervisor: Hypervisor) -> Ec2:
    """Answer the service `ec2`, provision AWS::EC2::*, and save the state of both."""
    settings, timers = context.settings, Timers()
    lifecycle = Lifecycle(settings, hypervisor, timers, context.store.request_write)
    impairments = Impairments(hypervisor, timers)
    ec2 = Ec2(settings, hypervisor, Capacity(settings), lifecycle, timers, ImageFaults(), impairments)
    api = Api(ec2)

    patch_moto()
    MINISTACK.extend("app:SERVICE_HANDLERS", {"ec2": api.handle})
    handlers.install(api.client)
    views.install()
    expansion.EXPANDERS.update(systems_manager.SYSTEMS_MANAGER_CHECKS)
    expansion.SERVICE_EXPANDERS["ec2"] = partial(checks.checks, settings.zones)
    enforcement.PATH_CONDITIONS["s3"] = endpoints.condition_keys
    hypervisor.metadata = metadata.details_of
    hypervisor.rules = security.rules_of
    hypervisor.listeners.append(lifecycle.machine_changed)

    with request_scope(context.account, context.region):
        records.here()
        images.seed(settings.images)
        images.publish_parameters(settings.images)

    _keep(context, lifecycle)
    return ec2


def patch_moto() -> None:
    """Replace functions of moto that contradict the settings or are slow."""
    catalogue.add_filters()
    for module in ("models.iam_instance_profile", "responses.instances"):
        MOTO.replace(f"ec2.{module}:filter_iam_instance_profiles", profiles.moto_profile)
    MOTO.replace("ec2.models.amis:Ami.block_device_mappings", property(images.devices))
    MOTO.extend(
        "ec2.responses._base_response:EC2BaseResponse.RESPONSE_KEY_PATH_TO_TRANSFORMER",
        {"Image.CreationDate": images.timestamp},
    )
    names = "core.responses:method_names_from_class"
    MOTO.replace(names, cache(MOTO.stock(names)))
    keys = "core.serialize:XFormedAttributePicker.get_possible_keys"
    MOTO.replace(keys, cache_possible_keys(MOTO.stock(keys)))
    MOTO.replace("ec2.models.core:TaggedEC2Resource.get_tags", records.tags_of)
    MOTO.replace("ec2.models.subnets:Subnet.get_available_subnet_ip", addresses.next_address)
    stock_group = MOTO.stock("ec2.models.security_groups:SecurityGroupBackend.create_security_group")
    MOTO.replace(
        "ec2.models.security_groups:SecurityGroupBackend.create_security_group",
        partialmethod(security.create_group, stock_group),
    )
    MOTO.extend("ec2.utils:EC2_PREFIX_TO_RESOURCE", {"sir": "spot-instances-request"})


def cache_possible_keys(possible_keys: PossibleKeys) -> PossibleKeys:
    """Cache the names under which moto's records may hold a member of an answer.

    They depend on the record's class, the member and its structure. moto computes them again for each value.
    """
    known: dict[tuple[str, type, str, str], tuple[str, ...]] = {}

    def keys(picker: object, context: AttributePickerContext) -> Iterable[str]:
        parent, service = getattr(context.shape, "parent", None), context.service_model
        if parent is None or service is None:
            return possible_keys(picker, context)
        names = service.service_name, type(context.obj), context.key, parent.name
        if names not in known:
            known[names] = tuple(possible_keys(picker, context))
        return known[names]

    return keys


def _keep(context: Context, lifecycle: Lifecycle) -> None:
    def save() -> bytes:
        with records.LOCK:
            return pickle.dumps(records.snapshot())

    def restore(saved: bytes) -> None:
        with records.LOCK:
            records.restore(pickle.loads(saved))  # noqa: S301 - our own file in the state folder
            for restore_beside in RESTORED:
                restore_beside()
            with request_scope(context.account, context.region):
                images.seed(context.settings.images)
                images.publish_parameters(context.settings.images)
                images.resume()
        lifecycle.resume()

    context.store.keep("ec2", save, restore)
