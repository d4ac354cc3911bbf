"""The simulated EC2 through its API."""

from datetime import timedelta
from typing import Any

import pytest

from simulation.aws.ec2 import ServiceQuotas, Settings
from simulation.aws.endpoint.api import ServiceError
from tests.unit.simulation.ec2_yard import ME, ROLE, Yard, request


@pytest.fixture
def yard() -> Yard:
    return Yard()


def refusal(yard: Yard, operation: str, **given: Any) -> str:
    with pytest.raises(ServiceError) as refused:
        yard.ask(operation, **given)
    return refused.value.code


# ------------------------------------------------------------------------- fleets


def test_a_fleet_launches_a_gang_of_one_type_in_one_zone(yard: Yard) -> None:
    answer = yard.fleet(2, types=("g5.xlarge", "g6.xlarge"))
    (group,) = answer["Instances"]
    assert (len(group["InstanceIds"]), group["AvailabilityZone"], answer["Errors"]) == (2, "us-east-1a", [])
    assert group["InstanceType"] == "g6.xlarge", "the cheaper of two pools with room"


def test_a_repeated_token_never_launches_twice(yard: Yard) -> None:
    assert yard.fleet(2, token="t") == yard.fleet(2, token="t")
    assert len(yard.seen()) == 2
    assert (
        refusal(yard, "create_fleet", **request(3, ("g5.xlarge",), token="t"))
        == "IdempotentParameterMismatch"
    )


def test_a_pool_that_cannot_hold_the_gang_gives_nothing_and_says_why(yard: Yard) -> None:
    yard.ec2.pools.leave(1, "g5.xlarge")
    answer = yard.fleet(2)
    assert answer["Instances"] == []
    assert [error["ErrorCode"] for error in answer["Errors"]] == ["InsufficientInstanceCapacity"]
    assert answer["Errors"][0]["LaunchTemplateAndOverrides"]["Overrides"]["InstanceType"] == "g5.xlarge"


def test_the_next_type_is_taken_where_the_first_has_no_room(yard: Yard) -> None:
    yard.ec2.pools.leave(0, "g6.xlarge", market="spot")
    answer = yard.fleet(2, types=("g6.xlarge", "g5.xlarge"))
    assert answer["Instances"][0]["InstanceType"] == "g5.xlarge"


def several(strategy: str = "capacity-optimized", *, subnets: str = "abc") -> dict[str, Any]:
    """Return a request for two hosts of one type in several subnets."""
    asked = request(2, ("g5.xlarge",), market="spot" if strategy == "capacity-optimized" else "on-demand")
    (config,) = asked["LaunchTemplateConfigs"]
    (first,) = config["Overrides"]
    config["Overrides"] = [first | {"SubnetId": f"subnet-{each}"} for each in subnets]
    return asked


def test_spot_takes_the_subnet_with_the_most_capacity(yard: Yard) -> None:
    for zone, room in (("a", 2), ("b", 9), ("c", 5)):
        yard.ec2.pools.hold(room, "g5.xlarge", f"us-east-1{zone}", "spot")
    (group,) = yard.ask("create_fleet", **several())["Instances"]
    assert (group["AvailabilityZone"], group["SubnetId"], len(group["InstanceIds"])) == (
        "us-east-1b",
        "subnet-b",
        2,
    )


def test_on_demand_continues_with_a_subnet_with_capacity(yard: Yard) -> None:
    for zone in "ab":
        yard.ec2.pools.hold(1, "g5.xlarge", f"us-east-1{zone}", "on-demand")
    answer = yard.ask("create_fleet", **several("lowest-price"))
    assert [group["SubnetId"] for group in answer["Instances"]] == ["subnet-c"]
    assert len(answer["Errors"]) == 2


def test_where_no_subnet_holds_the_gang_each_has_its_error(yard: Yard) -> None:
    yard.ec2.pools.hold(1, "g5.xlarge")
    answer = yard.ask("create_fleet", **several())
    named = [error["LaunchTemplateAndOverrides"]["Overrides"]["SubnetId"] for error in answer["Errors"]]
    assert (answer["Instances"], sorted(named)) == ([], ["subnet-a", "subnet-b", "subnet-c"])


def test_a_fleet_cannot_use_two_subnets_of_one_zone(yard: Yard) -> None:
    yard.ec2.add_subnet("subnet-z", "us-east-1a", cidr="10.73.240.0/20")
    assert refusal(yard, "create_fleet", **several(subnets="az")) == "InvalidParameterCombination"


