"""RunInstances and CreateFleet behave as on AWS."""

import base64
from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.ec2.conftest import Yard, error_code, members, tags, unique

# ------------------------------------------------------------------------------------------ properties of a launch


def test_a_fleet_member_is_what_the_template_says(yard: Yard) -> None:
    template = yard.template(UserData=base64.b64encode(b"hello").decode())
    first = members(yard.fleet(template, ["g6.xlarge/a"], 1))[0]
    host = yard.instance(first)
    assert host["ImageId"] == yard.base
    assert host["InstanceType"] == "g6.xlarge"
    assert host["IamInstanceProfile"]["Arn"].endswith(f"instance-profile/{yard.profile}")
    assert host["MetadataOptions"]["HttpTokens"] == "required"
    assert host["MetadataOptions"]["InstanceMetadataTags"] == "enabled"
    assert host["InstanceLifecycle"] == "spot"
    told = yard.ec2.describe_instance_attribute(
        InstanceId=first, Attribute="instanceInitiatedShutdownBehavior"
    )
    assert told["InstanceInitiatedShutdownBehavior"]["Value"] == "terminate"
    user_data = yard.ec2.describe_instance_attribute(InstanceId=first, Attribute="userData")["UserData"][
        "Value"
    ]
    assert base64.b64decode(user_data) == b"hello"
    volume = yard.ec2.describe_volumes(Filters=[{"Name": "attachment.instance-id", "Values": [first]}])[
        "Volumes"
    ]
    assert [(v["Size"], v["Encrypted"]) for v in volume] == [(100, True)]


def test_a_run_from_a_template_is_the_same(yard: Yard) -> None:
    host = yard.instance(yard.run(LaunchTemplate={"LaunchTemplateId": yard.template()})[0])
    assert host["ImageId"] == yard.base
    assert host["MetadataOptions"]["HttpTokens"] == "required"
    assert host["IamInstanceProfile"]["Arn"].endswith(f"instance-profile/{yard.profile}")
    assert [d["DeviceName"] for d in host["BlockDeviceMappings"]] == ["/dev/sda1"]
    assert "InstanceLifecycle" not in host


def test_tags_of_the_request_are_added_to_those_of_the_template(yard: Yard) -> None:
    kinds = ("instance", "volume", "network-interface", "spot-instances-request", "fleet")
    fleet = yard.fleet(yard.template(), ["g6.xlarge/a"], 1, TagSpecifications=tags(*kinds, run="r1"))
    host = yard.instance(members(fleet)[0])
    assert {"run": "r1", "yard": "of-the-template"}.items() <= as_dict(host["Tags"]).items()
    with_key = yard.template(TagSpecifications=tags("instance", yard="of-the-template"))
    both = yard.fleet(with_key, ["g6.xlarge/a"], 1, TagSpecifications=tags("instance", yard="of-the-request"))
    assert as_dict(yard.instance(members(both)[0])["Tags"])["yard"] == "of-the-request"
    assert as_dict(host["Tags"])["aws:ec2:fleet-id"] == fleet["FleetId"]
    made = [
        host["NetworkInterfaces"][0]["NetworkInterfaceId"],
        host["BlockDeviceMappings"][0]["Ebs"]["VolumeId"],
        host["SpotInstanceRequestId"],
        fleet["FleetId"],
    ]
    found = yard.ec2.describe_tags(
        Filters=[{"Name": "key", "Values": ["run"]}, {"Name": "value", "Values": ["r1"]}]
    )
    kinds_found = {tag["ResourceId"]: tag["ResourceType"] for tag in found["Tags"]}
    assert set(made) <= set(kinds_found)
    assert kinds_found[host["SpotInstanceRequestId"]] == "spot-instances-request"


