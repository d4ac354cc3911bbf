"""Permission checks of launches for all resources that they use and create, with AWS's condition keys.

As on AWS, a created resource has only the request's tags for its own type. A policy with aws:RequestTag therefore
denies a launch that leaves one created type without the tag.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from ministack.core.responses import get_account_id, get_region
from ministack.services import iam as ministack_iam
from moto.ec2.exceptions import EC2ClientError

from localcloud.services.ec2.actions import encryption
from localcloud.services.ec2.actions.fleets import launch_requests, targets
from localcloud.services.ec2.actions.launch import Launch, launching_services, validate_launch
from localcloud.services.ec2.actions.profiles import profile_of
from localcloud.services.ec2.actions.template import Parameters, tags_for, with_template
from localcloud.services.ec2.permissions.resources import (
    Base,
    Context,
    arn,
    check_on,
    checks_of_created,
)
from localcloud.services.ec2.store import records
from localcloud.services.iam import keys, service_linked_roles
from localcloud.services.iam.checks import Check


def run_instances(zones: Collection[str], action: str, request: Parameters, base: Base) -> Iterator[Check]:
    yield from _launch(zones, (action,), "RunInstances", request, base)


def create_fleet(zones: Collection[str], action: str, request: Parameters, base: Base) -> Iterator[Check]:
    """Check RunInstances and CreateFleet for everything that an instant fleet launches."""
    yield from checks_of_created(action, "CreateFleet", "fleet", tags_for(request, "fleet"), base)
    try:
        markets = [
            market for market, count in targets(request["TargetCapacitySpecification"]).items() if count
        ]
        launches = [launch for market in markets for launch, _, _ in launch_requests(request, market)]
    except (EC2ClientError, KeyError):
        return  # the request is invalid and fails with its own error; nothing is launched
    for launch in launches:
        yield from _launch(zones, (action, "ec2:RunInstances"), "CreateFleet", launch, base)


def _launch(
    zones: Collection[str], actions: tuple[str, ...], operation: str, request: Parameters, base: Base
) -> Iterator[Check]:
    try:
        launch = validate_launch(request, zones)
    except EC2ClientError:
        yield from (Check(action, arn("instance"), base) for action in actions)
        return
    given = launch.parameters
    from_template = _template_keys(request, given)
    shared = {**base, **from_template}
    instance = {
        **shared,
        "ec2:instancetype": launch.pool.instance_type,
        "ec2:instancemarkettype": launch.pool.market,
        "ec2:availabilityzone": launch.pool.zone,
        "ec2:rootdevicetype": "ebs",
        "ec2:tenancy": "default",
        **_metadata_options(given.get("MetadataOptions") or {}),
    }
    profile = profile_of(given)
    if profile is not None:
        instance["ec2:instanceprofile"] = profile["Arn"]
    card = {**shared, "ec2:subnet": arn("subnet", launch.subnet_id), "ec2:availabilityzone": launch.pool.zone}
    created = {"instance": instance, "network-interface": card}
    for device in given.get("BlockDeviceMappings") or []:
        created["volume"] = {
            **shared,
            **_volume(device.get("Ebs") or {}),
            "ec2:availabilityzone": launch.pool.zone,
        }
    if launch.pool.market == "spot":
        created["spot-instances-request"] = shared
    for action in actions:
        for kind, context in created.items():
            yield from checks_of_created(action, operation, kind, launch.tags(kind), context)
        for resource_id in _inputs(launch):
            yield check_on(action, resource_id, shared)
    yield from _image_parameter(request)
    yield from passed_roles(profile)
    yield from _own_roles_of_ec2(launch, is_fleet=operation == "CreateFleet")
    for key in encryption.keys_of(given["BlockDeviceMappings"]):
        yield from keys.checks_of_volumes(key)


def _own_roles_of_ec2(launch: Launch, *, is_fleet: bool) -> Iterator[Check]:
    """Check that the caller may create missing service-linked roles."""
    for service in launching_services(launch.pool.market, is_fleet=is_fleet):
        if not service_linked_roles.exists(service):
            context = {"iam:awsservicename": service}
            arn = service_linked_roles.arn(service)
            yield Check(service_linked_roles.MAKE, arn, context, optional=True)


def _inputs(launch: Launch) -> list[str]:
    """Return the existing resources that a launch uses."""
    given = launch.parameters
    cards = given.get("NetworkInterfaces") or []
    groups = [
        *(given.get("SecurityGroupIds") or []),
        *(g for card in cards for g in card.get("Groups") or []),
    ]
    template = (given.get("LaunchTemplate") or {}).get("LaunchTemplateId")
    used = [given["ImageId"], *_snapshots(given["ImageId"]), launch.subnet_id, *dict.fromkeys(groups)]
    return [*used, template] if template else used


def _snapshots(image_id: str) -> list[str]:
    """Return the snapshots of an image. AWS documents no condition for this check, so it always applies here."""
    image = records.backend().amis.get(image_id)
    return [image.ebs_snapshot.id] if image is not None and image.ebs_snapshot else []


def _template_keys(request: Parameters, merged: Parameters) -> Context:
    """Return ec2:LaunchTemplate, and whether the request overrides the template."""
    template = merged.get("LaunchTemplate")
    if not template:
        return {}
    return {
        "ec2:launchtemplate": arn("launch-template", template["LaunchTemplateId"]),
        "ec2:islaunchtemplateresource": str(
            not set(request) - {"LaunchTemplate", "MinCount", "MaxCount"}
        ).lower(),
    }


def _metadata_options(options: Parameters) -> Context:
    return {
        "ec2:metadatahttptokens": options.get("HttpTokens", "optional"),
        "ec2:metadatahttpendpoint": options.get("HttpEndpoint", "enabled"),
        "ec2:metadatahttpputresponsehoplimit": str(options.get("HttpPutResponseHopLimit", 1)),
    }


def _volume(ebs: Parameters) -> Context:
    return {
        "ec2:encrypted": str(ebs.get("Encrypted", False)).lower(),
        "ec2:volumetype": ebs.get("VolumeType", "gp3"),
        "ec2:volumesize": str(ebs.get("VolumeSize", "")),
    }


def _image_parameter(request: Parameters) -> Iterator[Check]:
    """Check that the caller may read the parameter that names the image."""
    image = with_template(request).get("ImageId") or ""
    if image.startswith("resolve:ssm:"):
        name = re.sub(r":[^:/]*$", "", image.removeprefix("resolve:ssm:"))
        account = "" if name.startswith("/aws/") else get_account_id()
        yield Check("ssm:GetParameters", f"arn:aws:ssm:{get_region()}:{account}:parameter/{name.lstrip('/')}")


def passed_roles(profile: Parameters | None) -> Iterator[Check]:
    for role in (profile or {}).get("Roles", []):
        name = role if isinstance(role, str) else role["RoleName"]
        passed = ministack_iam._roles.get(name)
        if passed is not None:
            yield Check("iam:PassRole", passed["Arn"], {"iam:passedtoservice": "ec2.amazonaws.com"})
