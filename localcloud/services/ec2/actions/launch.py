"""Launches from a RunInstances request: image, checks, capacity, moto's launch, and fields that moto drops.

CreateFleet uses the same steps, one capacity pool at a time.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from ministack.services import ssm as ministack_ssm
from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.models.instances import MetadataOptions, StateReason
from moto.ec2.responses import EC2Response

from localcloud.services.ec2.actions import encryption
from localcloud.services.ec2.actions.base import Actions
from localcloud.services.ec2.actions.profiles import profile_of
from localcloud.services.ec2.actions.template import Parameters, plain, tags_for, with_template
from localcloud.services.ec2.capacity import initialization
from localcloud.services.ec2.capacity.allocation import Pool
from localcloud.services.ec2.capacity.pools import offered_in
from localcloud.services.ec2.instances import spot_requests
from localcloud.services.ec2.store.records import Answered, backend, here, now
from localcloud.services.iam import service_linked_roles
from localcloud.services.iam.checks import is_skipped

DEFAULT_TYPE = "m1.small"
METADATA_TAG_KEY = re.compile(r"[A-Za-z0-9+\-=.,_:@]+")
USER_DATA_LIMIT = 16 * 1024


@dataclass(frozen=True)
class Launch:
    """A validated launch: RunInstances parameters merged with the template, and the capacity pool."""

    parameters: Parameters
    pool: Pool
    subnet_id: str

    @property
    def spot_options(self) -> Parameters:
        """Return SpotOptions of a spot launch."""
        return (self.parameters.get("InstanceMarketOptions") or {}).get("SpotOptions") or {}

    @property
    def initialization_rate(self) -> int:
        """Return the initialization rate in MiB/s of all disks of one instance."""
        asked = (device.get("Ebs") or {} for device in self.parameters["BlockDeviceMappings"])
        return sum(int(ebs.get("VolumeInitializationRate") or 0) for ebs in asked)

    def tags(self, resource_type: str) -> dict[str, str]:
        """Return the launch's tags for resources of this type."""
        return tags_for(self.parameters, resource_type)


def resolved_image(image_id: str | None) -> str | None:
    """Return the AMI id. `resolve:ssm:NAME[:VERSION]` is resolved at the launch."""
    if not image_id or not image_id.startswith("resolve:ssm:"):
        return image_id
    name = image_id.removeprefix("resolve:ssm:")
    if name.startswith("arn:"):
        name = "/" + name.split(":parameter/", 1)[-1]
    parameter, value = name.split(":")[0], None
    found = ministack_ssm._parameters.get(parameter)
    if found is not None:
        value = found["Value"]
    if value is None or not re.fullmatch(r"ami-[0-9a-f]+", value):
        raise EC2ClientError(
            "InvalidParameterValue",
            f"Invalid value '{image_id}' for parameter ImageId: the SSM parameter {parameter} "
            + ("does not exist." if value is None else f"holds '{value}', which is not an AMI id."),
        )
    return str(value)


def usable_image(image_id: str | None) -> Any:
    """Return the image if it can be launched, or raise AWS's error."""
    if not image_id:
        raise EC2ClientError("MissingParameter", "The request must contain the parameter ImageId")
    if not re.fullmatch(r"ami-[0-9a-f]{8,17}", image_id):
        raise EC2ClientError("InvalidAMIID.Malformed", f'Invalid id: "{image_id}" (expecting "ami-...")')
    image = backend().amis.get(image_id)
    if image is None:
        raise EC2ClientError("InvalidAMIID.NotFound", f"The image id '[{image_id}]' does not exist")
    if image.state != "available":
        raise EC2ClientError("InvalidAMIID.Unavailable", f"The image ID '{image_id}' is {image.state}")
    return image


# ------------------------------------------------------------------------------------------ validation