def test_user_data_of_the_fleet_replaces_that_of_the_template(yard: Yard) -> None:
    template = yard.template(UserData=base64.b64encode(b"template").decode())
    given = base64.b64encode(b"fleet").decode()
    specification = {
        "LaunchTemplateId": template,
        "Version": "1",
        "LaunchTemplateSpecificationUserData": given,
    }
    configs = [{"LaunchTemplateSpecification": specification, "Overrides": [{"InstanceType": "g6.xlarge"}]}]
    first = members(yard.fleet(template, [], 1, LaunchTemplateConfigs=configs))[0]
    told = yard.ec2.describe_instance_attribute(InstanceId=first, Attribute="userData")["UserData"]["Value"]
    assert told == given


def test_the_image_parameter_is_read_at_launch_and_not_before(yard: Yard) -> None:
    name = f"/{unique()}/image"
    yard.ssm.put_parameter(Name=name, Value="none", Type="String")
    template = yard.template(ImageId=f"resolve:ssm:{name}")
    refused = yard.fleet(template, ["g6.xlarge/a"], 1)
    assert members(refused) == []
    assert refused["Errors"][0]["ErrorCode"] == "InvalidParameterValue"
    yard.ssm.put_parameter(Name=name, Value=yard.base, Type="String", Overwrite=True)
    assert len(members(yard.fleet(template, ["g6.xlarge/a"], 1))) == 1


def test_max_count_is_launched_and_not_min_count(yard: Yard) -> None:
    answer = yard.ec2.run_instances(ImageId=yard.base, InstanceType="t3.micro", MinCount=1, MaxCount=3)
    yard.started += [one["InstanceId"] for one in answer["Instances"]]
    assert [one["State"]["Name"] for one in answer["Instances"]] == ["pending"] * 3


def test_between_min_and_max_the_room_pure_function(yard: Yard) -> None:
    yard.refuse("m5.large/us-east-1a/on-demand", slots=2)
    request: dict[str, Any] = {
        "ImageId": yard.base,
        "InstanceType": "m5.large",
        "SubnetId": yard.subnets["us-east-1a"],
    }
    answer = yard.ec2.run_instances(MinCount=1, MaxCount=4, **request)
    yard.started += [one["InstanceId"] for one in answer["Instances"]]
    assert len(answer["Instances"]) == 2
    assert (
        error_code(yard.ec2.run_instances, MinCount=1, MaxCount=1, **request)
        == "InsufficientInstanceCapacity"
    )


def test_a_dry_run_launches_nothing(yard: Yard) -> None:
    before = len(yard.ec2.describe_instances()["Reservations"])
    request: dict[str, Any] = {"ImageId": yard.base, "InstanceType": "t3.micro", "MinCount": 1, "MaxCount": 1}
    assert error_code(yard.ec2.run_instances, DryRun=True, **request) == "DryRunOperation"
    assert len(yard.ec2.describe_instances()["Reservations"]) == before


# ------------------------------------------------------------------------------------------ client tokens


def test_the_same_client_token_never_launches_twice(yard: Yard) -> None:
    template, token = yard.template(), unique()
    first = yard.fleet(template, ["g6.xlarge/a"], 2, ClientToken=token)
    again = yard.fleet(template, ["g6.xlarge/a"], 2, ClientToken=token)
    assert (again["FleetId"], members(again)) == (first["FleetId"], members(first))
    run = yard.run(ClientToken=token)
    assert yard.run(ClientToken=token) == run


def test_a_client_token_belongs_to_its_parameters(yard: Yard) -> None:
    token = unique()
    yard.run(ClientToken=token)
    with pytest.raises(yard.ec2.exceptions.ClientError, match="IdempotentParameterMismatch"):
        yard.run(ClientToken=token, InstanceType="t3.small")


# ------------------------------------------------------------------------------------------ gangs


