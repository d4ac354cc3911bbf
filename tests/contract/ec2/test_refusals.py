"""EC2's refusals of invalid requests, with AWS's error codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.ec2.conftest import Yard, tags

ABSENT = "0123456789abcdef0"
Call = Callable[[Any], Any]


def said(yard: Yard, call: Call) -> tuple[str, str]:
    """Return code and message of the error that this call must raise."""
    with pytest.raises(ClientError) as raised:
        call(yard.ec2)
    error = raised.value.response["Error"]
    return error["Code"], error["Message"]


@pytest.mark.parametrize("given", ["nonsense", "i-zz", "i-0123", "ami-0123456789abcdef0"])
@pytest.mark.parametrize(
    "call",
    [
        lambda ec2, given: ec2.describe_instances(InstanceIds=[given]),
        lambda ec2, given: ec2.start_instances(InstanceIds=[given]),
        lambda ec2, given: ec2.terminate_instances(InstanceIds=[given]),
        lambda ec2, given: ec2.modify_instance_attribute(InstanceId=given, EbsOptimized={"Value": True}),
        lambda ec2, given: ec2.create_image(InstanceId=given, Name="name"),
        lambda ec2, given: ec2.get_console_output(InstanceId=given),
    ],
    ids=["describe", "start", "terminate", "modify", "create image", "console"],
)
def test_an_instance_id_that_cannot_be_one_is_malformed(yard: Yard, call: Any, given: str) -> None:
    code, message = said(yard, lambda ec2: call(ec2, given))
    assert (code, f'Invalid id: "{given}"' in message) == ("InvalidInstanceID.Malformed", True)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda ec2: ec2.describe_images(ImageIds=["ami-zz"]), "InvalidAMIID.Malformed"),
        (lambda ec2: ec2.deregister_image(ImageId="ami-zz"), "InvalidAMIID.Malformed"),
        (lambda ec2: ec2.describe_snapshots(SnapshotIds=["zz"]), "InvalidSnapshotID.Malformed"),
        (lambda ec2: ec2.describe_volumes(VolumeIds=["zz"]), "InvalidVolumeID.Malformed"),
        (lambda ec2: ec2.describe_security_groups(GroupIds=["zz"]), "InvalidGroupId.Malformed"),
        (
            lambda ec2: ec2.describe_launch_templates(LaunchTemplateIds=["zz"]),
            "InvalidLaunchTemplateId.Malformed",
        ),
        (lambda ec2: ec2.describe_instances(InstanceIds=[f"i-{ABSENT}"]), "InvalidInstanceID.NotFound"),
        (lambda ec2: ec2.describe_images(ImageIds=[f"ami-{ABSENT}"]), "InvalidAMIID.NotFound"),
        (lambda ec2: ec2.delete_snapshot(SnapshotId=f"snap-{ABSENT}"), "InvalidSnapshot.NotFound"),
        (lambda ec2: ec2.describe_volumes(VolumeIds=[f"vol-{ABSENT}"]), "InvalidVolume.NotFound"),
        (
            lambda ec2: ec2.describe_launch_templates(LaunchTemplateIds=[f"lt-{ABSENT}"]),
            "InvalidLaunchTemplateId.NotFound",
        ),
        (
            lambda ec2: ec2.describe_launch_templates(LaunchTemplateNames=["nobody-made-it"]),
            "InvalidLaunchTemplateName.NotFoundException",
        ),
        (lambda ec2: ec2.start_instances(InstanceIds=[]), "MissingParameter"),
        (lambda ec2: ec2.stop_instances(InstanceIds=[]), "MissingParameter"),
        (lambda ec2: ec2.reboot_instances(InstanceIds=[]), "MissingParameter"),
        (lambda ec2: ec2.terminate_instances(InstanceIds=[]), "MissingParameter"),
    ],
)
def test_an_id_is_malformed_before_it_is_not_found_and_the_error_says_something(
    yard: Yard, call: Call, code: str
) -> None:
    found, message = said(yard, call)
    assert found == code
    assert len(str(message)) > 10
    assert not {"{", "}", "None"} & set(str(message).split())


@pytest.mark.parametrize(
    "operation",
    [
        "describe_addresses",
        "describe_availability_zones",
        "describe_fleets",
        "describe_images",
        "describe_instance_status",
        "describe_instances",
        "describe_key_pairs",
        "describe_launch_templates",
        "describe_network_interfaces",
        "describe_regions",
        "describe_route_tables",
        "describe_security_groups",
        "describe_snapshots",
        "describe_spot_instance_requests",
        "describe_subnets",
        "describe_tags",
        "describe_volumes",
        "describe_vpc_endpoints",
        "describe_vpcs",
    ],
)
def test_a_filter_that_is_not_documented_is_invalid(yard: Yard, operation: str) -> None:
    filters = [{"Name": "bogus", "Values": ["x"]}]
    found = said(yard, lambda ec2: getattr(ec2, operation)(Filters=filters))
    assert found == ("InvalidParameterValue", "The filter 'bogus' is invalid")


@pytest.mark.parametrize(
    ("operation", "name", "listed"),
    [
        ("describe_subnets", "cidr", "Subnets"),
        ("describe_subnets", "cidrBlock", "Subnets"),
        ("describe_transit_gateways", "tag:k", "TransitGateways"),
        ("describe_vpcs", "cidr-block", "Vpcs"),
    ],
)
def test_a_filter_has_every_name_that_is_documented_or_that_everybody_uses(
    yard: Yard, operation: str, name: str, listed: str
) -> None:
    answer = getattr(yard.ec2, operation)(Filters=[{"Name": name, "Values": ["10.99.0.0/24"]}])
    assert answer[listed] == []


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("aws:mine", "v", "reserved for internal use"),
        ("AWS:mine", "v", "reserved for internal use"),
        ("k" * 129, "v", "maximum length of 128"),
        ("k", "v" * 257, "maximum length of 256"),
    ],
)
def test_a_tag_that_aws_would_not_take_is_taken_nowhere(
    yard: Yard, key: str, value: str, message: str
) -> None:
    wrong = [{"Key": key, "Value": value}]
    subnet = next(iter(yard.subnets.values()))
    instance = [{"ResourceType": "instance", "Tags": wrong}]
    template = [{"ResourceType": "launch-template", "Tags": wrong}]
    calls: list[Call] = [
        lambda ec2: ec2.create_tags(Resources=[subnet], Tags=wrong),
        lambda ec2: ec2.run_instances(
            ImageId=yard.base, InstanceType="t3.nano", MinCount=1, MaxCount=1, TagSpecifications=instance
        ),
        lambda ec2: ec2.create_launch_template(
            LaunchTemplateName="never", LaunchTemplateData={"EbsOptimized": True}, TagSpecifications=template
        ),
        lambda ec2: ec2.create_launch_template(
            LaunchTemplateName="never", LaunchTemplateData={"TagSpecifications": instance}
        ),
    ]
    for call in calls:
        code, found = said(yard, call)
        assert code == "InvalidParameterValue"
        assert message in found


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        (f"i-{ABSENT}", "InvalidInstanceID.NotFound"),
        (f"vol-{ABSENT}", "InvalidVolume.NotFound"),
        (f"snap-{ABSENT}", "InvalidSnapshot.NotFound"),
        (f"sg-{ABSENT}", "InvalidGroup.NotFound"),
        (f"lt-{ABSENT}", "InvalidLaunchTemplateId.NotFound"),
        (f"ami-{ABSENT}", "InvalidAMIID.NotFound"),
    ],
)
def test_what_is_not_there_cannot_be_tagged(yard: Yard, resource: str, code: str) -> None:
    wanted = tags("x", k="v")[0]["Tags"]
    assert said(yard, lambda ec2: ec2.create_tags(Resources=[resource], Tags=wanted))[0] == code


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"NetworkInterfaces": [{"DeviceIndex": 0}]}, "InvalidParameterCombination"),
        ({"PrivateIpAddress": "10.99.1.1"}, "InvalidParameterValue"),
        ({"PrivateIpAddress": "nonsense"}, "InvalidParameterValue"),
    ],
    ids=["a subnet for the instance and for its card", "not in the subnet", "no address"],
)
def test_a_network_that_cannot_be_is_refused(yard: Yard, change: dict[str, Any], code: str) -> None:
    wanted = {"ImageId": yard.base, "InstanceType": "t3.nano", "MinCount": 1, "MaxCount": 1}
    subnet = next(iter(yard.subnets.values()))
    assert said(yard, lambda ec2: ec2.run_instances(**wanted, SubnetId=subnet, **change))[0] == code


def test_an_address_that_no_default_subnet_has_is_refused(yard: Yard) -> None:
    wanted = {"ImageId": yard.base, "InstanceType": "t3.nano", "MinCount": 1, "MaxCount": 1}
    found = said(yard, lambda ec2: ec2.run_instances(**wanted, PrivateIpAddress="10.99.1.1"))
    assert found == (
        "InvalidParameterValue",
        "Address 10.99.1.1 does not fall within the subnet's address range",
    )


def test_a_spot_fleet_is_refused_in_words(yard: Yard) -> None:
    config = {
        "IamFleetRole": yard.role_arn,
        "TargetCapacity": 1,
        "LaunchSpecifications": [{"ImageId": yard.base}],
    }
    code, message = said(yard, lambda ec2: ec2.request_spot_fleet(SpotFleetRequestConfig=config))
    assert code == "UnsupportedOperation"
    assert "CreateFleet" in message


def test_an_endpoint_that_is_gone_is_told_of_beside_those_that_went(yard: Yard) -> None:
    vpc = yard.ec2.create_vpc(CidrBlock="10.31.0.0/16")["Vpc"]["VpcId"]
    table = yard.ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    made = yard.ec2.create_vpc_endpoint(
        VpcId=vpc, ServiceName="com.amazonaws.us-east-1.s3", RouteTableIds=[table]
    )
    endpoint = made["VpcEndpoint"]["VpcEndpointId"]
    assert yard.ec2.delete_vpc_endpoints(VpcEndpointIds=[endpoint]).get("Unsuccessful", []) == []
    (told,) = yard.ec2.delete_vpc_endpoints(VpcEndpointIds=[endpoint])["Unsuccessful"]
    assert (told["ResourceId"], told["Error"]["Code"]) == (endpoint, "InvalidVpcEndpoint.NotFound")


def test_a_volume_says_that_no_snapshot_made_it(yard: Yard) -> None:
    made = yard.ec2.create_volume(Size=1, AvailabilityZone="us-east-1a")
    (found,) = yard.ec2.describe_volumes(VolumeIds=[made["VolumeId"]])["Volumes"]
    assert (made["SnapshotId"], found["SnapshotId"]) == ("", "")


@pytest.mark.parametrize("said", [{}, {"Domain": "standard"}, {"Domain": "vpc"}])
def test_every_address_has_an_allocation_id_and_its_tags_are_found(yard: Yard, said: dict[str, str]) -> None:
    """Test empty tags. They would break every later search for tags."""
    tags = [{"ResourceType": "elastic-ip", "Tags": [{"Key": "Name", "Value": "address"}]}]
    address = yard.ec2.allocate_address(**said, TagSpecifications=tags)
    mine = [{"Name": "resource-id", "Values": [address["AllocationId"]]}]
    (tag,) = yard.ec2.describe_tags(Filters=mine)["Tags"]
    assert (address["Domain"], tag["Value"]) == ("vpc", "address")


def test_filters_that_ec2_takes_though_no_page_names_them_are_taken(yard: Yard) -> None:
    """Test the undocumented filters of Ansible's modules and Terraform's data sources."""
    address = yard.ec2.allocate_address(Domain="vpc")["AllocationId"]
    found = yard.ec2.describe_addresses(Filters=[{"Name": "domain", "Values": ["vpc"]}])["Addresses"]
    assert address in [each["AllocationId"] for each in found]
