"""Validation of ids, filters and tags before any action.

moto treats a malformed id like a missing one, and many of its actions accept any filter and any tag.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from moto.core.utils import get_service_model
from moto.ec2.exceptions import EC2ClientError

from localcloud.services.ec2.store import records

IDS = {
    "Instance": ("i", "InvalidInstanceID"),
    "Image": ("ami", "InvalidAMIID"),
    "Snapshot": ("snap", "InvalidSnapshotID"),
    "Volume": ("vol", "InvalidVolumeID"),
    "Group": ("sg", "InvalidGroupId"),
    "SecurityGroup": ("sg", "InvalidGroupId"),
    "LaunchTemplate": ("lt", "InvalidLaunchTemplateId"),
}
"""Prefix of the ids in each "...Id" or "...Ids" parameter, and the first half of the error code."""
LISTS, STRUCTURES = ("VpcEndpointIds",), ("LaunchTemplateData",)
"""Required parameters that are no texts. Others have messages of their own."""
AT_LEAST_ONE = ("StartInstances", "StopInstances", "RebootInstances")
"""Actions that need an instance id. moto's TerminateInstances checks this itself."""
FILTER = re.compile(r"<li> <p> <code>([^<]+)</code>")
ALSO = re.compile(r"You can also use (.*?) as the filter name")
CODE = re.compile(r"<code>([^<]+)</code>")
"""Pattern of filter names and their aliases in botocore's documentation."""
UNDOCUMENTED = {"DescribeVpcs": ("cidr-block", "isDefault"), "DescribeAddresses": ("domain",)}
"""Undocumented filters that EC2 accepts: Ansible's ec2_vpc_net and ec2_eip and Terraform's aws_vpc use them."""
LONGEST_KEY, LONGEST_VALUE = 128, 256
RESERVED = "aws:"
NO_TEMPLATE = "The specified launch template, with template ID {}, does not exist."
NETWORK = {
    "SubnetId": "an instance-level subnet ID",
    "SecurityGroupIds": "instance-level security groups",
    "SecurityGroups": "instance-level security groups",
    "PrivateIpAddress": "an instance-level private IP address",
}
"""Parameters of RunInstances that are valid for the instance or its network cards, but not both."""


def check(action: str, parameters: Mapping[str, Any], *, for_a_service: bool) -> None:
    """Raise EC2ClientError with EC2's error. Only AWS services may write tags with the prefix `aws:`."""
    _check_required(action, parameters)
    _check_ids(action, parameters)
    _check_filters(action, parameters)
    for tag in _tags(parameters):
        _check_tag(
            str(tag.get("Key", "")), str(tag.get("Value", "")), reserved=() if for_a_service else (RESERVED,)
        )
    if action == "RunInstances":
        _check_network(parameters)
    if action in ("CreateTags", "DeleteTags"):
        _check_resources(_list_of(parameters, "Resources"))
    if action in ("DescribeSnapshots", "DeleteSnapshot"):
        one = parameters.get("SnapshotId")
        _check_resources([*_list_of(parameters, "SnapshotIds"), *([one] if one else [])])
    if action == "DescribeLaunchTemplates":
        _check_templates(parameters)


def _check_required(action: str, parameters: Mapping[str, Any]) -> None:
    for name in _required(action):
        if parameters.get(name) in (None, "", [], {}):
            raise EC2ClientError(
                "MissingParameter", f"The request must contain the parameter {wire_name(name)}"
            )


def wire_name(name: str) -> str:
    """Return the name of a list as a request has it: each item is a parameter of its own."""
    return name.removesuffix("s") if name in LISTS else name


@cache
def _required(action: str) -> tuple[str, ...]:
    """Return the parameters that an action requires, by its model. moto looks up a missing id as `None`."""
    model = get_service_model("ec2")
    shape = model.operation_model(action).input_shape if action in model.operation_names else None
    if shape is None:
        return ()
    known = {name: shape.members[name].type_name for name in shape.required_members}
    return tuple(name for name, kind in known.items() if kind == "string" or name in (*LISTS, *STRUCTURES))


def _check_ids(action: str, parameters: Mapping[str, Any]) -> None:
    if action in AT_LEAST_ONE and not parameters.get("InstanceIds"):
        raise EC2ClientError("MissingParameter", "The request must contain the parameter InstanceId")
    for what, (prefix, error) in IDS.items():
        given = [parameters.get(f"{what}Id"), *(parameters.get(f"{what}Ids") or [])]
        for each in given:
            if isinstance(each, str) and not each.startswith("resolve:ssm:"):
                _check_id(each, prefix, error)


def _check_id(given: str, prefix: str, error: str) -> None:
    if re.fullmatch(rf"{prefix}-([0-9a-f]{{8}}|[0-9a-f]{{17}})", given):
        return
    expected = "" if given.startswith(f"{prefix}-") else f' (expecting "{prefix}-...")'
    raise EC2ClientError(f"{error}.Malformed", f'Invalid id: "{given}"{expected}')