def test_a_gang_is_launched_whole_in_the_first_zone_that_has_room(yard: Yard) -> None:
    yard.refuse("g5.xlarge/us-east-1a/spot", slots=0)
    yard.refuse("g5.xlarge/us-east-1b/spot", slots=1)
    fleet = yard.fleet(yard.template(), ["g5.xlarge/a", "g5.xlarge/b", "g5.xlarge/c"], 2)
    assert [(row["AvailabilityZone"], len(row["InstanceIds"])) for row in fleet["Instances"]] == [
        ("us-east-1c", 2)
    ]
    assert [e["ErrorCode"] for e in fleet["Errors"]] == ["InsufficientInstanceCapacity"] * 2
    refused = [e["LaunchTemplateAndOverrides"]["Overrides"]["SubnetId"] for e in fleet["Errors"]]
    assert refused == [yard.subnets["us-east-1a"], yard.subnets["us-east-1b"]]


CPU = ["c7i.large/a", "m7i.large/a", "r7i.large/a"]


def test_a_gang_of_several_types_in_one_subnet_is_of_the_one_that_has_room_for_all(yard: Yard) -> None:
    yard.refuse("c7i.large/us-east-1a/spot", slots=0)
    yard.refuse("m7i.large/us-east-1a/spot", slots=1)
    fleet = yard.fleet(yard.template(), CPU, 2)
    assert [(row["InstanceType"], len(row["InstanceIds"])) for row in fleet["Instances"]] == [
        ("r7i.large", 2)
    ]
    assert {yard.instance(host)["InstanceType"] for host in members(fleet)} == {"r7i.large"}
    errors = {
        error["LaunchTemplateAndOverrides"]["Overrides"]["InstanceType"]: error["ErrorCode"]
        for error in fleet["Errors"]
    }
    assert errors == dict.fromkeys(("c7i.large", "m7i.large"), "InsufficientInstanceCapacity")


def test_a_gang_is_never_made_up_of_the_room_of_several_types(yard: Yard) -> None:
    for pool in CPU:
        yard.refuse(f"{pool.split('/')[0]}/us-east-1a/spot", slots=1)
    fleet = yard.fleet(yard.template(), CPU, 2)
    assert members(fleet) == []
    assert len(fleet["Errors"]) == 3


def test_the_cheapest_type_wins_on_demand_and_on_spot_the_one_with_most_room(yard: Yard) -> None:
    template = yard.template()
    on_demand = {
        "AllocationStrategy": "lowest-price",
        "SingleInstanceType": True,
        "SingleAvailabilityZone": True,
        "MinTargetCapacity": 2,
    }
    dear_first = list(reversed(CPU))
    fleet = yard.fleet(template, dear_first, 2, market="on-demand", OnDemandOptions=on_demand)
    assert [row["InstanceType"] for row in fleet["Instances"]] == ["c7i.large"]
    yard.refuse("c7i.large/us-east-1a/spot", slots=2)
    yard.refuse("m7i.large/us-east-1a/spot", slots=9)
    yard.refuse("r7i.large/us-east-1a/spot", slots=5)
    spot = on_demand | {"AllocationStrategy": "capacity-optimized"}
    fleet = yard.fleet(template, CPU, 2, SpotOptions=spot)
    assert [row["InstanceType"] for row in fleet["Instances"]] == ["m7i.large"]


def test_of_several_zones_spot_takes_the_one_with_the_most_room_for_the_whole_gang(yard: Yard) -> None:
    rules = {"SingleInstanceType": True, "SingleAvailabilityZone": True, "MinTargetCapacity": 2}
    for zone, slots in (("a", 3), ("b", 9), ("c", 1)):
        yard.refuse(f"g5.xlarge/us-east-1{zone}/spot", slots=slots)
    pools = ["g5.xlarge/a", "g5.xlarge/b", "g5.xlarge/c"]
    spot = rules | {"AllocationStrategy": "capacity-optimized"}
    (group,) = yard.fleet(yard.template(), pools, 2, SpotOptions=spot)["Instances"]
    assert (group["AvailabilityZone"], group["SubnetId"]) == ("us-east-1b", yard.subnets["us-east-1b"])
    assert {yard.instance(host)["SubnetId"] for host in group["InstanceIds"]} == {group["SubnetId"]}
    override = group["LaunchTemplateAndOverrides"]["Overrides"]
    assert (override["InstanceType"], override["SubnetId"]) == ("g5.xlarge", group["SubnetId"])


