"""What an EC2 request needs: every action on every resource it touches or creates, with the condition keys AWS gives.

A resource that a request creates carries the request's tags for its own type and no others: a policy that asks for
aws:RequestTag denies a launch that leaves one created type untagged, as on AWS.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ministack.core.responses import get_account_id, get_region
from ministack.services import iam as ministack_iam
from moto.core.model import ServiceModel
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.utils import get_service_model
from moto.ec2.exceptions import EC2ClientError
from werkzeug.datastructures import MultiDict

from localcloud.services.ec2.actions import encryption
from localcloud.services.ec2.actions.fleets import launch_requests, targets
from localcloud.services.ec2.actions.launch import (
    Launch,
    acting,
    plain,
    prepared,
    profile_of,
    tags_for,
    template_version,
    with_template,
)
from localcloud.services.ec2.capacity.pools import market_of
from localcloud.services.ec2.store import records
from localcloud.services.ec2.store.records import LOCK
from localcloud.services.iam import keys, service_linked_roles
from localcloud.services.iam.checks import Check
from localcloud.services.iam.expansion import document_arn
from localcloud.services.iam.requests import Request

Parameters = dict[str, Any]
Base = Mapping[str, Any]

KIND_OF_PREFIX = {
    "i": "instance",
    "vol": "volume",
    "eni": "network-interface",
    "ami": "image",
    "snap": "snapshot",
    "subnet": "subnet",
    "sg": "security-group",
    "lt": "launch-template",
    "fleet": "fleet",
    "sir": "spot-instances-request",
    "vpc": "vpc",
    "igw": "internet-gateway",
    "rtb": "route-table",
    "vpce": "vpc-endpoint",
}
UNOWNED = ("image", "snapshot")
"""Their ARNs have no account."""

ON_INSTANCES = (
    "StartInstances",
    "StopInstances",
    "RebootInstances",
    "TerminateInstances",
    "ModifyInstanceAttribute",
    "ModifyInstanceMetadataOptions",
    "GetConsoleOutput",
    "AssociateIamInstanceProfile",
)
ON_ONE = {
    "DeleteSnapshot": "SnapshotId",
    "ModifyImageAttribute": "ImageId",
    "EnableImageDeprecation": "ImageId",
    "DisableImage": "ImageId",
    "DeleteLaunchTemplate": "LaunchTemplateId",
    "CreateLaunchTemplateVersion": "LaunchTemplateId",
    "ModifyLaunchTemplate": "LaunchTemplateId",
    "DeleteVolume": "VolumeId",
    "DeleteSecurityGroup": "GroupId",
    "DeleteSubnet": "SubnetId",
    "DeleteVpc": "VpcId",
}


def checks(zones: Collection[str], request: Request, base: Check) -> list[Check] | None:
    """Every check of an EC2 request; None for actions that AWS gives no resource. Launches go to one of the `zones`."""
    operation = request.action.split(":", 1)[1]
    find = _finders(zones).get(operation)
    if find is None:
        return None
    parameters = parsed(operation, request.parameters)
    own = {key.lower(): value for key, value in base.context.items() if not _is_about_tags(key)}
    with LOCK:
        return list(find(request.action, parameters, own))


def _is_about_tags(key: str) -> bool:
    """ministack unites the tags of all types of a request; here each resource has its own."""
    return key.lower().startswith("aws:requesttag/") or key.lower() == "aws:tagkeys"


def _finders(zones: Collection[str]) -> dict[str, Callable[[str, Parameters, Base], Iterator[Check]]]:
    return {
        "RunInstances": partial(_run_instances, zones),
        "CreateFleet": partial(_create_fleet, zones),
        "DeleteFleets": _delete_fleets,
        "CreateTags": _tag,
        "DeleteTags": _tag,
        "CreateImage": _create_image,
        "DeregisterImage": _deregister_image,
        "CreateLaunchTemplate": _create_launch_template,
        **dict.fromkeys(ON_INSTANCES, _instances),
        **dict.fromkeys(ON_ONE, _one),
    }


def parsed(operation: str, params: Mapping[str, Any]) -> Parameters:
    """The flat parameters as the operation's input."""
    model: ServiceModel = get_service_model("ec2")
    flat = MultiDict({key: value[0] if isinstance(value, list) else value for key, value in params.items()})
    request = {
        "method": "POST", "values": flat, "headers": {}, "body": b"", "url_path": "/", "url_params": {},
    }  # fmt: skip
    answer = PROTOCOL_PARSERS["ec2"](model.operation_model(operation), map_type=dict).parse(request)
    return dict(plain(answer))


