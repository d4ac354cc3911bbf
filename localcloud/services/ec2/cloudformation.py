"""AWS::EC2::* for CloudFormation: each type is one API call, a few settings after it, and the call that deletes it.

The engine is ministack's: it asks for create, update and delete. A changed property that cannot be changed in place is
answered with a newly created resource; the engine then deletes the old one when the update has succeeded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError
from ministack.core.responses import new_uuid

from localcloud.patches import MINISTACK

Properties = dict[str, Any]
Call = Callable[..., Any]
"""An EC2 operation by name, with template values for parameters: `caller` makes one."""


@dataclass(frozen=True)
class Kind:
    """How one resource type is made, changed and deleted."""

    create: str
    """The operation; its parameters are the resource's properties."""
    identify: Callable[[Any, Properties], str]
    """The physical id, from the operation's answer."""
    delete: Callable[[Call, str, Properties], None]
    attributes: Callable[[Call, str, Properties], dict[str, Any]]
    """What Fn::GetAtt can ask, read back so that it is true after an update too."""
    tag_type: str | None = None
    prepare: Callable[[Properties, str, str], Properties] = lambda properties, logical_id, stack: properties
    """The operation's parameters, from (properties, logical id, stack)."""
    settle: Callable[[Call, str, Properties, Properties | None], None] = lambda call, physical_id, new, old: (
        None
    )
    """What has to be said in further calls, after a create (old is None) and after an update in place."""
    in_place: frozenset[str] = field(default_factory=frozenset)
    """Properties that `settle` can change; any other change is a replacement. Tags always can."""


def caller(client: Callable[[], Any]) -> Call:
    """Makes template values fit the operation's input; members it does not have are left out."""

    def call(operation: str, **parameters: Any) -> Any:
        ec2 = client()
        shape = ec2.meta.service_model.operation_model(ec2.meta.method_to_api_mapping[operation]).input_shape
        return getattr(ec2, operation)(**coerce(shape, parameters))

    return call


def coerce(shape: Any, value: Any) -> Any:
    """A template value (anything may be a string there) as the type that botocore expects for this shape."""
    kind = shape.type_name
    if kind == "structure":
        members = {
            name: given for name, given in value.items() if name in shape.members and given is not None
        }
        return {name: coerce(shape.members[name], given) for name, given in members.items()}
    if kind == "list":
        return [coerce(shape.member, item) for item in (value if isinstance(value, list) else [value])]
    if kind == "boolean":
        return str(value).lower() == "true"
    if kind in ("integer", "long"):
        return int(value)
    if kind in ("float", "double"):
        return float(value)
    if kind == "string":
        return _text(value)
    return value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, dict | list) else str(value)


def install(client: Callable[[], Any]) -> None:
    """Add every type of the table to ministack's CloudFormation. `client` answers the current region's EC2 client."""
    call = caller(client)
    handlers = {
        name: {
            "create": _creator(call, kind),
            "update": _updater(call, kind),
            "update_with_logical_id": True,
            "delete": _deleter(call, kind),
        }
        for name, kind in KINDS.items()
    }
    MINISTACK.extend("services.cloudformation.provisioners:_RESOURCE_HANDLERS", handlers)


def _creator(call: Call, kind: Kind) -> Callable[[str, Properties, str], tuple[str, dict[str, Any]]]:
    def create(logical_id: str, properties: Properties, stack: str) -> tuple[str, dict[str, Any]]:
        parameters = {name: value for name, value in properties.items() if name != "Tags"}
        if kind.tag_type and properties.get("Tags"):
            tags = [{"ResourceType": kind.tag_type, "Tags": properties["Tags"]}]
            parameters["TagSpecifications"] = [*parameters.get("TagSpecifications", []), *tags]
        answer = call(kind.create, **kind.prepare(parameters, logical_id, stack))
        physical_id = kind.identify(answer, properties)
        kind.settle(call, physical_id, properties, None)
        return physical_id, kind.attributes(call, physical_id, properties)

    return create


def _updater(call: Call, kind: Kind) -> Callable[..., tuple[str, dict[str, Any]]]:
    def update(
        physical_id: str, old: Properties, new: Properties, stack: str, logical_id: str
    ) -> tuple[str, dict[str, Any]]:
        changed = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
        if changed - {"Tags"} - kind.in_place:
            return _creator(call, kind)(logical_id, new, stack)
        if "Tags" in changed:
            _retag(call, physical_id, old, new)
        kind.settle(call, physical_id, new, old)
        return physical_id, kind.attributes(call, physical_id, new)

    return update