def validate_launch(request: Parameters, zones: Collection[str]) -> Launch:
    """Validate a request and return its launch in one of the `zones`. Raise AWS's error for an invalid request."""
    parameters = with_template(request)
    instance_type = parameters.setdefault("InstanceType", DEFAULT_TYPE)
    if instance_type not in INSTANCE_TYPES:
        raise EC2ClientError("InvalidParameterValue", f"Invalid value '{instance_type}' for InstanceType.")
    image = usable_image(resolved_image(parameters.get("ImageId")))
    _check_architecture(instance_type, image)
    parameters["ImageId"] = image.id
    parameters["BlockDeviceMappings"] = _devices(image, parameters)
    subnet = _subnet(parameters, zones)
    _put_subnet(parameters, subnet.id)
    market = (parameters.get("InstanceMarketOptions") or {}).get("MarketType") or "on-demand"
    _check_market(parameters, market)
    _check_user_data(parameters.get("UserData"))
    _check_metadata_tags(parameters)
    profile_of(parameters)
    pool = Pool(instance_type, subnet.availability_zone, market)
    if pool.zone not in zones or pool.zone not in offered_in(subnet.ec2_backend.region_name, instance_type):
        raise EC2ClientError(
            "Unsupported",
            f"Your requested instance type ({instance_type}) is not supported in your requested Availability Zone "
            f"({pool.zone}). Please retry your request by not specifying an Availability Zone or choosing another one.",
        )
    return Launch(parameters, pool, subnet.id)


def _check_architecture(instance_type: str, image: Any) -> None:
    supported = INSTANCE_TYPES[instance_type]["ProcessorInfo"]["SupportedArchitectures"]
    if image.architecture not in supported:
        raise EC2ClientError(
            "InvalidParameterValue",
            f"The architecture '{','.join(supported)}' of the specified instance type does not match the "
            f"architecture '{image.architecture}' of the specified AMI. Specify an instance type and an AMI that have "
            "matching architectures, and try again.",
        )


def _devices(image: Any, parameters: Parameters) -> list[Parameters]:
    """Return the block devices: the image's root device unless overridden, and the request's other devices."""
    root = image.block_device_mappings[0]
    given = {d["DeviceName"]: d for d in parameters.get("BlockDeviceMappings") or []}
    own = given.pop(root["DeviceName"], {})
    ebs = {
        "SnapshotId": root["Ebs"]["SnapshotId"],
        "VolumeType": "gp3",
        "DeleteOnTermination": True,
        **own.get("Ebs", {}),
    }
    size = int(ebs.get("VolumeSize") or root["Ebs"]["VolumeSize"])
    if size < int(root["Ebs"]["VolumeSize"]):
        raise EC2ClientError(
            "InvalidBlockDeviceMapping",
            f"Volume of size {size}GB is smaller than snapshot '{ebs['SnapshotId']}', "
            f"expect size >= {root['Ebs']['VolumeSize']}GB",
        )
    whole = {**ebs, "VolumeSize": size}
    if root["Ebs"]["Encrypted"]:  # an encrypted snapshot gives an encrypted volume
        whole["Encrypted"] = True
    devices = [{"DeviceName": root["DeviceName"], "Ebs": whole}, *given.values()]
    for device in devices:
        asked = device.get("Ebs") or {}
        if backend().ebs_encryption_by_default and "Ebs" in device:
            asked["Encrypted"] = True
        wrong = initialization.fault(asked, snapshot=bool(asked.get("SnapshotId")))
        if wrong is not None:
            raise EC2ClientError(wrong.code, wrong.message)
    return devices


def _subnet(parameters: Parameters, zones: Collection[str]) -> Any:
    """Return the named subnet, or the default subnet of the named or first zone."""
    cards = parameters.get("NetworkInterfaces") or []
    named = parameters.get("SubnetId") or next((c["SubnetId"] for c in cards if c.get("SubnetId")), None)
    if named:
        if named not in {subnet.id for zone in backend().subnets.values() for subnet in zone.values()}:
            raise EC2ClientError("InvalidSubnetID.NotFound", f"The subnet ID '{named}' does not exist")
        return backend().get_subnet(named)
    zone = (parameters.get("Placement") or {}).get("AvailabilityZone")
    if zone is not None and zone not in zones:
        raise EC2ClientError("InvalidParameterValue", f"Invalid availability zone: [{zone}]")
    defaults = backend().get_default_subnets()
    for candidate in [zone] if zone else zones:
        if candidate in defaults:
            return defaults[candidate]
    raise EC2ClientError("MissingInput", "No subnets found for the default VPC. Please specify a subnet.")


