"""From an override of a fleet to instances: apply the template, check everything, and create the instances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from localcloud.services.ec2.capacity import initialization
from localcloud.services.ec2.capacity.allocation import Pool
from simulation.aws.ec2.lifecycle import Lifecycle
from simulation.aws.ec2.model import Image, Instance, Subnet, Template
from simulation.aws.ec2.requests import METADATA_TAG_KEY, check_tags, expect, tags_for, unknown_ids
from simulation.aws.endpoint.api import ServiceError, Structure

OF_AN_OVERRIDE = ("InstanceType", "SubnetId", "ImageId", "BlockDeviceMappings")
OF_A_TEMPLATE = (
    "BlockDeviceMappings",
    "IamInstanceProfile",
    "ImageId",
    "InstanceInitiatedShutdownBehavior",
    "MetadataOptions",
    "SecurityGroupIds",
    "TagSpecifications",
    "UserData",
)
TAGGED = ("instance", "volume", "network-interface", "spot-instances-request")


@dataclass(frozen=True)
class Launch:
    """One way to launch a member of a fleet."""

    template: Template
    version: int
    data: Mapping[str, Any]
    image: Image
    subnet: Subnet
    pool: Pool
    disk: Mapping[str, Any]
    tags: Mapping[str, Mapping[str, str]]
    """Tags by the type of the new resource."""
    shown: Structure
    weight: int = 1

    @property
    def initialization_rate(self) -> int:
        """Return the MiB/s at which the disk is initialized; 0 if the request has none."""
        return int(self.disk.get("VolumeInitializationRate") or 0)

    @property
    def profile(self) -> str | None:
        unknown_ids: Mapping[str, str] = self.data.get("IamInstanceProfile") or {}
        return unknown_ids.get("Arn")


class Launches(Lifecycle):
    def add_template(
        self, template_id: str, name: str, data: Mapping[str, Any], tags: Mapping[str, str] | None = None
    ) -> None:
        """Add a launch template, or a further version of it. `data` is LaunchTemplateData without references."""
        expect(data, *OF_A_TEMPLATE)
        known = self.templates.get(template_id)
        if known:
            known.versions.append(data)
        else:
            self.templates[template_id] = Template(template_id, name, [data], dict(tags or {}))

    def add_subnet(self, subnet_id: str, zone: str, *, cidr: str, vpc: str = "vpc-1") -> None:
        self.subnets[subnet_id] = Subnet(subnet_id, zone, vpc, cidr)

    def add_profile(self, profile_arn: str, role_arn: str) -> None:
        self.profiles[profile_arn] = role_arn

    def _version(self, specification: Mapping[str, Any]) -> tuple[Template, int]:
        expect(specification, "LaunchTemplateId", "Version")
        template = self.templates.get(specification["LaunchTemplateId"])
        if template is None:
            raise ServiceError(
                "InvalidLaunchTemplateId.NotFound",
                f"The specified launch template, with template ID {specification['LaunchTemplateId']}, does not exist.",
            )
        wanted = str(specification["Version"])
        number = {"$Latest": len(template.versions), "$Default": 1}.get(wanted) or int(wanted)
        if not 1 <= number <= len(template.versions):
            raise ServiceError(
                "InvalidLaunchTemplateId.VersionNotFound",
                f"Could not find the specified version {wanted} for the launch template with ID {template.id}.",
            )
        return template, number

    def _prepare(
        self,
        template: Template,
        number: int,
        override: Mapping[str, Any],
        market: str,
        request: Mapping[str, Any],
    ) -> Launch:
        """Return the launch of an override. Raises AWS's error if it is invalid."""
        expect(override, *OF_AN_OVERRIDE)
        data = template.versions[number - 1]
        pool, image = (
            self._pool(override, market),
            self._launchable(override.get("ImageId") or data.get("ImageId")),
        )
        kind = self.catalogue.types[pool.instance_type]
        if kind.architecture != image.architecture:
            raise ServiceError(
                "InvalidParameterValue",
                f"The architecture '{kind.architecture}' of the specified instance type does not match the "
                f"architecture '{image.architecture}' of the specified AMI. Specify an instance type and an "
                "AMI that have matching architectures, and try again.",
            )
        tags = {made: tags_for(data, made) | tags_for(request, made) for made in TAGGED}
        _check_metadata_tags(data, tags["instance"])
        subnet = self.subnets[override["SubnetId"]]
        specification = {"LaunchTemplateId": template.id, "Version": str(number)}
        shown = {"LaunchTemplateSpecification": specification, "Overrides": dict(override)}
        return Launch(template, number, data, image, subnet, pool, _disk(image, data, override), tags, shown)

    def _pool(self, override: Mapping[str, Any], market: str) -> Pool:
        name, subnet = override["InstanceType"], self.subnets.get(override["SubnetId"])
        if subnet is None:
            raise unknown_ids("subnet", [override["SubnetId"]])
        if self.catalogue.type(name) is None:
            raise ServiceError("InvalidParameterValue", f"Invalid value '{name}' for InstanceType.")
        if not self.catalogue.is_offered(name, subnet.zone):
            raise ServiceError(
                "Unsupported",
                f"Your requested instance type ({name}) is not supported in your requested Availability Zone "
                f"({subnet.zone}). Please retry your request by not specifying an Availability Zone or choosing "
                "another.",
            )
        return Pool(name, subnet.zone, market)

    def _launchable(self, image_id: str | None) -> Image:
        if not image_id or image_id.startswith("resolve:"):
            raise ServiceError("NotSimulated", f"EC2 does not simulate a launch from {image_id}")
        image = self.images.get(image_id)
        if image is None:
            raise unknown_ids("image", [image_id])
        if image.state != "available":
            raise ServiceError("InvalidAMIID.Unavailable", f"The image ID '{image_id}' is {image.state}")
        return image

    def _launch_group(self, launch: Launch, count: int, fleet: str, token: str) -> list[Instance]:
        reservation = self.world.new_id("r-")
        members = [self._make_instance(launch, reservation, fleet, token) for _ in range(count)]
        for each in members:
            self._launch(each)
        return members

    def _make_instance(self, launch: Launch, reservation: str, fleet: str, token: str) -> Instance:
        now, data, instance_id = self.world.now, launch.data, self.world.new_id("i-")
        spot = launch.pool.market == "spot"
        known_at, tags_known_at = self._listing_times()
        return Instance(
            id=instance_id,
            reservation=reservation,
            fleet=fleet,
            pool=launch.pool,
            image=launch.image.id,
            subnet=launch.subnet.id,
            vpc=launch.subnet.vpc,
            address=launch.subnet.take(instance_id),
            template=launch.template.id,
            profile=launch.profile,
            role=self.profiles.get(launch.profile or ""),
            security_groups=tuple(data.get("SecurityGroupIds") or ()),
            user_data=data.get("UserData"),
            architecture=launch.image.architecture,
            metadata_options=data.get("MetadataOptions") or {},
            shutdown_behavior=data.get("InstanceInitiatedShutdownBehavior") or "stop",
            volume=self.world.new_id("vol-"),
            disk_gib=launch.disk["VolumeSize"],
            initialization_rate=launch.initialization_rate,
            snapshot_gib=launch.image.snapshot.gib,
            encrypted=launch.disk["Encrypted"],
            tags={**launch.tags["instance"], "aws:ec2:fleet-id": fleet},
            spot_request=self.world.new_id("sir-", 8) if spot else None,
            token=token,
            created=now,
            launched=now,
            listed_at=known_at,
            tags_listed_at=tags_known_at,
            disk=dict(launch.image.disk),
        )

    def _listing_times(self) -> tuple[Any, Any]:
        """Return when EC2 lists a new instance, and when it lists its tags; one of them is late."""
        late = self.world.now + timedelta(seconds=self._draw(self.settings.unknown))
        return (late, late) if self._chance.random() < 0.5 else (self.world.now, late)