# ------------------------------------------------------------------------------------------ what things are called


def arn(kind: str, resource_id: str = "*") -> str:
    """The ARN of an EC2 resource of the caller's account and region."""
    account = "" if kind in UNOWNED else get_account_id()
    return f"arn:aws:ec2:{get_region()}:{account}:{kind}/{resource_id}"


def _existing(resource_id: str) -> tuple[str, dict[str, Any]]:
    """ARN and condition keys of a resource that exists."""
    prefix = resource_id.split("-")[0]
    kind = KIND_OF_PREFIX.get(prefix, prefix)
    context = _resource_tags(resource_id)
    if kind == "instance":
        found = records.instance(resource_id)
        if found is not None:
            context |= {
                "ec2:instancetype": found.instance_type,
                "ec2:instancemarkettype": market_of(found),
                "ec2:availabilityzone": found.placement.zone,
                "ec2:metadatahttptokens": found.metadata_options.http_tokens,
                "ec2:rootdevicetype": "ebs",
            }
            if found.iam_instance_profile:
                context["ec2:instanceprofile"] = found.iam_instance_profile["Arn"]
    if kind == "image":
        image = records.backend().amis.get(resource_id)
        if image is not None:
            context |= {
                "ec2:owner": image.owner_alias or image.owner_id,
                "ec2:public": str(image.is_public).lower(),
                "ec2:imagetype": "machine",
                "ec2:rootdevicetype": "ebs",
            }
    return arn(kind, resource_id), context


def _resource_tags(resource_id: str) -> dict[str, Any]:
    tags = records.backend().tags.get(resource_id, {})
    return {
        f"{space}:resourcetag/{key}".lower(): value for key, value in tags.items() for space in ("aws", "ec2")
    }


def _request_tags(tags: Mapping[str, str]) -> dict[str, Any]:
    if not tags:
        return {}
    return {f"aws:requesttag/{key}".lower(): value for key, value in tags.items()} | {
        "aws:tagkeys": list(tags)
    }


def _on(action: str, resource_id: str, base: Base, extra: Mapping[str, Any] | None = None) -> Check:
    name, context = _existing(resource_id)
    return Check(action, name, {**base, **context, **(extra or {})})


def _made(
    action: str, operation: str, kind: str, tags: Mapping[str, str], context: Mapping[str, Any]
) -> Iterator[Check]:
    """A resource that comes into being, and its tags if it has any."""
    given = {**context, **_request_tags(tags)}
    yield Check(action, arn(kind), given)
    if tags:
        yield Check("ec2:CreateTags", arn(kind), {**given, "ec2:createaction": operation})


# ------------------------------------------------------------------------------------------ launches


def _run_instances(zones: Collection[str], action: str, request: Parameters, base: Base) -> Iterator[Check]:
    yield from _launch(zones, (action,), "RunInstances", request, base)


def _create_fleet(zones: Collection[str], action: str, request: Parameters, base: Base) -> Iterator[Check]:
    """An instant fleet needs RunInstances and CreateFleet on everything that is launched."""
    yield from _made(action, "CreateFleet", "fleet", tags_for(request, "fleet"), base)
    try:
        markets = [
            market for market, count in targets(request["TargetCapacitySpecification"]).items() if count
        ]
        launches = [launch for market in markets for launch, _, _ in launch_requests(request, market)]
    except (EC2ClientError, KeyError):
        return  # the request is wrong in itself and fails with its own error; nothing is launched
    for launch in launches:
        yield from _launch(zones, (action, "ec2:RunInstances"), "CreateFleet", launch, base)


def _launch(
    zones: Collection[str], actions: tuple[str, ...], operation: str, request: Parameters, base: Base
) -> Iterator[Check]:
    try:
        launch = prepared(request, zones)
    except EC2ClientError:
        yield from (Check(action, arn("instance"), base) for action in actions)
        return
    given = launch.parameters
    from_template = _of_template(request, given)
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
            yield from _made(action, operation, kind, launch.tags(kind), context)
        for resource_id in _inputs(launch):
            yield _on(action, resource_id, shared)
    yield from _image_parameter(request)
    yield from _passed_roles(profile)
    yield from _own_roles_of_ec2(launch, is_fleet=operation == "CreateFleet")
    for key in encryption.keys_of(given["BlockDeviceMappings"]):
        yield from keys.checks_of_volumes(key)