def _deleter(call: Call, kind: Kind) -> Callable[[str, Properties], None]:
    def delete(physical_id: str, properties: Properties) -> None:
        """Whatever EC2 refuses (a dependency, say) fails the stack's delete; only what is already gone is fine."""
        try:
            kind.delete(call, physical_id, properties)
        except ClientError as error:
            if not _already_gone(error.response["Error"]["Code"]):
                raise

    return delete


def _already_gone(code: str) -> bool:
    return "NotFound" in code or code in ("InvalidAssociationID", "Gateway.NotAttached")


def _retag(call: Call, physical_id: str, old: Properties, new: Properties) -> None:
    before, after = ({tag["Key"]: tag["Value"] for tag in p.get("Tags") or []} for p in (old, new))
    if gone := before.keys() - after.keys():
        call("delete_tags", Resources=[physical_id], Tags=[{"Key": key} for key in sorted(gone)])
    if after:
        call("create_tags", Resources=[physical_id], Tags=[{"Key": k, "Value": v} for k, v in after.items()])


# ------------------------------------------------------------------------------------------ VPC and subnet


def _vpc_settings(call: Call, vpc_id: str, new: Properties, old: Properties | None) -> None:
    for name in ("EnableDnsSupport", "EnableDnsHostnames"):
        if name in new:
            call("modify_vpc_attribute", VpcId=vpc_id, **{name: {"Value": new[name]}})


def _vpc_attributes(call: Call, vpc_id: str, properties: Properties) -> dict[str, Any]:
    filters = [{"Name": "vpc-id", "Values": [vpc_id]}]
    groups = call(
        "describe_security_groups", Filters=[*filters, {"Name": "group-name", "Values": ["default"]}]
    )
    acls = call("describe_network_acls", Filters=[*filters, {"Name": "default", "Values": ["true"]}])
    return {
        "VpcId": vpc_id,
        "CidrBlock": properties.get("CidrBlock"),
        "DefaultSecurityGroup": groups["SecurityGroups"][0]["GroupId"],
        "DefaultNetworkAcl": acls["NetworkAcls"][0]["NetworkAclId"],
    }


def _subnet_settings(call: Call, subnet_id: str, new: Properties, old: Properties | None) -> None:
    if "MapPublicIpOnLaunch" in new:
        call(
            "modify_subnet_attribute",
            SubnetId=subnet_id,
            MapPublicIpOnLaunch={"Value": new["MapPublicIpOnLaunch"]},
        )


def _subnet_attributes(call: Call, subnet_id: str, properties: Properties) -> dict[str, Any]:
    subnet = call("describe_subnets", SubnetIds=[subnet_id])["Subnets"][0]
    names = ("SubnetId", "VpcId", "CidrBlock", "AvailabilityZone", "AvailabilityZoneId")
    return {name: subnet.get(name) for name in names}


# ------------------------------------------------------------------------------------------ security groups

ALL_OUT: Properties = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
PEER = {"ingress": "SourceSecurityGroupId", "egress": "DestinationSecurityGroupId"}
PEER_PREFIX = {"ingress": "SourcePrefixListId", "egress": "DestinationPrefixListId"}


def permission(rule: Properties, direction: str) -> Properties:
    """A rule of a template as the API's IpPermission."""
    described = {"Description": rule["Description"]} if rule.get("Description") else {}
    permitted: Properties = {
        k: rule[k] for k in ("IpProtocol", "FromPort", "ToPort") if rule.get(k) is not None
    }
    if rule.get("CidrIp"):
        permitted["IpRanges"] = [{"CidrIp": rule["CidrIp"], **described}]
    if rule.get("CidrIpv6"):
        permitted["Ipv6Ranges"] = [{"CidrIpv6": rule["CidrIpv6"], **described}]
    if rule.get(PEER[direction]):
        permitted["UserIdGroupPairs"] = [{"GroupId": rule[PEER[direction]], **described}]
    if rule.get(PEER_PREFIX[direction]):
        permitted["PrefixListIds"] = [{"PrefixListId": rule[PEER_PREFIX[direction]], **described}]
    return permitted


def _group_rules(call: Call, group_id: str, new: Properties, old: Properties | None) -> None:
    """Only the difference is applied: rules of separate SecurityGroupIngress/Egress resources stay."""
    for direction in ("ingress", "egress"):
        wanted, had = _permissions(new, direction), _permissions(old or {}, direction)
        gone = [rule for rule in had if rule not in wanted]
        added = [rule for rule in wanted if rule not in had]
        if gone:
            call(f"revoke_security_group_{direction}", GroupId=group_id, IpPermissions=gone)
        if added:
            call(f"authorize_security_group_{direction}", GroupId=group_id, IpPermissions=added)