def _disk(image: Image, data: Mapping[str, Any], override: Mapping[str, Any]) -> Structure:
    """Return the root disk: the image's, overridden by the template's and the override's."""
    ebs: Structure = {"VolumeSize": image.snapshot.gib, "Encrypted": image.snapshot.encrypted}
    for source in (data, override):
        for device in source.get("BlockDeviceMappings") or ():
            if device["DeviceName"] != image.root_device:
                raise ServiceError("NotSimulated", f"EC2 does not simulate the disk {device['DeviceName']}")
            ebs |= device["Ebs"]
    ebs["Encrypted"] = bool(ebs["Encrypted"]) or image.snapshot.encrypted
    if int(ebs["VolumeSize"]) < image.snapshot.gib:
        raise ServiceError(
            "InvalidBlockDeviceMapping",
            f"Volume of size {ebs['VolumeSize']}GB is smaller than snapshot '{image.snapshot.id}', expect size >= "
            f"{image.snapshot.gib}GB",
        )
    wrong = initialization.fault(ebs, snapshot=True)
    if wrong is not None:
        raise ServiceError(wrong.code, wrong.message)
    return ebs


def _check_metadata_tags(data: Mapping[str, Any], tags: Mapping[str, str]) -> None:
    """Check tags that are paths in the instance metadata."""
    check_tags(tags)
    if (data.get("MetadataOptions") or {}).get("InstanceMetadataTags") != "enabled":
        return
    for key in tags:
        if not METADATA_TAG_KEY.fullmatch(key) or key in (".", "..", "_index"):
            raise ServiceError(
                "InvalidParameterValue",
                f"'{key}' is not a valid tag key. Tag keys must match pattern ([0-9a-zA-Z\\-_+=,.@:]{{1,255}}), and "
                "must not be a reserved name ('.', '..', '_index')",
            )
