"""Permission checks of EC2 requests: every action on every resource, with AWS's condition keys."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from moto.core.model import ServiceModel
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.utils import get_service_model
from moto.ec2.exceptions import EC2ClientError
from werkzeug.datastructures import MultiDict

from localcloud.services.ec2.actions import encryption
from localcloud.services.ec2.actions.profiles import profile_of
from localcloud.services.ec2.actions.template import Parameters, plain, tags_for, template_version
from localcloud.services.ec2.permissions.launches import create_fleet, passed_roles, run_instances
from localcloud.services.ec2.permissions.resources import (
    UNOWNED,
    Base,
    Context,
    check_on,
    checks_of_created,
    request_tags,
)
from localcloud.services.ec2.store import records
from localcloud.services.ec2.store.records import LOCK
from localcloud.services.iam import keys
from localcloud.services.iam.checks import Check
from localcloud.services.iam.requests import Request

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
    """Return all checks of an EC2 request, or None for actions without resources. Launches use one of the `zones`."""
    operation = request.action.split(":", 1)[1]
    find = _finders(zones).get(operation)
    if find is None:
        return None
    parameters = parse_input(operation, request.parameters)
    own = {key.lower(): value for key, value in base.context.items() if not _is_about_tags(key)}
    with LOCK:
        return list(find(request.action, parameters, own))


def _is_about_tags(key: str) -> bool:
    """Return True for tag keys. ministack merges the tags of all types, but each resource has its own."""
    return key.lower().startswith("aws:requesttag/") or key.lower() == "aws:tagkeys"


def _finders(zones: Collection[str]) -> dict[str, Callable[[str, Parameters, Base], Iterator[Check]]]:
    return {
        "RunInstances": partial(run_instances, zones),
        "CreateFleet": partial(create_fleet, zones),
        "DeleteFleets": _delete_fleets,
        "CreateTags": _tag,
        "DeleteTags": _tag,
        "CreateImage": _create_image,
        "DeregisterImage": _deregister_image,
        "CreateLaunchTemplate": _create_launch_template,
        **dict.fromkeys(ON_INSTANCES, _instances),
        **dict.fromkeys(ON_ONE, _one),
    }


def parse_input(operation: str, params: Mapping[str, Any]) -> Parameters:
    """Parse flat parameters into the operation's input."""
    model: ServiceModel = get_service_model("ec2")
    flat = MultiDict({key: value[0] if isinstance(value, list) else value for key, value in params.items()})
    request = {
        "method": "POST", "values": flat, "headers": {}, "body": b"", "url_path": "/", "url_params": {},
    }  # fmt: skip
    answer = PROTOCOL_PARSERS["ec2"](model.operation_model(operation), map_type=dict).parse(request)
    return dict(plain(answer))


def _instances(action: str, request: Parameters, base: Base) -> Iterator[Check]:
    ids = request.get("InstanceIds") or [request.get("InstanceId")]
    changed = _attributes(request) if action == "ec2:ModifyInstanceAttribute" else {}
    yield from (check_on(action, instance_id, base, changed) for instance_id in ids if instance_id)
    if action == "ec2:StartInstances":
        known = (records.instance(instance_id) for instance_id in ids if instance_id)
        for key in {key for each in known if each for key in encryption.keys_of_volumes(each)}:
            yield from keys.checks_of_volumes(key)
    if action == "ec2:AssociateIamInstanceProfile":
        try:
            yield from passed_roles(profile_of(request))
        except EC2ClientError:
            return  # the request fails with its own error


def _attributes(request: Parameters) -> Context:
    """Return the condition keys of a changed attribute.

    `ec2:Attribute` is the value of that parameter, and `ec2:Attribute/<parameter>` the value of a single other one.
    docs.aws.amazon.com/AWSEC2/latest/UserGuide/iam-policy-structure.html, "ec2:Attribute condition keys".
    """
    attribute = {"ec2:attribute": request["Attribute"]} if "Attribute" in request else {}
    return attribute | {
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
        yield check_on(action, resource_id, base)
    else:
        yield Check(action, "*", base)


def _tag(action: str, request: Parameters, base: Base) -> Iterator[Check]:
    tags = {tag["Key"]: tag.get("Value") or "" for tag in request.get("Tags") or []}
    for resource_id in request.get("Resources") or []:
        yield check_on(action, resource_id, base, request_tags(tags))


def _delete_fleets(action: str, request: Parameters, base: Base) -> Iterator[Check]:
    for fleet_id in request.get("FleetIds") or []:
        yield check_on(action, fleet_id, base)
        fleet = records.here().fleets.get(fleet_id)
        for member in fleet.members if fleet is not None else []:
            if records.instance(member) is not None:
                yield check_on("ec2:TerminateInstances", member, base)


def _create_image(action: str, request: Parameters, base: Base) -> Iterator[Check]:
    yield check_on(action, request.get("InstanceId") or "i-", base)
    for kind in UNOWNED:
        yield from checks_of_created(action, "CreateImage", kind, tags_for(request, kind), base)


def _deregister_image(action: str, request: Parameters, base: Base) -> Iterator[Check]:
    image_id = request.get("ImageId") or "ami-"
    yield check_on(action, image_id, base)
    image = records.backend().amis.get(image_id)
    if image is not None and str(request.get("DeleteAssociatedSnapshots")).lower() == "true":
        # after a denial the answer has `missing-permissions` for the snapshot, and the image is still deleted
        yield replace(check_on("ec2:DeleteSnapshot", image.ebs_snapshot.id, base), optional=True)


def _create_launch_template(action: str, request: Parameters, base: Base) -> Iterator[Check]:
    tags = tags_for(request, "launch-template")
    yield from checks_of_created(action, "CreateLaunchTemplate", "launch-template", tags, base)