def test_an_empty_pool_refuses_until_its_capacity_is_set_again(yard: Yard) -> None:
    yard.ec2.pools.leave(2, "g5.xlarge", "us-east-1a", "spot")
    assert len(yard.launch(2)) == 2
    assert yard.launch(1, run="r2") == []
    yard.ec2.pools.leave(None, "g5.xlarge", "us-east-1a", "spot")
    assert len(yard.launch(1, run="r3")) == 1


def test_a_pool_of_so_many_slots_has_room_again_when_hosts_have_ended(yard: Yard) -> None:
    yard.ec2.pools.hold(2, "g5.*")
    hosts = yard.launch(2)
    assert yard.launch(2, run="r2") == []
    yard.ask("terminate_instances", InstanceIds=hosts)
    assert yard.launch(2, run="r3") == [], "they occupy it until they are gone"
    yard.on(31)
    assert len(yard.launch(2, run="r4")) == 2


@pytest.mark.parametrize(
    ("market", "code", "error"),
    [
        ("spot", "L-3819A6DF", "MaxSpotInstanceCountExceeded"),
        ("on-demand", "L-DB2E81BA", "VcpuLimitExceeded"),
    ],
)
def test_a_quota_of_vcpus_counts_what_runs(yard: Yard, market: str, code: str, error: str) -> None:
    yard.ec2.pools.quotas[code] = 8
    assert len(yard.launch(1, market=market)) == 1
    answer = yard.fleet(2, market=market, run="r2")
    assert [each["ErrorCode"] for each in answer["Errors"]] == [error]
    assert len(yard.launch(1, market=market, run="r3")) == 1


def test_ec2_may_grant_fewer_than_the_least(yard: Yard) -> None:
    yard.ec2.short.append(1)
    assert len(yard.launch(2)) == 1
    assert len(yard.launch(2, run="r2")) == 2


def test_a_type_that_the_zone_does_not_have_is_an_error_of_that_override(yard: Yard) -> None:
    yard.ec2.catalogue.not_offered.add(("g5.xlarge", "us-east-1a"))
    answer = yard.fleet(1)
    assert [error["ErrorCode"] for error in answer["Errors"]] == ["Unsupported"]


def test_a_disk_cannot_be_smaller_than_its_image(yard: Yard) -> None:
    assert yard.fleet(1, gib=10)["Errors"][0]["ErrorCode"] == "InvalidBlockDeviceMapping"
    (host,) = yard.launch(1, gib=200)
    assert yard.ec2.instance(host).disk_gib == 200


def test_a_region_fetches_so_many_mib_a_second_for_all_disks_of_a_time(yard: Yard) -> None:
    (version,) = yard.ec2.templates["lt-1"].versions
    version["BlockDeviceMappings"][0]["Ebs"]["VolumeInitializationRate"] = 300
    for code in yard.ec2.pools.quotas:
        yard.ec2.pools.quotas[code] = 1_000
    answer = yard.fleet(17)
    assert [each["ErrorCode"] for each in answer["Errors"]] == ["VolumeInitializationRateLimitExceeded"]
    assert len(yard.launch(16, run="r2")) == 16
    assert yard.launch(1, run="r3") == []
    yard.on(300)
    assert len(yard.launch(1, run="r4")) == 1


def test_unsupported_requests_are_refused_with_an_error(yard: Yard) -> None:
    assert (
        refusal(yard, "create_fleet", **request(1, ("g5.xlarge",)) | {"Type": "maintain"}) == "NotSimulated"
    )
    assert (
        refusal(yard, "describe_instances", Filters=[{"Name": "vpc-id", "Values": ["x"]}]) == "NotSimulated"
    )


# ------------------------------------------------------------------------- instances


def test_an_instance_goes_from_pending_to_running_and_then_its_machine_boots(yard: Yard) -> None:
    (host,) = yard.launch(1)
    assert (yard.seen(), yard.hosts.calls) == ({host: "pending"}, [])
    yard.on(10)
    assert (yard.seen(), yard.hosts.calls) == ({host: "running"}, [("boot", host)])
    states = [event[2] for event in yard.events if event[0] == "EC2 Instance State-change Notification"]
    assert states == ["pending", "running"]


