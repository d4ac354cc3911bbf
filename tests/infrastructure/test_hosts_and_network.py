"""Hosts, and access to them."""

import base64
import json
import subprocess

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from stacks.network import NetworkStack
from stacks.settings import YardSettings
from tests.infrastructure.assembly import Assembly, Resource


def templates_of(yard: Assembly, host: str) -> list[Resource]:
    templates = yard.resources("AWS::EC2::LaunchTemplate")
    return [each for each in templates if each.name.startswith(f"{host}Template")]


def template_of(yard: Assembly, host: str) -> Resource:
    return templates_of(yard, host)[0]


@pytest.fixture(params=["Host", "Builder"])
def template(yard: Assembly, request: pytest.FixtureRequest) -> Resource:
    return template_of(yard, request.param)


def test_metadata_needs_a_token_and_shows_the_tags(template: Resource) -> None:
    assert template.properties["LaunchTemplateData"]["MetadataOptions"] == {
        "HttpEndpoint": "enabled",
        "HttpTokens": "required",
        "HttpPutResponseHopLimit": 1,
        "InstanceMetadataTags": "enabled",
    }


def test_disks_are_encrypted_and_end_with_the_host(template: Resource) -> None:
    for mapping in template.properties["LaunchTemplateData"]["BlockDeviceMappings"]:
        assert mapping["Ebs"]["Encrypted"] is True
        assert mapping["Ebs"]["DeleteOnTermination"] is True


@pytest.mark.parametrize("host", ["Host", "Builder"])
def test_disks_are_as_large_as_their_image_and_there_is_a_template_for_each_rate(
    yard: Assembly, host: str
) -> None:
    datas = [each.properties["LaunchTemplateData"] for each in templates_of(yard, host)]
    disks = [mapping["Ebs"] for data in datas for mapping in data.pop("BlockDeviceMappings")]
    assert [disk.pop("VolumeInitializationRate", 0) for disk in disks] == [0, 100, 200, 300]
    assert all(data == datas[0] for data in datas)
    assert all(disk == disks[0] for disk in disks)
    assert "VolumeSize" not in disks[0]
    assert disks[0]["VolumeType"] == "gp3"


def test_a_host_that_powers_itself_off_is_gone(template: Resource) -> None:
    assert template.properties["LaunchTemplateData"]["InstanceInitiatedShutdownBehavior"] == "terminate"


def test_there_is_no_key_and_no_market(template: Resource) -> None:
    assert not {"KeyName", "InstanceMarketOptions"} & set(template.properties["LaunchTemplateData"])


def test_a_builder_ends_with_its_lease_by_itself_and_a_host_has_an_agent_for_that(yard: Assembly) -> None:
    builder = template_of(yard, "Builder").properties["LaunchTemplateData"]
    script = base64.b64decode(builder["UserData"]).decode()
    assert "trainyard:lease" in script
    assert subprocess.run(["sh", "-n"], input=script, text=True, check=False).returncode == 0
    assert "UserData" not in template_of(yard, "Host").properties["LaunchTemplateData"]


def test_all_that_a_launch_creates_is_tagged_as_the_yards(template: Resource) -> None:
    specifications = {
        each["ResourceType"]: {tag["Key"]: tag["Value"] for tag in each["Tags"]}
        for each in template.properties["LaunchTemplateData"]["TagSpecifications"]
    }
    assert set(specifications) == {"instance", "volume", "network-interface"}
    assert all(tags["trainyard:yard"] == "trainyard" for tags in specifications.values())
    (own,) = template.properties["TagSpecifications"]
    assert own["ResourceType"] == "launch-template"
    assert {"Key": "trainyard:yard", "Value": "trainyard"} in own["Tags"]


def test_a_host_finds_its_bucket_its_bus_and_its_name_in_its_tags(yard: Assembly) -> None:
    host = template_of(yard, "Host")
    (instance,) = [
        each["Tags"]
        for each in host.properties["LaunchTemplateData"]["TagSpecifications"]
        if each["ResourceType"] == "instance"
    ]
    assert {tag["Key"] for tag in instance} == {
        f"trainyard:{each}" for each in ("yard", "bucket", "bus", "role")
    }


def test_hosts_start_from_whatever_the_parameter_names_at_that_moment(yard: Assembly) -> None:
    host = template_of(yard, "Host")
    assert host.properties["LaunchTemplateData"]["ImageId"] == "resolve:ssm:/trainyard/image"
    parameters = {
        each.properties["Name"]: each.properties["Value"] for each in yard.resources("AWS::SSM::Parameter")
    }
    images = {name: value for name, value in parameters.items() if "/image" in name}
    assert images == {"/trainyard/image": "none", "/trainyard/image/previous": "none"}


def test_nobody_outside_the_yards_hosts_can_open_a_connection_to_one(yard: Assembly) -> None:
    """The only rule allows members of a gang to connect to each other: its source is the hosts' own group."""
    for group in yard.resources("AWS::EC2::SecurityGroup"):
        assert "SecurityGroupIngress" not in group.properties, group.name
    (rule,) = yard.resources("AWS::EC2::SecurityGroupIngress")
    assert rule.properties["SourceSecurityGroupId"] == rule.properties["GroupId"]
    assert not {"CidrIp", "CidrIpv6", "SourcePrefixListId"} & set(rule.properties)


