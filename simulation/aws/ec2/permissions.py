"""The permissions of an EC2 request: every action on every resource it uses or creates, with AWS's condition keys.

A new resource has the request's tags for its own type only. As on AWS, a policy with aws:RequestTag denies a
launch that leaves one of the types untagged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from simulation.aws.ec2 import arns
from simulation.aws.ec2.fleets import FleetCalls, read_request
from simulation.aws.ec2.launches import Launch
from simulation.aws.ec2.model import Instance
from simulation.aws.ec2.requests import tags_for
from simulation.aws.endpoint.api import Check, ServiceError

Context = Mapping[str, str | list[str]]


def checks(ec2: FleetCalls, operation: str, request: Mapping[str, Any]) -> list[Check]:
    """Return the checks without duplicates. AWS reports the first denied one."""
    action = f"ec2:{''.join(word.capitalize() for word in operation.split('_'))}"
    if operation.startswith("describe_"):
        return [Check(action, "*")]
    if operation.endswith("_instances") or operation == "modify_instance_attribute":
        ids = request.get("InstanceIds") or [request["InstanceId"]]
        return [_on(ec2, action, each, _attributes(request)) for each in ids]
    if operation == "create_tags":
        tags = {tag["Key"]: tag.get("Value", "") for tag in request["Tags"]}
        return [_on(ec2, action, each, _request_tags(tags)) for each in request["Resources"]]
    if operation == "create_image":
        return list(_create_image(ec2, request))
    if operation == "deregister_image":
        return [_on(ec2, action, request["ImageId"])]
    if operation == "delete_snapshot":
        return [_on(ec2, action, request["SnapshotId"])]
    if operation == "create_fleet":
        return _once(_create_fleet(ec2, request))
    raise ServiceError("NotSimulated", f"EC2 does not simulate {operation}")


def _once(found: Iterable[Check]) -> list[Check]:
    """Drop duplicates. Most overrides need the same checks."""
    seen = {(check.action, check.resource, repr(check.context)): check for check in found}
    return list(seen.values())


# ------------------------------------------------------------------------- resources that exist


def _on(ec2: FleetCalls, action: str, resource: str, more: Context | None = None) -> Check:
    kind = arns.kind_of(resource)
    return Check(action, arns.build(kind, resource), {**_read_tags(ec2, kind, resource), **(more or {})})


def _read_tags(ec2: FleetCalls, kind: str, resource: str) -> dict[str, str | list[str]]:
    """Return the tags and attributes of a resource; nothing if it does not exist."""
    if kind == "instance" and resource in ec2.instances:
        instance = ec2.instances[resource]
        return _tags(instance.tags) | _instance_fields(instance)
    if kind == "image" and resource in ec2.images:
        image = ec2.images[resource]
        return _tags(image.tags) | {
            "ec2:owner": image.owner,
            "ec2:imagetype": "machine",
            "ec2:rootdevicetype": "ebs",
        }
    if kind == "snapshot" and resource in ec2.snapshots:
        return _tags(ec2.snapshots[resource].tags)
    return {}


def _attributes(request: Mapping[str, Any]) -> dict[str, str | list[str]]:
    """Return the condition keys for attributes with a single value."""
    return {
        f"ec2:attribute/{name}".lower(): str(value["Value"])
        for name, value in request.items()
        if isinstance(value, Mapping) and set(value) == {"Value"}
    }


def _instance_fields(instance: Instance) -> dict[str, str | list[str]]:
    facts: dict[str, str | list[str]] = {
        "ec2:instancetype": instance.type,
        "ec2:instancemarkettype": instance.pool.market,
        "ec2:availabilityzone": instance.zone,
        "ec2:rootdevicetype": "ebs",
    }
    return facts | ({"ec2:instanceprofile": instance.profile} if instance.profile else {})


def _tags(tags: Mapping[str, str]) -> dict[str, str | list[str]]:
    return dict(arns.resource_tags(tags))


def _request_tags(tags: Mapping[str, str]) -> dict[str, str | list[str]]:
    if not tags:
        return {}
    return {f"aws:requesttag/{key}".lower(): value for key, value in tags.items()} | {
        "aws:tagkeys": list(tags)
    }


# ------------------------------------------------------------------------- resources that are made


def _check_new(
    action: str, operation: str, kind: str, tags: Mapping[str, str], facts: Context
) -> Iterator[Check]:
    """Yield the checks for a new resource and its tags."""
    given = {**facts, **_request_tags(tags)}
    yield Check(action, arns.build(kind), given)
    if tags:
        yield Check("ec2:CreateTags", arns.build(kind), {**given, "ec2:createaction": operation})


def _create_image(ec2: FleetCalls, request: Mapping[str, Any]) -> Iterator[Check]:
    yield _on(ec2, "ec2:CreateImage", request["InstanceId"])
    for kind in arns.UNOWNED:
        yield from _check_new("ec2:CreateImage", "CreateImage", kind, tags_for(request, kind), {})


def _create_fleet(ec2: FleetCalls, request: Mapping[str, Any]) -> Iterator[Check]:
    """Yield the checks of an instant fleet: CreateFleet and RunInstances on everything that is launched."""
    yield from _check_new("ec2:CreateFleet", "CreateFleet", "fleet", tags_for(request, "fleet"), {})
    try:
        market, _, _ = read_request(request)
        launches, _ = ec2.launches(request, market)
    except ServiceError:
        return  # the request is invalid, and launches nothing
    for launch in launches:
        for action in ("ec2:CreateFleet", "ec2:RunInstances"):
            yield from _check_launch(ec2, action, launch)
        role = ec2.profiles.get(launch.profile or "")
        if role:
            yield Check("iam:PassRole", role, {"iam:passedtoservice": "ec2.amazonaws.com"})


def _check_launch(ec2: FleetCalls, action: str, launch: Launch) -> Iterator[Check]:
    shared: Context = {
        "ec2:launchtemplate": arns.build("launch-template", launch.template.id),
        "ec2:islaunchtemplateresource": "false",
    }
    for kind, facts in _new(launch).items():
        yield from _check_new(action, "CreateFleet", kind, launch.tags[kind], {**shared, **facts})
    used = [
        launch.image.id,
        launch.image.snapshot.id,
        launch.subnet.id,
        *(launch.data.get("SecurityGroupIds") or ()),
    ]
    for resource in used:
        yield _on(ec2, action, resource, shared)
    yield Check(
        action, arns.build("launch-template", launch.template.id), {**_tags(launch.template.tags), **shared}
    )


def _new(launch: Launch) -> dict[str, dict[str, str | list[str]]]:
    """Return the new resources of a launch by type."""
    zone: dict[str, str | list[str]] = {"ec2:availabilityzone": launch.pool.zone}
    options = launch.data.get("MetadataOptions") or {}
    instance = zone | {
        "ec2:instancetype": launch.pool.instance_type,
        "ec2:instancemarkettype": launch.pool.market,
        "ec2:rootdevicetype": "ebs",
        "ec2:tenancy": "default",
        "ec2:metadatahttptokens": str(options.get("HttpTokens", "optional")),
        "ec2:metadatahttpendpoint": str(options.get("HttpEndpoint", "enabled")),
        "ec2:metadatahttpputresponsehoplimit": str(options.get("HttpPutResponseHopLimit", 1)),
    }
    if launch.profile:
        instance["ec2:instanceprofile"] = launch.profile
    volume = zone | {
        "ec2:encrypted": str(launch.disk["Encrypted"]).lower(),
        "ec2:volumetype": str(launch.disk.get("VolumeType", "gp3")),
        "ec2:volumesize": str(launch.disk["VolumeSize"]),
    }
    made = {
        "instance": instance,
        "network-interface": zone | {"ec2:subnet": arns.build("subnet", launch.subnet.id)},
        "volume": volume,
    }
    return made | ({"spot-instances-request": {}} if launch.pool.market == "spot" else {})