def test_a_new_instance_is_unknown_or_without_tags_for_some_seconds() -> None:
    yard = Yard(settings=Settings())
    hosts = yard.launch(20)
    by_tag = [{"Name": "tag:run", "Values": ["r1"]}]
    by_id = [{"Name": "instance-id", "Values": hosts}]
    assert len(yard.seen(Filters=by_tag)) < len(yard.seen(Filters=by_id)) < 20
    assert refusal(yard, "terminate_instances", InstanceIds=hosts) == "InvalidInstanceID.NotFound"
    yard.on(3)
    assert len(yard.seen(Filters=by_tag)) == len(yard.seen(Filters=by_id)) == 20


def test_one_id_that_is_unknown_refuses_the_whole_call(yard: Yard) -> None:
    (host,) = yard.launch(1)
    yard.on(10)
    assert refusal(yard, "terminate_instances", InstanceIds=[host, "i-0"]) == "InvalidInstanceID.NotFound"
    assert refusal(yard, "describe_instances", InstanceIds=[host, "i-0"]) == "InvalidInstanceID.NotFound"
    assert yard.seen(Filters=[{"Name": "instance-id", "Values": [host, "i-0"]}]) == {host: "running"}


def test_a_terminated_instance_is_shown_for_an_hour_and_says_why_it_ended(yard: Yard) -> None:
    (host,) = yard.launch(1)
    yard.on(10)
    yard.ask("terminate_instances", InstanceIds=[host])
    yard.ask("terminate_instances", InstanceIds=[host])
    assert (yard.seen(), yard.hosts.calls[-1]) == ({host: "shutting-down"}, ("terminate", host))
    yard.on(30)
    shown = yard.described(host)
    assert shown["State"]["Name"] == "terminated"
    assert "PrivateIpAddress" not in shown
    assert shown["StateReason"]["Message"] == "Client.UserInitiatedShutdown: User initiated shutdown"
    assert shown["StateTransitionReason"] == "User initiated (2026-01-05 08:00:10 GMT)"
    yard.on(3600)
    assert yard.seen() == {}
    assert refusal(yard, "describe_instances", InstanceIds=[host]) == "InvalidInstanceID.NotFound"


def test_an_on_demand_host_stops_and_starts_again_on_its_address(yard: Yard) -> None:
    (host,) = yard.launch(1, market="on-demand")
    yard.on(10)
    before = yard.described(host)
    yard.ask("stop_instances", InstanceIds=[host])
    assert yard.ec2.instance(host).off_at == yard.world.now + timedelta(seconds=20)
    yard.on(20)
    assert yard.seen() == {host: "stopped"}
    yard.ask("start_instances", InstanceIds=[host])
    yard.on(10)
    after = yard.described(host)
    assert (after["State"]["Name"], after["PrivateIpAddress"]) == ("running", before["PrivateIpAddress"])
    assert after["LaunchTime"] > before["LaunchTime"]
    assert [call for call, _ in yard.hosts.calls] == ["boot", "stop", "boot"]


def test_a_spot_host_cannot_be_stopped_and_keeps_the_others_running(yard: Yard) -> None:
    (spot,), (other,) = yard.launch(1), yard.launch(1, market="on-demand")
    yard.on(10)
    assert refusal(yard, "stop_instances", InstanceIds=[other, spot]) == "UnsupportedOperation"
    assert set(yard.seen().values()) == {"running"}


def test_a_host_that_shuts_itself_down_ends_or_stops_as_its_attribute_says(yard: Yard) -> None:
    first, second = yard.launch(2, market="on-demand")
    yard.on(10)
    yard.ask(
        "modify_instance_attribute", InstanceId=second, InstanceInitiatedShutdownBehavior={"Value": "stop"}
    )
    yard.ec2.shut_down(first)
    yard.ec2.shut_down(second)
    yard.on(30)
    assert yard.seen() == {first: "terminated", second: "stopped"}
    assert yard.described(first)["StateReason"]["Code"] == "Client.InstanceInitiatedShutdown"
    assert [call for call, _ in yard.hosts.calls] == ["boot", "boot"], (
        "machines are not called for what they did themselves"
    )