def test_hosts_speak_tls_to_the_world_and_nothing_else(yard: Assembly) -> None:
    (group,) = yard.resources("AWS::EC2::SecurityGroup")
    (rule,) = group.properties["SecurityGroupEgress"]
    assert (rule["CidrIp"], rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) == (
        "0.0.0.0/0",
        "tcp",
        443,
        443,
    )


@pytest.mark.parametrize("which", ["yard", "private_yard"])
def test_there_is_one_subnet_in_each_of_three_zones(which: str, request: pytest.FixtureRequest) -> None:
    assembly: Assembly = request.getfixturevalue(which)
    zones = [each.properties["AvailabilityZone"] for each in assembly.resources("AWS::EC2::Subnet")]
    assert zones == ["us-east-1a", "us-east-1b", "us-east-1c"]


def network(monkeypatch: pytest.MonkeyPatch, region: str | None, **context: object) -> Template:
    """Return the network stack, as the command `cdk` makes it for an account; without a region for an unknown one."""
    for name, value in (("ACCOUNT", "123456789012"), ("REGION", region or "")):
        monkeypatch.setenv(f"CDK_DEFAULT_{name}", value)
    app = cdk.App(context=context)
    return Template.from_stack(NetworkStack(app, YardSettings.of(app)))


def zones_of(template: Template) -> list[object]:
    subnets = template.find_resources("AWS::EC2::Subnet").values()
    return [each["Properties"]["AvailabilityZone"] for each in subnets]


SIX = [f"us-east-1{letter}" for letter in "abcdef"]
NOT_OF_THE_REGION = ["us-east-1-bos-1a", "us-east-1-wl1-bos-wlz-1"]


@pytest.mark.parametrize(
    ("region", "account_has", "zones"),
    [
        ("us-west-1", ["us-west-1a", "us-west-1c"], ["us-west-1a", "us-west-1c"]),
        ("us-east-1", [*reversed(SIX), *NOT_OF_THE_REGION], SIX),
        ("us-gov-west-1", ["us-gov-west-1a", "us-gov-west-1b"], ["us-gov-west-1a", "us-gov-west-1b"]),
    ],
)
def test_every_zone_that_the_account_has_is_used(
    monkeypatch: pytest.MonkeyPatch, region: str, account_has: list[str], zones: list[str]
) -> None:
    asked = {f"availability-zones:account=123456789012:region={region}": account_has}
    assert zones_of(network(monkeypatch, region, **asked)) == zones
    assert zones_of(network(monkeypatch, region, **asked, zones=f"{region}a")) == [f"{region}a"]


@pytest.mark.parametrize("region", ["eu-north-1", None])
def test_until_ec2_is_asked_there_are_the_two_zones_that_every_region_has(
    monkeypatch: pytest.MonkeyPatch, region: str | None
) -> None:
    found = zones_of(network(monkeypatch, region))
    assert found == [{"Fn::Select": [index, {"Fn::GetAZs": ""}]} for index in range(2)]


@pytest.mark.parametrize("which", ["yard", "private_yard"])
def test_no_template_says_aws_where_the_partition_belongs(which: str, request: pytest.FixtureRequest) -> None:
    """This includes managed policies and state machines: the same templates are for GovCloud and China."""
    assembly: Assembly = request.getfixturevalue(which)
    assert [name for name, each in assembly.templates.items() if "arn:aws:" in json.dumps(each)] == []


def test_s3_is_reached_without_leaving_the_network(yard: Assembly) -> None:
    (endpoint,) = yard.resources("AWS::EC2::VPCEndpoint")
    assert endpoint.properties["VpcEndpointType"] == "Gateway"
    assert len(endpoint.properties["RouteTableIds"]) == 3


def test_nothing_costs_while_nothing_happens(yard: Assembly) -> None:
    assert yard.resources("AWS::EC2::NatGateway") == []
    assert yard.resources("AWS::EC2::EIP") == []


def test_a_private_yard_has_no_way_to_the_world_and_an_endpoint_of_each_service(
    private_yard: Assembly,
) -> None:
    assert private_yard.resources("AWS::EC2::InternetGateway") == []
    assert not any(
        each.properties.get("MapPublicIpOnLaunch") for each in private_yard.resources("AWS::EC2::Subnet")
    )
    addresses = {
        str(each.properties["ServiceName"]).rsplit(".", 1)[-1].strip("'}]")
        for each in private_yard.resources("AWS::EC2::VPCEndpoint")
        if each.properties["VpcEndpointType"] == "Interface"
    }
    assert addresses == {"ssm", "ssmmessages", "ec2messages", "events", "logs", "monitoring", "sts"}


def test_the_endpoints_of_a_private_yard_are_open_to_its_hosts_only(private_yard: Assembly) -> None:
    sources = {
        (str(rule.properties["SourceSecurityGroupId"]), rule.properties["FromPort"])
        for rule in private_yard.resources("AWS::EC2::SecurityGroupIngress")
    }
    assert {port for _, port in sources} == {443, 1024}
    assert len({source for source, _ in sources}) == 1
    for group in private_yard.resources("AWS::EC2::SecurityGroup"):
        assert "SecurityGroupIngress" not in group.properties
