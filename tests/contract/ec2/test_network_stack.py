"""AWS::EC2::* in CloudFormation: created, changed, replaced and deleted."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.conftest import eventually
from tests.contract.ec2.conftest import BASE_PARAMETER, Yard, unique

Template = dict[str, Any]


def ref(name: str) -> dict[str, str]:
    return {"Ref": name}


def attribute(name: str, of: str) -> dict[str, list[str]]:
    return {"Fn::GetAtt": [of, name]}


def template(
    *, subnet: str = "10.20.0.0/24", user_data: str = "one", extra_rule: bool = True, dns: Any = "true"
) -> Template:
    """Return a network like Trainyard's. Template values are strings if CloudFormation allows them."""
    egress = [{"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIp": "0.0.0.0/0"}]
    if extra_rule:
        egress.append({"IpProtocol": "udp", "FromPort": 0, "ToPort": 53, "CidrIp": "10.20.0.0/16"})
    own_group = attribute("GroupId", "Group")
    resources = {
        "Vpc": (
            "VPC",
            {"CidrBlock": "10.20.0.0/16", "EnableDnsHostnames": dns, "Tags": [{"Key": "Name", "Value": "net"}]},
        ),
        "Subnet": (
            "Subnet",
            {
                "VpcId": ref("Vpc"),
                "CidrBlock": subnet,
                "AvailabilityZone": {"Fn::Select": ["1", {"Fn::GetAZs": ""}]},
                "MapPublicIpOnLaunch": "true",
            },
        ),
        "Gateway": ("InternetGateway", {}),
        "Attachment": ("VPCGatewayAttachment", {"VpcId": ref("Vpc"), "InternetGatewayId": ref("Gateway")}),
        "Table": ("RouteTable", {"VpcId": ref("Vpc")}),
        "Route": (
            "Route",
            {"RouteTableId": ref("Table"), "DestinationCidrBlock": "0.0.0.0/0", "GatewayId": ref("Gateway")},
        ),
        "Association": ("SubnetRouteTableAssociation", {"RouteTableId": ref("Table"), "SubnetId": ref("Subnet")}),
        "Group": (
            "SecurityGroup",
            {"GroupDescription": "hosts", "VpcId": ref("Vpc"), "SecurityGroupEgress": egress},
        ),
        "AmongHosts": (
            "SecurityGroupIngress",
            {"GroupId": own_group, "SourceSecurityGroupId": own_group, "IpProtocol": "tcp",
             "FromPort": 0, "ToPort": "65535"},
        ),
        "ToHosts": (
            "SecurityGroupEgress",
            {"GroupId": own_group, "DestinationSecurityGroupId": own_group, "IpProtocol": "-1"},
        ),
        "Endpoint": (
            "VPCEndpoint",
            {
                "VpcId": ref("Vpc"),
                "ServiceName": {"Fn::Sub": "com.amazonaws.${AWS::Region}.s3"},
                "RouteTableIds": [ref("Table")],
                "VpcEndpointType": "Gateway",
            },
        ),
        "Template": (
            "LaunchTemplate",
            {
                "LaunchTemplateData": {
                    "ImageId": f"resolve:ssm:{BASE_PARAMETER}",
                    "SecurityGroupIds": [own_group],
                    "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": "1"},
                    "UserData": {"Fn::Base64": user_data},
                },
                "TagSpecifications": [{"ResourceType": "launch-template", "Tags": [{"Key": "yard", "Value": "net"}]}],
            },
        ),
    }  # fmt: skip
    outputs = {
        "Vpc": ref("Vpc"),
        "Subnet": ref("Subnet"),
        "Table": ref("Table"),
        "Group": own_group,
        "Zone": attribute("AvailabilityZone", "Subnet"),
        "Template": ref("Template"),
        "Version": attribute("LatestVersionNumber", "Template"),
    }
    made = {
        name: {"Type": f"AWS::EC2::{kind}", "Properties": given} for name, (kind, given) in resources.items()
    }
    made["Route"]["DependsOn"] = "Attachment"
    return {"Resources": made, "Outputs": {name: {"Value": value} for name, value in outputs.items()}}


class Stack:
    def __init__(self, yard: Yard) -> None:
        self.yard, self.name = yard, unique("net")
        self.cloudformation = yard.cloud.client("cloudformation")

    def create(self, body: Template) -> dict[str, str]:
        self.cloudformation.create_stack(StackName=self.name, TemplateBody=json.dumps(body))
        return self.settled("CREATE_COMPLETE")

    def update(self, body: Template) -> dict[str, str]:
        self.cloudformation.update_stack(StackName=self.name, TemplateBody=json.dumps(body))
        return self.settled("UPDATE_COMPLETE")

    def delete(self) -> None:
        self.cloudformation.delete_stack(StackName=self.name)

    def settled(self, status: str) -> dict[str, str]:
        eventually(lambda: not self.status().endswith("IN_PROGRESS"))
        assert self.status() == status, self.reasons()
        stack = self.cloudformation.describe_stacks(StackName=self.name)["Stacks"][0]
        return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}

    def status(self) -> str:
        try:
            return str(self.cloudformation.describe_stacks(StackName=self.name)["Stacks"][0]["StackStatus"])
        except self.cloudformation.exceptions.ClientError:
            return "GONE"

    def reasons(self) -> list[str]:
        events = self.cloudformation.describe_stack_events(StackName=self.name)["StackEvents"]
        return [e.get("ResourceStatusReason", "") for e in events if "FAILED" in e["ResourceStatus"]]