def _put_subnet(parameters: Parameters, subnet_id: str) -> None:
    """Set the subnet of the request or override, in the template's network card if there is one."""
    cards = [dict(card) for card in parameters.get("NetworkInterfaces") or []]
    if not cards:
        parameters["SubnetId"] = subnet_id
        return
    cards[0] = {"DeviceIndex": 0, **cards[0], "SubnetId": subnet_id}
    parameters["NetworkInterfaces"] = cards
    parameters.pop("SubnetId", None)


def _check_market(parameters: Parameters, market: str) -> None:
    if market not in ("spot", "on-demand"):
        raise EC2ClientError("UnsupportedOperation", f"The local cloud has no market '{market}'.")
    options = (parameters.get("InstanceMarketOptions") or {}).get("SpotOptions") or {}
    stays = options.get("InstanceInterruptionBehavior") in ("stop", "hibernate")
    if options.get("SpotInstanceType") == "persistent" and not stays:
        raise EC2ClientError(
            "InvalidParameterCombination",
            "A persistent Spot request through RunInstances needs InstanceInterruptionBehavior stop or hibernate.",
        )
    if stays and options.get("SpotInstanceType") != "persistent":
        raise EC2ClientError(
            "InvalidParameterCombination",
            f"'{options['InstanceInterruptionBehavior']}' is only supported for persistent Spot requests.",
        )


def _check_user_data(user_data: str | None) -> None:
    if not user_data:
        return
    try:
        raw = base64.b64decode(user_data, validate=True)
    except (ValueError, binascii.Error) as wrong:
        raise EC2ClientError("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.") from wrong
    if len(raw) > USER_DATA_LIMIT:
        raise EC2ClientError("InvalidParameterValue", "User data is limited to 16384 bytes")


def _check_metadata_tags(parameters: Parameters) -> None:
    """Refuse tags that cannot be paths in the metadata service."""
    if (parameters.get("MetadataOptions") or {}).get("InstanceMetadataTags") != "enabled":
        return
    for key in tags_for(parameters, "instance"):
        if not METADATA_TAG_KEY.fullmatch(key) or key in (".", "..", "_index"):
            raise EC2ClientError(
                "InvalidParameterValue",
                f"'{key}' is not a valid tag key: with instance tags in the metadata service only letters, digits "
                "and +-=.,_:@ are allowed.",
            )


# ------------------------------------------------------------------------------------------ launch


def launch_instances(responder: Actions, launch: Launch, count: int, fleet_id: str | None = None) -> Any:
    """Launch `count` instances through moto's RunInstances, then add what moto drops. Return moto's reservation."""
    given, ec2 = launch.parameters, responder.ec2
    services = launching_services(launch.pool.market, is_fleet=fleet_id is not None)
    _create_missing_roles(services)
    trouble = encryption.trouble(encryption.keys_of(given["BlockDeviceMappings"]), services)
    responder.params = {
        **given,
        "MinCount": count,
        "MaxCount": count,
        "IamInstanceProfile": {},
        "DryRun": False,
    }
    reservation = EC2Response.run_instances(responder).result
    for new in reservation.instances:
        _complete(new, launch)
        if fleet_id is not None:
            new.add_tags({"aws:ec2:fleet-id": fleet_id})
        if launch.pool.market == "spot":
            spot_requests.open_request(
                new,
                launch.spot_options,
                launch.tags("spot-instances-request"),
                fleet_id,
                ec2.settings.on_demand_price(new.instance_type),
            )
        ec2.lifecycle.launch(new, trouble)
    return reservation


def launching_services(market: str, *, is_fleet: bool) -> tuple[str, ...]:
    """Return the services whose roles EC2 uses for a launch."""
    fleet = ("ec2fleet.amazonaws.com",) if is_fleet else ()
    return (*fleet, "spot.amazonaws.com") if market == "spot" else fleet