def _own_roles_of_ec2(launch: Launch, *, is_fleet: bool) -> Iterator[Check]:
    """Whether the caller may make those that are missing."""
    for service in acting(launch.pool.market, is_fleet=is_fleet):
        if not service_linked_roles.exists(service):
            context = {"iam:awsservicename": service}
            arn = service_linked_roles.arn(service)
            yield Check(service_linked_roles.MAKE, arn, context, optional=True)


def _inputs(launch: Launch) -> list[str]:
    """The resources a launch uses and does not make."""
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
    """What the image's disk is made of. AWS's reference lists snapshots among what a launch uses, without saying when
    it asks for them: here it always does."""
    image = records.backend().amis.get(image_id)
    return [image.ebs_snapshot.id] if image is not None and image.ebs_snapshot else []


def _of_template(request: Parameters, merged: Parameters) -> dict[str, Any]:
    """ec2:LaunchTemplate, and whether the request changes anything the template says."""
    template = merged.get("LaunchTemplate")
    if not template:
        return {}
    return {
        "ec2:launchtemplate": arn("launch-template", template["LaunchTemplateId"]),
        "ec2:islaunchtemplateresource": str(
            not set(request) - {"LaunchTemplate", "MinCount", "MaxCount"}
        ).lower(),
    }


def _metadata_options(options: Parameters) -> dict[str, Any]:
    return {
        "ec2:metadatahttptokens": options.get("HttpTokens", "optional"),
        "ec2:metadatahttpendpoint": options.get("HttpEndpoint", "enabled"),
        "ec2:metadatahttpputresponsehoplimit": str(options.get("HttpPutResponseHopLimit", 1)),
    }


def _volume(ebs: Parameters) -> dict[str, Any]:
    return {
        "ec2:encrypted": str(ebs.get("Encrypted", False)).lower(),
        "ec2:volumetype": ebs.get("VolumeType", "gp3"),
        "ec2:volumesize": str(ebs.get("VolumeSize", "")),
    }


def _image_parameter(request: Parameters) -> Iterator[Check]:
    """The caller must be able to read the parameter that names the image."""
    image = with_template(request).get("ImageId") or ""
    if image.startswith("resolve:ssm:"):
        name = re.sub(r":[^:/]*$", "", image.removeprefix("resolve:ssm:"))
        account = "" if name.startswith("/aws/") else get_account_id()
        yield Check("ssm:GetParameters", f"arn:aws:ssm:{get_region()}:{account}:parameter/{name.lstrip('/')}")


def _passed_roles(profile: dict[str, Any] | None) -> Iterator[Check]:
    for role in (profile or {}).get("Roles", []):
        name = role if isinstance(role, str) else role["RoleName"]
        passed = ministack_iam._roles.get(name)
        if passed is not None:
            yield Check("iam:PassRole", passed["Arn"], {"iam:passedtoservice": "ec2.amazonaws.com"})


# ------------------------------------------------------------------------------------------ everything else


def _instances(action: str, request: Parameters, base: Base) -> Iterator[Check]:
    ids = request.get("InstanceIds") or [request.get("InstanceId")]
    changed = _attributes(request) if action == "ec2:ModifyInstanceAttribute" else {}
    yield from (_on(action, instance_id, base, changed) for instance_id in ids if instance_id)
    if action == "ec2:StartInstances":
        known = (records.instance(instance_id) for instance_id in ids if instance_id)
        for key in {key for each in known if each for key in encryption.keys_of_volumes(each)}:
            yield from keys.checks_of_volumes(key)
    if action == "ec2:AssociateIamInstanceProfile":
        try:
            yield from _passed_roles(profile_of(request))
        except EC2ClientError:
            return  # fails with its own error


def _attributes(request: Parameters) -> dict[str, Any]:
    """`ec2:Attribute` is the parameter of that name, `ec2:Attribute/<parameter>` the value of another that has but one.
    docs.aws.amazon.com/AWSEC2/latest/UserGuide/iam-policy-structure.html, "ec2:Attribute condition keys"."""
    said = {"ec2:attribute": request["Attribute"]} if "Attribute" in request else {}
    return said | {
        f"ec2:attribute/{name}".lower(): str(value["Value"])
        for name, value in request.items()
        if isinstance(value, Mapping) and set(value) == {"Value"}
    }