def test_where_no_zone_holds_the_gang_each_is_named_with_its_error(yard: Yard) -> None:
    rules = {"SingleInstanceType": True, "SingleAvailabilityZone": True, "MinTargetCapacity": 2}
    yard.refuse("g5.xlarge/*/spot", slots=1)
    spot = rules | {"AllocationStrategy": "capacity-optimized"}
    fleet = yard.fleet(yard.template(), ["g5.xlarge/a", "g5.xlarge/b"], 2, SpotOptions=spot)
    named = [error["LaunchTemplateAndOverrides"]["Overrides"]["SubnetId"] for error in fleet["Errors"]]
    assert members(fleet) == []
    assert sorted(named) == sorted(yard.subnets[f"us-east-1{zone}"] for zone in "ab")


def test_a_fleet_cannot_use_two_subnets_of_one_zone(yard: Yard) -> None:
    (vpc,) = yard.ec2.describe_vpcs(Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"]
    made = yard.ec2.create_subnet(
        VpcId=vpc["VpcId"], AvailabilityZone="us-east-1a", CidrBlock="172.31.240.0/24"
    )["Subnet"]["SubnetId"]
    overrides = [
        {"InstanceType": "g6.xlarge", "SubnetId": subnet} for subnet in (yard.subnets["us-east-1a"], made)
    ]
    template = {"LaunchTemplateId": yard.template(), "Version": "$Latest"}
    configs = [{"LaunchTemplateSpecification": template, "Overrides": overrides}]
    try:
        with pytest.raises(yard.ec2.exceptions.ClientError, match="two subnets of one"):
            yard.fleet("", [], 1, LaunchTemplateConfigs=configs)
    finally:
        yard.ec2.delete_subnet(SubnetId=made)


def test_each_type_counts_against_the_quota_of_its_family(yard: Yard) -> None:
    template = yard.template()
    nine = yard.fleet(template, ["c7i.8xlarge/a"], 9)
    assert [error["ErrorCode"] for error in nine["Errors"]] == ["MaxSpotInstanceCountExceeded"]
    assert "L-34B43A08" in nine["Errors"][0]["ErrorMessage"]
    smaller = yard.fleet(template, ["c7i.8xlarge/a", "c7i.large/a"], 9)
    assert [row["InstanceType"] for row in smaller["Instances"]] == ["c7i.large"]


def test_no_room_is_no_exception_but_errors_and_no_instances(yard: Yard) -> None:
    yard.refuse("g5.xlarge/*/*")
    fleet = yard.fleet(yard.template(), ["g5.xlarge/a"], 2)
    assert fleet["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert fleet["Instances"] == []
    assert fleet["Errors"][0]["ErrorCode"] == "InsufficientInstanceCapacity"
    assert fleet["Errors"][0]["Lifecycle"] == "spot"


def test_room_is_taken_by_pending_and_running_hosts_only(yard: Yard) -> None:
    yard.refuse("g5.xlarge/us-east-1a/spot", slots=2)
    template = yard.template()
    first = members(yard.fleet(template, ["g5.xlarge/a"], 2))
    assert members(yard.fleet(template, ["g5.xlarge/a"], 1)) == []
    yard.ec2.terminate_instances(InstanceIds=first)
    assert len(members(yard.fleet(template, ["g5.xlarge/a"], 2))) == 2


def test_spot_and_on_demand_come_as_asked(yard: Yard) -> None:
    template = yard.template()
    capacity = {
        "TotalTargetCapacity": 3,
        "OnDemandTargetCapacity": 1,
        "SpotTargetCapacity": 2,
        "DefaultTargetCapacityType": "spot",
    }
    fleet = yard.fleet(
        template,
        ["g6.xlarge/a"],
        1,
        TargetCapacitySpecification=capacity,
        SpotOptions={"MinTargetCapacity": 0},
    )
    assert sorted((row["Lifecycle"], len(row["InstanceIds"])) for row in fleet["Instances"]) == [
        ("on-demand", 1),
        ("spot", 2),
    ]


def test_the_quota_is_its_own_reason_for_each_market(yard: Yard) -> None:
    template = yard.template(InstanceType="p5.48xlarge")
    spot = yard.fleet(template, ["p5.48xlarge/a"], 1)
    assert [e["ErrorCode"] for e in spot["Errors"]] == ["MaxSpotInstanceCountExceeded"]
    on_demand = yard.fleet(template, ["p5.48xlarge/a"], 3, market="on-demand")
    assert [e["ErrorCode"] for e in on_demand["Errors"]] == ["VcpuLimitExceeded"]


def test_a_price_limit_below_the_market_refuses(yard: Yard) -> None:
    template = yard.template()
    override = {"InstanceType": "g6.xlarge", "MaxPrice": "0.01"}
    configs = [
        {
            "LaunchTemplateSpecification": {"LaunchTemplateId": template, "Version": "1"},
            "Overrides": [override],
        }
    ]
    fleet = yard.fleet(template, [], 1, LaunchTemplateConfigs=configs)
    assert [e["ErrorCode"] for e in fleet["Errors"]] == ["SpotMaxPriceTooLow"]


def test_a_minimum_needs_one_type_or_one_zone(yard: Yard) -> None:
    with pytest.raises(yard.ec2.exceptions.ClientError, match="InvalidParameterCombination"):
        yard.fleet(yard.template(), ["g6.xlarge/a"], 2, SpotOptions={"MinTargetCapacity": 2})


def test_deleting_an_instant_fleet_terminates_its_hosts(yard: Yard) -> None:
    fleet = yard.fleet(yard.template(), ["g6.xlarge/a"], 2)
    answer = yard.ec2.delete_fleets(FleetIds=[fleet["FleetId"], "fleet-none"], TerminateInstances=True)
    assert [row["FleetId"] for row in answer["SuccessfulFleetDeletions"]] == [fleet["FleetId"]]
    assert [row["FleetId"] for row in answer["UnsuccessfulFleetDeletions"]] == ["fleet-none"]
    for host in members(fleet):
        yard.becomes(host, "terminated")


def test_an_instance_shows_the_groups_of_its_network_card(yard: Yard) -> None:
    vpc = yard.ec2.describe_subnets(SubnetIds=[yard.subnets["us-east-1a"]])["Subnets"][0]["VpcId"]
    group = yard.ec2.create_security_group(GroupName=unique(), Description="none", VpcId=vpc)["GroupId"]
    card = {"DeviceIndex": 0, "Groups": [group]}
    with_card = yard.run(NetworkInterfaces=[card])[0]
    usual = yard.run()[0]
    assert [one["GroupId"] for one in yard.instance(with_card)["SecurityGroups"]] == [group]
    assert [one["GroupName"] for one in yard.instance(usual)["SecurityGroups"]] == ["default"]
    wanted = [{"Name": "instance.group-id", "Values": [group]}]
    found = yard.ec2.describe_instances(Filters=wanted)["Reservations"]
    assert [one["InstanceId"] for one in found[0]["Instances"]] == [with_card]


def test_no_two_hosts_have_the_same_address_also_in_networks_that_look_alike(
    yard: Yard, network: Callable[[str], str]
) -> None:
    subnets = []
    for _ in range(2):
        vpc = network("10.9.0.0/24")
        subnets.append(yard.ec2.create_subnet(VpcId=vpc, CidrBlock="10.9.0.0/28")["Subnet"]["SubnetId"])
    hosts = [yard.run(2, SubnetId=subnet) for subnet in subnets]
    addresses = [yard.instance(host)["PrivateIpAddress"] for pair in hosts for host in pair]
    assert addresses == ["10.9.0.4", "10.9.0.5", "10.9.0.6", "10.9.0.7"]


def test_an_instant_fleet_is_described_only_by_its_id(yard: Yard) -> None:
    fleet = yard.fleet(yard.template(), ["g6.xlarge/a"], 1, TagSpecifications=tags("fleet", run="r2"))
    assert yard.ec2.describe_fleets()["Fleets"] == []
    described = yard.ec2.describe_fleets(FleetIds=[fleet["FleetId"]])["Fleets"][0]
    assert described["Type"] == "instant"
    assert [i["InstanceIds"] for i in described["Instances"]] == [
        i["InstanceIds"] for i in fleet["Instances"]
    ]
    assert as_dict(described["Tags"]) == {"run": "r2"}


def test_an_instance_type_that_the_zone_lacks_is_unsupported(yard: Yard) -> None:
    offered = yard.ec2.describe_instance_type_offerings(
        LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": ["g7e.2xlarge"]}]
    )["InstanceTypeOfferings"]
    assert "us-east-1b" not in {row["Location"] for row in offered}
    fleet = yard.fleet(yard.template(), ["g7e.2xlarge/b"], 1)
    assert [e["ErrorCode"] for e in fleet["Errors"]] == ["Unsupported"]


# ------------------------------------------------------------------------------------------ bad requests


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"ImageId": "ami-0123456789abcdef0"}, "InvalidAMIID.NotFound"),
        ({"ImageId": "image"}, "InvalidAMIID.Malformed"),
        ({"InstanceType": "g5.tiny"}, "InvalidParameterValue"),
        ({"SubnetId": "subnet-0123456789abcdef0"}, "InvalidSubnetID.NotFound"),
        ({"IamInstanceProfile": {"Name": "nobody"}}, "InvalidParameterValue"),
        ({"UserData": "x" * 20_000}, "InvalidParameterValue"),
        ({"MaxCount": 1, "MinCount": 2}, "InvalidParameterValue"),
        (
            {"LaunchTemplate": {"LaunchTemplateId": "lt-0123456789abcdef0"}},
            "InvalidLaunchTemplateId.NotFound",
        ),
        ({"LaunchTemplate": {"LaunchTemplateName": "no"}}, "InvalidLaunchTemplateName.NotFoundException"),
        (
            {
                "MetadataOptions": {"InstanceMetadataTags": "enabled"},
                "TagSpecifications": tags("instance", **{"a/b": "c"}),
            },
            "InvalidParameterValue",
        ),
        (
            {
                "InstanceMarketOptions": {
                    "MarketType": "spot",
                    "SpotOptions": {"SpotInstanceType": "persistent"},
                }
            },
            "InvalidParameterCombination",
        ),
    ],
)
def test_a_wrong_launch_has_its_own_error(yard: Yard, change: dict[str, Any], code: str) -> None:
    request = {"ImageId": yard.base, "InstanceType": "t3.micro", "MinCount": 1, "MaxCount": 1, **change}
    assert error_code(yard.ec2.run_instances, **request) == code


def test_a_fleet_that_would_keep_itself_alive_is_refused(yard: Yard) -> None:
    with pytest.raises(yard.ec2.exceptions.ClientError, match="UnsupportedOperation"):
        yard.fleet(yard.template(), ["g6.xlarge/a"], 1, Type="maintain")


@pytest.mark.parametrize(
    "option",
    [
        {"MaxTotalPrice": "1"},
        {"CapacityReservationOptions": {"UsageStrategy": "use-capacity-reservations-first"}},
    ],
)
def test_options_of_a_fleet_that_the_local_cloud_would_ignore_are_refused(
    yard: Yard, option: dict[str, Any]
) -> None:
    kind = "OnDemandOptions" if "CapacityReservationOptions" in option else "SpotOptions"
    with pytest.raises(yard.ec2.exceptions.ClientError, match="does not support"):
        yard.ec2.create_fleet(
            Type="instant",
            TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "spot"},
            LaunchTemplateConfigs=[
                {"LaunchTemplateSpecification": {"LaunchTemplateId": yard.template(), "Version": "$Default"}}
            ],
            **{kind: option},
        )


def as_dict(given: list[dict[str, str]]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in given}