def _create_missing_roles(services: tuple[str, ...]) -> None:
    """Create missing service-linked roles if the caller may."""
    for service in services:
        if not service_linked_roles.exists(service):
            if is_skipped(service_linked_roles.MAKE):
                raise EC2ClientError(
                    "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
                    "The provided credentials do not have permission to create the service-linked role for "
                    f"{service_linked_roles.CALLED[service]}.",
                )
            service_linked_roles.make(service)


def _complete(new: Any, launch: Launch) -> None:
    """Set fields of the request that moto's RunInstances drops."""
    given, store = launch.parameters, backend()
    profile = profile_of(given)
    if profile is not None:
        store.associate_iam_instance_profile(new.id, iam_instance_profile_arn=profile["Arn"])
        new.iam_instance_profile = {"Arn": profile["Arn"], "Id": profile["InstanceProfileId"]}
    new.metadata_options = MetadataOptions(given.get("MetadataOptions"))
    new.lifecycle = new.instance_lifecycle = "spot" if launch.pool.market == "spot" else None
    new.client_token = given.get("ClientToken") or ""
    new.instance_initiated_shutdown_behavior = given.get("InstanceInitiatedShutdownBehavior") or "stop"
    new.disable_api_termination = str(given.get("DisableApiTermination")).lower() == "true"
    new.monitoring_state = _is_enabled(given.get("Monitoring"))
    new.placement.group_name = (given.get("Placement") or {}).get("GroupName") or ""
    new.hypervisor = "nitro"
    new.state_reason = StateReason()
    new.security_groups = list(new.nics[0].group_set)
    new.spot_instance_request_id = getattr(new, "spot_instance_request_id", None)
    for index, card in new.nics.items():
        asked: Parameters = next(
            (c for c in given.get("NetworkInterfaces") or [] if int(c.get("DeviceIndex", 0)) == index), {}
        )
        card.delete_on_termination = asked.get("DeleteOnTermination", True) in (True, "true")
        store.create_tags([card.id], launch.tags("network-interface"))
    for device in given["BlockDeviceMappings"]:
        attached = new.block_device_mapping.get(device["DeviceName"])
        if attached is None:
            continue
        volume = store.get_volume(attached.volume_id)
        volume.kms_key_id = encryption.key_of(device)
        if device.get("Ebs", {}).get("VolumeInitializationRate"):
            volume.volume_initialization_rate = int(device["Ebs"]["VolumeInitializationRate"])


def _is_enabled(monitoring: Parameters | None) -> str:
    return "enabled" if (monitoring or {}).get("Enabled") in (True, "true") else "disabled"


def idempotent(action: str, token: str | None, parameters: Parameters, make: Callable[[], Any]) -> Any:
    """Return `make`'s answer, or the earlier answer to this client token. Different parameters raise an error."""
    if not token:
        return make()
    if len(token) > 64:
        raise EC2ClientError("InvalidParameterValue", "Client token must be at most 64 ASCII characters.")
    signature = json.dumps(parameters, sort_keys=True, default=str)
    known = here().tokens.get((action, token))
    if known is None:
        answer = make()
        here().tokens[action, token] = Answered(signature, answer, now())
        return answer
    if known.signature != signature:
        raise EC2ClientError(
            "IdempotentParameterMismatch",
            "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).",
        )
    return known.answer


class LaunchActions(Actions):
    def run_instances(self) -> ActionResult:
        request = plain(self.params)
        request.pop("DryRun", None)
        least, most = int(request.get("MinCount", 1)), int(request.get("MaxCount", 1))
        if least < 1 or most < least:
            raise EC2ClientError(
                "InvalidParameterValue",
                f"Value ({most}) for parameter maxCount is invalid: minCount is {least}.",
            )

        def make() -> str:
            launch = validate_launch(request, self.ec2.settings.zones)
            self.error_on_dryrun()
            grant = self.ec2.capacity.grant(launch.pool, most, launch.subnet_id, launch.initialization_rate)
            if grant.count < least:
                assert grant.refusal is not None
                raise EC2ClientError(grant.refusal.code, grant.refusal.message)
            return str(launch_instances(self, launch, grant.count).id)

        reservation = idempotent("RunInstances", request.get("ClientToken"), request, make)
        return ActionResult(backend().reservations[reservation])