@pytest.fixture
def stack(yard: Yard) -> Iterator[Stack]:
    made = Stack(yard)
    yield made
    if made.status() != "GONE":
        made.delete()
        eventually(lambda: made.status() in ("GONE", "DELETE_FAILED"))


def rules(yard: Yard, group: str, direction: str) -> set[tuple[Any, ...]]:
    found = yard.ec2.describe_security_group_rules(Filters=[{"Name": "group-id", "Values": [group]}])
    return {
        (rule["IpProtocol"], rule.get("FromPort"), rule.get("ToPort"), rule.get("CidrIpv4") or "self")
        for rule in found["SecurityGroupRules"]
        if rule["IsEgress"] == (direction == "egress")
    }


def test_a_network_is_what_its_template_says(yard: Yard, stack: Stack) -> None:
    made = stack.create(template())
    dns = yard.ec2.describe_vpc_attribute(VpcId=made["Vpc"], Attribute="enableDnsHostnames")
    assert dns["EnableDnsHostnames"]["Value"] is True
    subnet = yard.ec2.describe_subnets(SubnetIds=[made["Subnet"]])["Subnets"][0]
    assert (subnet["AvailabilityZone"], subnet["MapPublicIpOnLaunch"]) == ("us-east-1b", True)
    assert made["Zone"] == "us-east-1b"
    table = yard.ec2.describe_route_tables(RouteTableIds=[made["Table"]])["RouteTables"][0]
    assert made["Subnet"] in [association.get("SubnetId") for association in table["Associations"]]
    assert "0.0.0.0/0" in [route.get("DestinationCidrBlock") for route in table["Routes"]]
    assert rules(yard, made["Group"], "egress") == {
        ("tcp", 443, 443, "0.0.0.0/0"), ("udp", 0, 53, "10.20.0.0/16"), ("-1", -1, -1, "self"),
    }  # fmt: skip
    assert {rule[:3] for rule in rules(yard, made["Group"], "ingress")} == {("tcp", 0, 65535)}


def test_an_update_changes_only_the_difference(yard: Yard, stack: Stack) -> None:
    before = stack.create(template())
    after = stack.update(template(extra_rule=False, user_data="two", dns="false"))
    assert {k: v for k, v in after.items() if k != "Version"} == {
        k: v for k, v in before.items() if k != "Version"
    }
    assert (before["Version"], after["Version"]) == ("1", "2")
    assert rules(yard, after["Group"], "egress") == {
        ("tcp", 443, 443, "0.0.0.0/0"),
        ("-1", -1, -1, "self"),
    }
    dns = yard.ec2.describe_vpc_attribute(VpcId=after["Vpc"], Attribute="enableDnsHostnames")
    assert dns["EnableDnsHostnames"]["Value"] is False


def test_what_cannot_change_in_place_is_replaced(yard: Yard, stack: Stack) -> None:
    before = stack.create(template())
    after = stack.update(template(subnet="10.20.9.0/24"))
    assert after["Subnet"] != before["Subnet"]
    left = yard.ec2.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [after["Vpc"]]}])["Subnets"]
    assert [subnet["CidrBlock"] for subnet in left] == ["10.20.9.0/24"]


def test_a_deleted_network_leaves_nothing(yard: Yard, stack: Stack) -> None:
    made = stack.create(template())
    gateways = len(yard.ec2.describe_internet_gateways()["InternetGateways"])
    stack.delete()
    eventually(lambda: stack.status() == "GONE")
    assert made["Vpc"] not in [vpc["VpcId"] for vpc in yard.ec2.describe_vpcs()["Vpcs"]]
    assert len(yard.ec2.describe_internet_gateways()["InternetGateways"]) == gateways - 1
    assert made["Template"] not in [
        t["LaunchTemplateId"] for t in yard.ec2.describe_launch_templates()["LaunchTemplates"]
    ]


def test_a_network_that_is_in_use_cannot_be_deleted(yard: Yard, stack: Stack) -> None:
    made = stack.create(template())
    host = yard.run(SubnetId=made["Subnet"])[0]
    yard.becomes(host, "running")
    stack.delete()
    eventually(lambda: stack.status() == "DELETE_FAILED")
    assert any("DependencyViolation" in reason or "dependen" in reason for reason in stack.reasons())
    yard.ec2.terminate_instances(InstanceIds=[host])
    yard.becomes(host, "terminated")
    stack.delete()
    eventually(lambda: stack.status() == "GONE")