def _check_filters(action: str, parameters: Mapping[str, Any]) -> None:
    known = _filters(action)
    for each in [*(parameters.get("Filters") or []), *(parameters.get("Filter") or [])]:
        name = str(each.get("Name"))
        if known and name not in known and not (name.startswith("tag:") and known & {"tag", "tag-key"}):
            raise EC2ClientError("InvalidParameterValue", f"The filter '{name}' is invalid")


@cache
def _filters(action: str) -> frozenset[str]:
    """Return the documented filters of an action; empty if the documentation lists none."""
    model = get_service_model("ec2")
    shape = model.operation_model(action).input_shape if action in model.operation_names else None
    members = shape.members if shape is not None else {}
    documented = [members[member].documentation for member in ("Filters", "Filter") if member in members]
    names = [name for text in documented for name in FILTER.findall(text)]
    names += [name for text in documented for part in ALSO.findall(text) for name in CODE.findall(part)]
    return (
        frozenset(name.strip() for name in (*names, *UNDOCUMENTED.get(action, ()))) if names else frozenset()
    )


def _tags(parameters: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the tags that a request writes, including those in a launch template."""
    data = parameters.get("LaunchTemplateData") or {}
    for specification in [*_list_of(parameters, "TagSpecifications"), *_list_of(data, "TagSpecifications")]:
        yield from _list_of(specification, "Tags")
    yield from _list_of(parameters, "Tags")


def _list_of(found: Mapping[str, Any], name: str) -> list[Any]:
    listed = found.get(name)
    return listed if isinstance(listed, list) else []


def _check_tag(key: str, value: str, *, reserved: tuple[str, ...]) -> None:
    if key.lower().startswith(reserved):
        raise EC2ClientError(
            "InvalidParameterValue",
            f"Value ( {key} ) for parameter key is invalid. "
            "Tag keys starting with 'aws:' are reserved for internal use",
        )
    for what, given, most in (("key", key, LONGEST_KEY), ("value", value, LONGEST_VALUE)):
        if len(given) > most:
            raise EC2ClientError(
                "InvalidParameterValue", f"Tag {what} exceeds the maximum length of {most} characters"
            )


def _check_network(parameters: Mapping[str, Any]) -> None:
    if parameters.get("NetworkInterfaces"):
        for name, what in NETWORK.items():
            if parameters.get(name):
                raise EC2ClientError(
                    "InvalidParameterCombination",
                    f"Network interfaces and {what} may not be specified on the same request",
                )
    address, subnet_id = parameters.get("PrivateIpAddress"), parameters.get("SubnetId")
    if address is None:
        return
    try:
        wanted = ipaddress.IPv4Address(address)
    except ValueError as wrong:
        raise EC2ClientError("InvalidParameterValue", f"Invalid IPv4 address: {address}") from wrong
    backend = records.backend()
    subnets = (
        [backend.get_subnet(subnet_id)]
        if subnet_id
        else backend.describe_subnets(filters={"default-for-az": ["true"]})
    )
    if subnets and not any(wanted in ipaddress.IPv4Network(each.cidr_block) for each in subnets):
        raise EC2ClientError(
            "InvalidParameterValue", f"Address {address} does not fall within the subnet's address range"
        )


def _check_resources(ids: Iterable[str]) -> None:
    """Check that the resources exist. moto checks only some kinds."""
    store = records.backend()
    known: Mapping[str, tuple[Callable[[str], Any], str, str]] = {
        "i": (records.instance, "InvalidInstanceID.NotFound", "The instance ID '{}' does not exist"),
        "vol": (store.volumes.get, "InvalidVolume.NotFound", "The volume '{}' does not exist."),
        "snap": (store.snapshots.get, "InvalidSnapshot.NotFound", "The snapshot '{}' does not exist."),
        "sg": (
            store.get_security_group_from_id,
            "InvalidGroup.NotFound",
            "The security group '{}' does not exist",
        ),
        "vpc": (store.vpcs.get, "InvalidVpcID.NotFound", "The vpc ID '{}' does not exist"),
        "lt": (store.launch_templates.get, "InvalidLaunchTemplateId.NotFound", NO_TEMPLATE),
    }
    for each in ids:
        find, code, message = known.get(each.partition("-")[0], (bool, "", ""))
        if not find(each):
            raise EC2ClientError(code, message.format(each))


def _check_templates(parameters: Mapping[str, Any]) -> None:
    store = records.backend()
    for each in _list_of(parameters, "LaunchTemplateIds"):
        if each not in store.launch_templates:
            raise EC2ClientError("InvalidLaunchTemplateId.NotFound", NO_TEMPLATE.format(each))
    for each in _list_of(parameters, "LaunchTemplateNames"):
        if each not in store.launch_template_name_to_ids:
            raise EC2ClientError(
                "InvalidLaunchTemplateName.NotFoundException",
                f"The specified launch template, with template name {each}, does not exist.",
            )