def test_a_spot_interruption_is_announced_and_then_happens(yard: Yard) -> None:
    (host,) = yard.launch(1)
    yard.on(10)
    yard.ec2.interrupt(host, 120)
    assert yard.ec2.interruption_notice(host) == {"action": "terminate", "time": "2026-01-05T08:02:10Z"}
    assert yard.events[-1] == ("EC2 Spot Instance Interruption Warning", host, "terminate")
    yard.on(119)
    assert yard.seen() == {host: "running"}
    yard.on(2)
    assert yard.described(host)["StateReason"]["Code"] == "Server.SpotInstanceTermination"


def test_a_host_that_fails_has_no_power_at_once(yard: Yard) -> None:
    (host,) = yard.launch(1)
    yard.on(10)
    yard.ec2.kill(host)
    assert yard.ec2.instance(host).off_at == yard.world.now
    assert yard.described(host)["StateReason"]["Code"] == "Server.InternalError"


def test_a_host_may_fail_before_it_ran(yard: Yard) -> None:
    (host,) = yard.launch(1)
    yard.ec2.kill(host)
    yard.on(100)
    assert (yard.seen(), yard.hosts.calls) == ({host: "terminated"}, [])


def test_listings_come_in_pages(yard: Yard) -> None:
    hosts = yard.launch(12)
    first = yard.ask("describe_instances", MaxResults=5)
    second = yard.ask("describe_instances", MaxResults=5, NextToken=first["NextToken"])
    third = yard.ask("describe_instances", MaxResults=5, NextToken=second["NextToken"])
    pages = [
        [i["InstanceId"] for r in p["Reservations"] for i in r["Instances"]] for p in (first, second, third)
    ]
    assert pages == [hosts[:5], hosts[5:10], hosts[10:]]
    assert "NextToken" not in third


def test_tags_are_found_once_they_are_written(yard: Yard) -> None:
    hosts = yard.launch(2)
    for value in ("idle", "busy"):
        yard.ask("create_tags", Resources=hosts, Tags=[{"Key": "verdict", "Value": value}])
    assert yard.seen(Filters=[{"Name": "tag:verdict", "Values": ["idle"]}]) == {}
    wanted = [
        {"Name": "tag:verdict", "Values": ["b*"]},
        {"Name": "instance-state-name", "Values": ["pending"]},
    ]
    assert list(yard.seen(Filters=wanted)) == hosts
    assert yard.ec2.tags(hosts[0])["verdict"] == "busy"
    reserved = [{"Key": "aws:x", "Value": ""}]
    assert refusal(yard, "create_tags", Resources=hosts, Tags=reserved) == "InvalidParameterValue"


def test_a_filter_takes_two_hundred_values_at_most(yard: Yard) -> None:
    many = [{"Name": "instance-id", "Values": [f"i-{number}" for number in range(201)]}]
    assert refusal(yard, "describe_instances", Filters=many) == "FilterLimitExceeded"


# ------------------------------------------------------------------------- images


def image_of(yard: Yard, host: str, name: str = "made", **more: Any) -> str:
    tags = [{"ResourceType": kind, "Tags": [{"Key": "yard", "Value": "y"}]} for kind in ("image", "snapshot")]
    answer = yard.ask("create_image", InstanceId=host, Name=name, TagSpecifications=tags, **more)
    return str(answer["ImageId"])


def test_an_image_is_pending_then_available_and_hosts_start_from_its_disk(yard: Yard) -> None:
    (host,) = yard.launch(1)
    yard.on(10)
    yard.ec2.instance(host).disk["model"] = "half done"
    image = image_of(yard, host, NoReboot=True)
    (shown,) = yard.ask("describe_images", ImageIds=[image])["Images"]
    assert (shown["State"], yard.hosts.calls) == ("pending", [("boot", host)])
    yard.on(100)
    (shown,) = yard.ask("describe_images", Owners=["self"], Filters=[{"Name": "name", "Values": ["made"]}])[
        "Images"
    ]
    assert (shown["ImageId"], shown["State"]) == (image, "available")
    assert yard.events[-1] == ("EC2 AMI State Change", image, "available")
    assert yard.ec2.images[image].disk == {"model": "half done"}
    (snapshot,) = yard.ask(
        "describe_snapshots", OwnerIds=["self"], Filters=[{"Name": "volume-id", "Values": ["vol-*"]}]
    )["Snapshots"][-1:]
    assert snapshot["Description"] == f"Created by CreateImage({host}) for {image}"


