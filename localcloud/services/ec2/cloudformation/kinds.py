"""All EC2 resource types that CloudFormation supports here."""

from __future__ import annotations

from localcloud.services.ec2.cloudformation.kind import (
    Call,
    Kind,
    Properties,
    deletes,
    generated_name,
    id_at,
    id_only,
)


def _vpc_settings(call: Call, vpc_id: str, new: Properties, old: Properties | None) -> None:
    for name in ("EnableDnsSupport", "EnableDnsHostnames"):
        if name in new:
            call("modify_vpc_attribute", VpcId=vpc_id, **{name: {"Value": new[name]}})


def _vpc_attributes(call: Call, vpc_id: str, properties: Properties) -> Properties:
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


def _subnet_attributes(call: Call, subnet_id: str, properties: Properties) -> Properties:
    subnet = call("describe_subnets", SubnetIds=[subnet_id])["Subnets"][0]
    names = ("SubnetId", "VpcId", "CidrBlock", "AvailabilityZone", "AvailabilityZoneId")
    return {name: subnet.get(name) for name in names}


ALL_OUT: Properties = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
PEER = {"ingress": "SourceSecurityGroupId", "egress": "DestinationSecurityGroupId"}
PEER_PREFIX = {"ingress": "SourcePrefixListId", "egress": "DestinationPrefixListId"}


def permission(rule: Properties, direction: str) -> Properties:
    """Convert a template's rule to the API's IpPermission."""
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
    """Apply only the changed rules. Rules of separate SecurityGroupIngress and SecurityGroupEgress resources stay."""
    for direction in ("ingress", "egress"):
        wanted, had = _permissions(new, direction), _permissions(old or {}, direction)
        gone = [rule for rule in had if rule not in wanted]
        added = [rule for rule in wanted if rule not in had]
        if gone:
            call(f"revoke_security_group_{direction}", GroupId=group_id, IpPermissions=gone)
        if added:
            call(f"authorize_security_group_{direction}", GroupId=group_id, IpPermissions=added)


def _permissions(properties: Properties, direction: str) -> list[Properties]:
    """Return a group's rules. Without egress rules all outbound traffic is allowed, as in EC2."""
    rules = properties.get("SecurityGroupIngress" if direction == "ingress" else "SecurityGroupEgress") or []
    if not rules and direction == "egress":
        return [ALL_OUT]
    return [permission(rule, direction) for rule in rules]


def _group_parameters(parameters: Properties, logical_id: str, stack: str) -> Properties:
    name = parameters.get("GroupName") or generated_name(stack, logical_id)
    return {**parameters, "GroupName": name, "Description": parameters.get("GroupDescription")}


def _one_rule(direction: str) -> Kind:
    """Return AWS::EC2::SecurityGroupIngress or AWS::EC2::SecurityGroupEgress."""

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


def _template_version(call: Call, template_id: str, new: Properties, old: Properties | None) -> None:
    """Create a version for changed data. As in CloudFormation, $Default stays unchanged."""
    if old is not None and old.get("LaunchTemplateData") != new.get("LaunchTemplateData"):
        call(
            "create_launch_template_version",
            LaunchTemplateId=template_id,
            LaunchTemplateData=new["LaunchTemplateData"],
            VersionDescription=new.get("VersionDescription"),
        )


def _template_attributes(call: Call, template_id: str, properties: Properties) -> Properties:
    template = call("describe_launch_templates", LaunchTemplateIds=[template_id])["LaunchTemplates"][0]
    return {
        "LaunchTemplateId": template_id,
        "LatestVersionNumber": str(template["LatestVersionNumber"]),
        "DefaultVersionNumber": str(template["DefaultVersionNumber"]),
    }


def _template_parameters(parameters: Properties, logical_id: str, stack: str) -> Properties:
    return {
        **parameters,
        "LaunchTemplateName": parameters.get("LaunchTemplateName") or generated_name(stack, logical_id),
    }


def _destination(properties: Properties) -> Properties:
    """Return the destination of a route, with the name that DeleteRoute also uses."""
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


def _endpoint_attributes(call: Call, endpoint_id: str, properties: Properties) -> Properties:
    endpoint = call("describe_vpc_endpoints", VpcEndpointIds=[endpoint_id])["VpcEndpoints"][0]
    entries = [f"{e.get('HostedZoneId')}:{e.get('DnsName')}" for e in endpoint.get("DnsEntries", [])]
    return {
        "Id": endpoint_id,
        "DnsEntries": entries,
        "NetworkInterfaceIds": endpoint.get("NetworkInterfaceIds", []),
        "CreationTimestamp": str(endpoint.get("CreationTimestamp")),
    }


KINDS: dict[str, Kind] = {
    "AWS::EC2::VPC": Kind(
        create="create_vpc",
        identify=id_at("Vpc", "VpcId"),
        delete=deletes("delete_vpc", "VpcId"),
        attributes=_vpc_attributes,
        tag_type="vpc",
        settle=_vpc_settings,
        in_place=frozenset({"EnableDnsSupport", "EnableDnsHostnames"}),
    ),
    "AWS::EC2::Subnet": Kind(
        create="create_subnet",
        identify=id_at("Subnet", "SubnetId"),
        delete=deletes("delete_subnet", "SubnetId"),
        attributes=_subnet_attributes,
        tag_type="subnet",
        settle=_subnet_settings,
        in_place=frozenset({"MapPublicIpOnLaunch"}),
    ),
    "AWS::EC2::InternetGateway": Kind(
        create="create_internet_gateway",
        identify=id_at("InternetGateway", "InternetGatewayId"),
        delete=deletes("delete_internet_gateway", "InternetGatewayId"),
        attributes=id_only("InternetGatewayId"),
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
        identify=id_at("RouteTable", "RouteTableId"),
        delete=deletes("delete_route_table", "RouteTableId"),
        attributes=id_only("RouteTableId"),
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
        identify=id_at("AssociationId"),
        delete=deletes("disassociate_route_table", "AssociationId"),
        attributes=id_only("Id"),
    ),
    "AWS::EC2::SecurityGroup": Kind(
        create="create_security_group",
        identify=id_at("GroupId"),
        delete=deletes("delete_security_group", "GroupId"),
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
        identify=id_at("LaunchTemplate", "LaunchTemplateId"),
        delete=deletes("delete_launch_template", "LaunchTemplateId"),
        attributes=_template_attributes,
        prepare=_template_parameters,
        settle=_template_version,
        in_place=frozenset({"LaunchTemplateData", "VersionDescription", "TagSpecifications"}),
    ),
    "AWS::EC2::VPCEndpoint": Kind(
        create="create_vpc_endpoint",
        identify=id_at("VpcEndpoint", "VpcEndpointId"),
        delete=deletes("delete_vpc_endpoints", "VpcEndpointIds"),
        attributes=_endpoint_attributes,
        tag_type="vpc-endpoint",
        prepare=_endpoint_parameters,
        settle=_endpoint_settings,
        in_place=frozenset({"PolicyDocument", "RouteTableIds", "SubnetIds"}),
    ),
}