def _permissions(properties: Properties, direction: str) -> list[Properties]:
    """The rules a template gives a group; without egress rules everything may leave, as EC2 starts a group."""
    rules = properties.get("SecurityGroupIngress" if direction == "ingress" else "SecurityGroupEgress") or []
    if not rules and direction == "egress":
        return [ALL_OUT]
    return [permission(rule, direction) for rule in rules]


def _group_parameters(parameters: Properties, logical_id: str, stack: str) -> Properties:
    name = parameters.get("GroupName") or _generated(stack, logical_id)
    return {**parameters, "GroupName": name, "Description": parameters.get("GroupDescription")}


def _one_rule(direction: str) -> Kind:
    """AWS::EC2::SecurityGroupIngress and ...Egress."""

    def revoke(call: Call, physical_id: str, properties: Properties) -> None:
        call(
            f"revoke_security_group_{direction}",
            GroupId=properties["GroupId"],
            IpPermissions=[permission(properties, direction)],
        )

    return Kind(
        create=f"authorize_security_group_{direction}",
        identify=lambda answer, properties: str(answer["SecurityGroupRules"][0]["SecurityGroupRuleId"]),
        delete=revoke,
        attributes=lambda call, physical_id, properties: {"Id": physical_id},
        prepare=lambda parameters, logical_id, stack: {
            "GroupId": parameters["GroupId"],
            "IpPermissions": [permission(parameters, direction)],
        },
    )


# ------------------------------------------------------------------------------------------ launch templates, routes


def _template_version(call: Call, template_id: str, new: Properties, old: Properties | None) -> None:
    """Changed data is a new version; $Default stays where it is, as CloudFormation leaves it."""
    if old is not None and old.get("LaunchTemplateData") != new.get("LaunchTemplateData"):
        call(
            "create_launch_template_version",
            LaunchTemplateId=template_id,
            LaunchTemplateData=new["LaunchTemplateData"],
            VersionDescription=new.get("VersionDescription"),
        )


def _template_attributes(call: Call, template_id: str, properties: Properties) -> dict[str, Any]:
    template = call("describe_launch_templates", LaunchTemplateIds=[template_id])["LaunchTemplates"][0]
    return {
        "LaunchTemplateId": template_id,
        "LatestVersionNumber": str(template["LatestVersionNumber"]),
        "DefaultVersionNumber": str(template["DefaultVersionNumber"]),
    }


def _template_parameters(parameters: Properties, logical_id: str, stack: str) -> Properties:
    return {
        **parameters,
        "LaunchTemplateName": parameters.get("LaunchTemplateName") or _generated(stack, logical_id),
    }


def _destination(properties: Properties) -> Properties:
    """The one destination a route has, under the name DeleteRoute uses too."""
    names = ("DestinationCidrBlock", "DestinationIpv6CidrBlock", "DestinationPrefixListId")
    return {name: properties[name] for name in names if properties.get(name)}


def _endpoint_parameters(parameters: Properties, logical_id: str, stack: str) -> Properties:
    return {**parameters, "VpcEndpointType": parameters.get("VpcEndpointType") or "Gateway"}


def _endpoint_settings(call: Call, endpoint_id: str, new: Properties, old: Properties | None) -> None:
    if old is None:
        return
    changes: Properties = {"PolicyDocument": new.get("PolicyDocument")}
    for name, added, removed in (
        ("RouteTableIds", "AddRouteTableIds", "RemoveRouteTableIds"),
        ("SubnetIds", "AddSubnetIds", "RemoveSubnetIds"),
    ):
        before, after = set(old.get(name) or []), set(new.get(name) or [])
        changes[added], changes[removed] = sorted(after - before) or None, sorted(before - after) or None
    call("modify_vpc_endpoint", VpcEndpointId=endpoint_id, **changes)


def _endpoint_attributes(call: Call, endpoint_id: str, properties: Properties) -> dict[str, Any]:
    endpoint = call("describe_vpc_endpoints", VpcEndpointIds=[endpoint_id])["VpcEndpoints"][0]
    entries = [f"{e.get('HostedZoneId')}:{e.get('DnsName')}" for e in endpoint.get("DnsEntries", [])]
    return {
        "Id": endpoint_id,
        "DnsEntries": entries,
        "NetworkInterfaceIds": endpoint.get("NetworkInterfaceIds", []),
        "CreationTimestamp": str(endpoint.get("CreationTimestamp")),
    }


def _generated(stack: str, logical_id: str) -> str:
    return f"{stack}-{logical_id}-{new_uuid().replace('-', '')[:12].upper()}"


def _id_only(name: str) -> Callable[[Call, str, Properties], dict[str, Any]]:
    return lambda call, physical_id, properties: {name: physical_id}