def test_a_name_makes_one_image_only(yard: Yard) -> None:
    (host,) = yard.launch(1)
    assert refusal(yard, "create_image", InstanceId=host, Name="made") == "IncorrectInstanceState"
    yard.on(10)
    image_of(yard, host)
    assert yard.hosts.calls[-1] == ("reboot", host)
    assert refusal(yard, "create_image", InstanceId=host, Name="made") == "InvalidAMIName.Duplicate"


def test_an_image_may_fail(yard: Yard) -> None:
    (host,) = yard.launch(1)
    yard.on(10)
    yard.ec2.image_failures.append("the volume is broken")
    image = image_of(yard, host)
    yard.on(100)
    (shown,) = yard.ask("describe_images", ImageIds=[image])["Images"]
    assert (shown["State"], shown["StateReason"]["Message"]) == ("failed", "the volume is broken")


def test_a_new_image_is_unknown_for_some_seconds() -> None:
    yard = Yard(settings=Settings(unknown=(2, 2)))
    (host,) = yard.launch(1)
    yard.on(60)
    image = image_of(yard, host)
    assert refusal(yard, "describe_images", ImageIds=[image]) == "InvalidAMIID.NotFound"
    yard.on(2)
    assert yard.ask("describe_images", ImageIds=[image])["Images"]


@pytest.mark.parametrize("code", ["success", "internal-error", "missing-permissions"])
def test_an_image_goes_with_its_snapshot_or_says_that_it_does_not(yard: Yard, code: str) -> None:
    (host,) = yard.launch(1)
    yard.on(10)
    image = image_of(yard, host)
    snapshot = yard.ec2.images[image].snapshot.id
    yard.ec2.kept_snapshots = [code] if code == "internal-error" else []
    yard.ec2.may = lambda _caller, _check: code != "missing-permissions"
    answer = yard.ask("deregister_image", ImageId=image, DeleteAssociatedSnapshots=True)
    assert answer["DeleteSnapshotResults"] == [{"SnapshotId": snapshot, "ReturnCode": code}]
    assert (snapshot in yard.ec2.snapshots) is (code != "success")
    assert yard.events[-1] == ("EC2 AMI State Change", image, "deregistered")
    yard.on(200)
    assert yard.events[-1][2] == "deregistered", "it does not become available any more"
    assert refusal(yard, "deregister_image", ImageId=image) == "InvalidAMIID.Unavailable"


def test_a_snapshot_that_an_image_stands_on_stays(yard: Yard) -> None:
    (host,) = yard.launch(1)
    yard.on(10)
    image = image_of(yard, host)
    snapshot = yard.ec2.images[image].snapshot.id
    assert refusal(yard, "delete_snapshot", SnapshotId=snapshot) == "InvalidSnapshot.InUse"
    yard.ask("deregister_image", ImageId=image)
    yard.ask("delete_snapshot", SnapshotId=snapshot)
    assert refusal(yard, "delete_snapshot", SnapshotId=snapshot) == "InvalidSnapshot.NotFound"


# ------------------------------------------------------------------------- candidates, quotas, books


def test_subnets_offerings_and_prices_are_those_of_the_facts(yard: Yard) -> None:
    (subnet,) = yard.ask("describe_subnets", SubnetIds=["subnet-b"])["Subnets"]
    assert subnet["AvailabilityZone"] == "us-east-1b"
    only = [{"Name": "instance-type", "Values": ["g5.xlarge", "nonsense"]}]
    offered = yard.ask("describe_instance_type_offerings", LocationType="availability-zone", Filters=only)
    assert [each["Location"] for each in offered["InstanceTypeOfferings"]] == list(yard.ec2.catalogue.zones)


def test_the_price_before_the_requested_time_is_listed_too(yard: Yard) -> None:
    def prices() -> list[str]:
        now = yard.world.now
        answer = yard.ask(
            "describe_spot_price_history",
            InstanceTypes=["g5.xlarge"],
            ProductDescriptions=["Linux/UNIX"],
            StartTime=now,
            EndTime=now,
        )
        rows = answer["SpotPriceHistory"]
        return [each["SpotPrice"] for each in rows if each["AvailabilityZone"] == "us-east-1a"]

    assert prices() == ["0.422520"]
    yard.on(60)
    yard.ec2.catalogue.set_spot_price("g5.xlarge", "us-east-1a", 0.9, yard.world.now)
    yard.on(60)
    assert prices() == ["0.900000"]