def _one(action: str, request: Parameters, base: Base) -> Iterator[Check]:
    resource_id = request.get(ON_ONE[action.split(":")[1]])
    if not resource_id and request.get("LaunchTemplateName"):
        try:
            resource_id = template_version(request).template.id
        except EC2ClientError:
            resource_id = None
    if resource_id:
        yield _on(action, resource_id, base)
    else:
        yield Check(action, "*", base)


def _tag(action: str, request: Parameters, base: Base) -> Iterator[Check]:
    tags = {tag["Key"]: tag.get("Value") or "" for tag in request.get("Tags") or []}
    for resource_id in request.get("Resources") or []:
        yield _on(action, resource_id, base, _request_tags(tags))


def _delete_fleets(action: str, request: Parameters, base: Base) -> Iterator[Check]:
    for fleet_id in request.get("FleetIds") or []:
        yield _on(action, fleet_id, base)
        fleet = records.here().fleets.get(fleet_id)
        for member in fleet.members if fleet is not None else []:
            if records.instance(member) is not None:
                yield _on("ec2:TerminateInstances", member, base)


def _create_image(action: str, request: Parameters, base: Base) -> Iterator[Check]:
    yield _on(action, request.get("InstanceId") or "i-", base)
    for kind in UNOWNED:
        yield from _made(action, "CreateImage", kind, tags_for(request, kind), base)


def _deregister_image(action: str, request: Parameters, base: Base) -> Iterator[Check]:
    image_id = request.get("ImageId") or "ami-"
    yield _on(action, image_id, base)
    image = records.backend().amis.get(image_id)
    if image is not None and str(request.get("DeleteAssociatedSnapshots")).lower() == "true":
        # who may not is answered `missing-permissions` for the snapshot, and the image goes all the same
        yield replace(_on("ec2:DeleteSnapshot", image.ebs_snapshot.id, base), optional=True)


def _create_launch_template(action: str, request: Parameters, base: Base) -> Iterator[Check]:
    tags = tags_for(request, "launch-template")
    yield from _made(action, "CreateLaunchTemplate", "launch-template", tags, base)


# ------------------------------------------------------------------------------------------ Systems Manager's


def _send_command(request: Request, base: Check) -> list[Check]:
    """The document, and every instance the command reaches, whether named or found by its tags."""
    asked = request.fields()
    document = Check(request.action, document_arn(str(asked.get("DocumentName", ""))), base.context)
    return [document, *(_on_host(request.action, i, base) for i in _hosts_of(asked))]


def _start_session(request: Request, base: Check) -> list[Check]:
    asked = request.fields()
    document = str(asked.get("DocumentName") or "SSM-SessionManagerRunShell")
    # AWS asks for the document where one is named, or a policy's condition demands it; here it is asked for always.
    checked = Check(base.action, base.resource, {**base.context, "ssm:sessiondocumentaccesscheck": "true"})
    return [
        _on_host(request.action, str(asked.get("Target", "")), checked),
        Check(request.action, document_arn(document), checked.context),
    ]


def _on_host(action: str, instance_id: str, base: Check) -> Check:
    tags = _tags_of_hosts().get(instance_id, {}).items()
    facts = {f"{prefix}:resourcetag/{key}".lower(): value for key, value in tags for prefix in ("aws", "ssm")}
    return Check(action, arn("instance", instance_id), {**base.context, **facts})


def _hosts_of(asked: dict[str, Any]) -> list[str]:
    """The instances of a SendCommand: by id, or those that carry all of the wanted tags."""
    ids = list(asked.get("InstanceIds") or [])
    targets = [target for target in asked.get("Targets") or [] if isinstance(target, dict)]
    for target in targets:
        if str(target.get("Key", "")).lower() == "instanceids":
            ids += target.get("Values") or []
    wanted = {
        t["Key"][4:]: t.get("Values") or [] for t in targets if str(t.get("Key", "")).startswith("tag:")
    }
    if wanted:
        ids += [
            instance_id
            for instance_id, tags in _tags_of_hosts().items()
            if all(tags.get(key) in values for key, values in wanted.items())
        ]
    return list(dict.fromkeys(ids))


def _tags_of_hosts() -> dict[str, dict[str, str]]:
    """The tags of every instance of this account and region."""
    with LOCK:
        tags = records.backend().tags
        return {one.id: dict(tags.get(one.id, {})) for one in records.instances()}


OF_SYSTEMS_MANAGER = {"ssm:SendCommand": _send_command, "ssm:StartSession": _start_session}
"""Actions of another service on EC2's instances."""