def _at(*keys: str) -> Callable[[Mapping[str, Any], Properties], str]:
    """The physical id at this place of the answer."""

    def identify(answer: Any, properties: Properties) -> str:
        for key in keys:
            answer = answer[key]
        return str(answer)

    return identify


def _deletes(operation: str, parameter: str) -> Callable[[Call, str, Properties], None]:
    """Delete by the id alone."""
    return lambda call, physical_id, properties: call(operation, **{parameter: physical_id})


KINDS: dict[str, Kind] = {
    "AWS::EC2::VPC": Kind(
        create="create_vpc",
        identify=_at("Vpc", "VpcId"),
        delete=_deletes("delete_vpc", "VpcId"),
        attributes=_vpc_attributes,
        tag_type="vpc",
        settle=_vpc_settings,
        in_place=frozenset({"EnableDnsSupport", "EnableDnsHostnames"}),
    ),
    "AWS::EC2::Subnet": Kind(
        create="create_subnet",
        identify=_at("Subnet", "SubnetId"),
        delete=_deletes("delete_subnet", "SubnetId"),
        attributes=_subnet_attributes,
        tag_type="subnet",
        settle=_subnet_settings,
        in_place=frozenset({"MapPublicIpOnLaunch"}),
    ),
    "AWS::EC2::InternetGateway": Kind(
        create="create_internet_gateway",
        identify=_at("InternetGateway", "InternetGatewayId"),
        delete=_deletes("delete_internet_gateway", "InternetGatewayId"),
        attributes=_id_only("InternetGatewayId"),
        tag_type="internet-gateway",
    ),
    "AWS::EC2::VPCGatewayAttachment": Kind(
        create="attach_internet_gateway",
        identify=lambda answer, properties: f"IGW|{properties['VpcId']}",
        delete=lambda call, physical_id, properties: call("detach_internet_gateway", **properties),
        attributes=lambda call, physical_id, properties: {"AttachmentType": "IGW"},
    ),
    "AWS::EC2::RouteTable": Kind(
        create="create_route_table",
        identify=_at("RouteTable", "RouteTableId"),
        delete=_deletes("delete_route_table", "RouteTableId"),
        attributes=_id_only("RouteTableId"),
        tag_type="route-table",
    ),
    "AWS::EC2::Route": Kind(
        create="create_route",
        identify=lambda answer, properties: "|".join(
            [properties["RouteTableId"], *_destination(properties).values()]
        ),
        delete=lambda call, physical_id, properties: call(
            "delete_route", RouteTableId=properties["RouteTableId"], **_destination(properties)
        ),
        attributes=lambda call, physical_id, properties: {
            "CidrBlock": properties.get("DestinationCidrBlock")
        },
    ),
    "AWS::EC2::SubnetRouteTableAssociation": Kind(
        create="associate_route_table",
        identify=_at("AssociationId"),
        delete=_deletes("disassociate_route_table", "AssociationId"),
        attributes=_id_only("Id"),
    ),
    "AWS::EC2::SecurityGroup": Kind(
        create="create_security_group",
        identify=_at("GroupId"),
        delete=_deletes("delete_security_group", "GroupId"),
        attributes=lambda call, physical_id, properties: {
            "GroupId": physical_id,
            "Id": physical_id,
            "VpcId": properties.get("VpcId", ""),
        },
        tag_type="security-group",
        prepare=_group_parameters,
        settle=_group_rules,
        in_place=frozenset({"SecurityGroupIngress", "SecurityGroupEgress"}),
    ),
    "AWS::EC2::SecurityGroupIngress": _one_rule("ingress"),
    "AWS::EC2::SecurityGroupEgress": _one_rule("egress"),
    "AWS::EC2::LaunchTemplate": Kind(
        create="create_launch_template",
        identify=_at("LaunchTemplate", "LaunchTemplateId"),
        delete=_deletes("delete_launch_template", "LaunchTemplateId"),
        attributes=_template_attributes,
        prepare=_template_parameters,
        settle=_template_version,
        in_place=frozenset({"LaunchTemplateData", "VersionDescription", "TagSpecifications"}),
    ),
    "AWS::EC2::VPCEndpoint": Kind(
        create="create_vpc_endpoint",
        identify=_at("VpcEndpoint", "VpcEndpointId"),
        delete=_deletes("delete_vpc_endpoints", "VpcEndpointIds"),
        attributes=_endpoint_attributes,
        tag_type="vpc-endpoint",
        prepare=_endpoint_parameters,
        settle=_endpoint_settings,
        in_place=frozenset({"PolicyDocument", "RouteTableIds", "SubnetIds"}),
    ),
}