def test_quotas_are_those_that_launches_are_held_to(yard: Yard) -> None:
    quotas = ServiceQuotas(yard.ec2.pools)
    given = {"ServiceCode": "ec2", "QuotaCode": "L-DB2E81BA"}
    yard.ec2.pools.quotas["L-DB2E81BA"] = 12
    assert quotas.get_service_quota(ME, given)["Quota"]["Value"] == 12
    assert quotas.get_aws_default_service_quota(ME, given)["Quota"]["Value"] == 0
    with pytest.raises(ServiceError, match="NoSuchResource"):
        quotas.get_service_quota(ME, {"ServiceCode": "ec2", "QuotaCode": "L-C4BD4855"})


def test_the_books_bill_from_running_to_leaving_running(yard: Yard) -> None:
    (host,) = yard.launch(1, market="on-demand")
    yard.on(10 + 1800)
    yard.ask("stop_instances", InstanceIds=[host])
    yard.on(3600)
    yard.ask("start_instances", InstanceIds=[host])
    yard.on(10 + 1800)
    yard.ask("terminate_instances", InstanceIds=[host])
    yard.on(10_000)
    whole = yard.ec2.bill("run", "r1")
    assert whole.hours == pytest.approx(1.0)
    assert whole.dollars == pytest.approx(1.006)
    assert whole.disk_dollars == pytest.approx(75 * 0.08 / 730 * (7250 / 3600))


def test_a_spot_host_that_ec2_takes_back_in_its_first_hour_is_forgiven(yard: Yard) -> None:
    (host,) = yard.launch(1)
    yard.on(10 + 600)
    yard.ec2.kill(host, by_spot=True)
    yard.on(60)
    whole = yard.ec2.bill("run", "r1")
    assert whole.forgiven == pytest.approx(whole.dollars) == pytest.approx(0.42252 / 6)


# ------------------------------------------------------------------------- permissions


def test_a_launch_is_checked_on_everything_that_it_makes_and_uses(yard: Yard) -> None:
    checks = yard.ec2.checks(ME, "create_fleet", request(2, ("g5.xlarge", "g6.xlarge")))
    made = {(check.action, check.resource.rpartition(":")[2]) for check in checks}
    assert {("ec2:RunInstances", "volume/*"), ("ec2:RunInstances", "subnet/subnet-a")} <= made
    assert {
        ("ec2:CreateTags", "network-interface/*"),
        ("ec2:CreateFleet", "spot-instances-request/*"),
    } <= made
    (visit,) = [check for check in checks if check.action == "iam:PassRole"]
    assert (visit.resource, visit.context) == (ROLE, {"iam:passedtoservice": "ec2.amazonaws.com"})
    (image,) = [c for c in checks if c.action == "ec2:RunInstances" and "image/" in c.resource]
    assert image.context["aws:resourcetag/yard"] == "y"
    (card,) = [c for c in checks if c.action == "ec2:RunInstances" and "network-interface/" in c.resource]
    assert card.context["aws:requesttag/yard"] == "y"
    assert "aws:requesttag/run" not in card.context


def test_actions_on_instances_are_checked_with_their_tags(yard: Yard) -> None:
    (host,) = yard.launch(1)
    (check,) = yard.ec2.checks(ME, "terminate_instances", {"InstanceIds": [host]})
    assert check.resource == f"arn:aws:ec2:us-east-1:123456789012:instance/{host}"
    assert check.context["aws:resourcetag/run"] == check.context["ec2:resourcetag/run"] == "r1"
    (gone,) = yard.ec2.checks(ME, "stop_instances", {"InstanceIds": ["i-0"]})
    assert gone.context == {}
    (tag,) = yard.ec2.checks(
        ME, "create_tags", {"Resources": [host], "Tags": [{"Key": "hold", "Value": "x"}]}
    )
    assert tag.context["aws:tagkeys"] == ["hold"]


def test_equal_seeds_give_equal_traces() -> None:
    def result(seed: int) -> list[tuple[str, str, str]]:
        yard = Yard(seed, Settings())
        (host, _) = yard.launch(2)
        yard.on(30)
        yard.ec2.interrupt(host)
        yard.on(300)
        return [*yard.events, (str(yard.ec2.instance(host).ended), "", "")]

    assert result(7) == result(7) != result(8)
