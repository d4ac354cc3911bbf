"""Spot instances: allowed actions, prices and interruptions."""

import json
from functools import partial
from typing import Any

import pytest

from tests.contract.conftest import eventually
from tests.contract.ec2.conftest import Yard, error_code, members

PERSISTENT = {
    "MarketType": "spot",
    "SpotOptions": {"SpotInstanceType": "persistent", "InstanceInterruptionBehavior": "stop"},
}
ONE_TIME = {"MarketType": "spot"}


def test_a_spot_member_of_a_fleet_cannot_be_stopped(yard: Yard) -> None:
    host = members(yard.fleet(yard.template(), ["g6.xlarge/a"], 1))[0]
    yard.becomes(host, "running")
    assert error_code(yard.ec2.stop_instances, InstanceIds=[host]) == "UnsupportedOperation"
    assert yard.state(host) == "running"


def test_an_on_demand_member_of_a_fleet_can_be_stopped(yard: Yard) -> None:
    host = members(yard.fleet(yard.template(), ["g6.xlarge/a"], 1, market="on-demand"))[0]
    yard.becomes(host, "running")
    yard.ec2.stop_instances(InstanceIds=[host])
    yard.becomes(host, "stopped")


def test_a_one_time_spot_instance_cannot_be_stopped_and_a_persistent_one_can(yard: Yard) -> None:
    one_time, persistent = (
        yard.run(InstanceMarketOptions=ONE_TIME)[0],
        yard.run(InstanceMarketOptions=PERSISTENT)[0],
    )
    yard.becomes(one_time, "running")
    yard.becomes(persistent, "running")
    assert error_code(yard.ec2.stop_instances, InstanceIds=[one_time]) == "UnsupportedOperation"
    yard.ec2.stop_instances(InstanceIds=[persistent])
    yard.becomes(persistent, "stopped")
    assert yard.spot_request(persistent)["State"] == "disabled"
    yard.ec2.start_instances(InstanceIds=[persistent])
    yard.becomes(persistent, "running")
    assert yard.spot_request(persistent)["State"] == "active"


def test_the_spot_request_follows_its_instance(yard: Yard) -> None:
    host = yard.run(InstanceMarketOptions=ONE_TIME)[0]
    request = yard.spot_request(host)
    assert (request["State"], request["Type"], request["Status"]["Code"]) == (
        "active",
        "one-time",
        "fulfilled",
    )
    assert yard.instance(host)["SpotInstanceRequestId"] == request["SpotInstanceRequestId"]
    yard.ec2.terminate_instances(InstanceIds=[host])
    request = yard.spot_request(host)
    assert (request["State"], request["Status"]["Code"]) == ("closed", "instance-terminated-by-user")


def test_starting_a_stopped_host_needs_room(yard: Yard) -> None:
    host = yard.run(InstanceType="m5.large", SubnetId=yard.subnets["us-east-1c"])[0]
    yard.becomes(host, "running")
    yard.ec2.stop_instances(InstanceIds=[host])
    yard.becomes(host, "stopped")
    yard.refuse("m5.large/us-east-1c/on-demand")
    assert error_code(yard.ec2.start_instances, InstanceIds=[host]) == "InsufficientInstanceCapacity"


# ------------------------------------------------------------------------------------------ interruption

WATCH_THE_NOTICE = """#!/bin/sh
exec /usr/bin/env python3 - <<'END'
import time, urllib.error, urllib.request
base = "http://169.254.169.254/latest/"
ask = urllib.request.Request(base + "api/token", method="PUT", headers={"X-aws-ec2-metadata-token-ttl-seconds": "60"})
token = {"X-aws-ec2-metadata-token": urllib.request.urlopen(ask).read().decode()}
print("watching", flush=True)
while True:
    try:
        notice = urllib.request.Request(base + "meta-data/spot/instance-action", headers=token)
        print("notice", urllib.request.urlopen(notice).read().decode(), flush=True)
        break
    except urllib.error.HTTPError:
        time.sleep(0.1)
END
"""


def test_an_interruption_is_told_to_the_host_and_the_bus_before_it_happens(yard: Yard) -> None:
    host = yard.run(InstanceMarketOptions=ONE_TIME, UserData=WATCH_THE_NOTICE)[0]
    yard.becomes(host, "running")
    eventually(lambda: "watching" in yard.printed(host))
    yard.fault("interrupt", instance_id=host, seconds=30)
    eventually(lambda: '"terminate"' in yard.printed(host))
    assert yard.state(host) == "running"
    warning = eventually(lambda: yard.events(host, "EC2 Spot Instance Interruption Warning"))[0]
    assert warning["detail"] == {"instance-id": host, "instance-action": "terminate"}
    gone = yard.becomes(host, "terminated")
    assert gone["StateReason"]["Code"] == "Server.SpotInstanceTermination"
    assert yard.spot_request(host)["Status"]["Code"] == "instance-terminated-no-capacity"


def test_an_interrupted_persistent_instance_stops_and_only_ec2_can_start_it(yard: Yard) -> None:
    host = yard.run(InstanceMarketOptions=PERSISTENT)[0]
    yard.becomes(host, "running")
    yard.fault("interrupt", instance_id=host, seconds=0)
    stopped = yard.becomes(host, "stopped")
    assert stopped["StateReason"]["Code"] == "Server.SpotInstanceTermination"
    assert error_code(yard.ec2.start_instances, InstanceIds=[host]) == "IncorrectSpotRequestState"


def test_a_killed_host_is_gone_without_warning(yard: Yard) -> None:
    host = members(yard.fleet(yard.template(), ["g6.xlarge/a"], 1))[0]
    yard.becomes(host, "running")
    yard.fault("kill", instance_id=host)
    gone = yard.becomes(host, "terminated")
    assert gone["StateReason"]["Code"] == "Server.InternalError"
    assert yard.events(host, "EC2 Spot Instance Interruption Warning") == []


def test_a_host_killed_before_it_has_a_machine_never_runs(yard: Yard) -> None:
    host = members(yard.fleet(yard.template(), ["g6.xlarge/a"], 1))[0]
    yard.fault("kill", instance_id=host)
    gone = yard.becomes(host, "terminated")
    assert gone["StateReason"]["Code"] == "Server.InternalError"


def test_a_throttled_call_fails_as_often_as_asked_and_then_works(yard: Yard) -> None:
    yard.fault("throttle", action="DescribeInstances", times=2)
    for _ in range(2):
        with pytest.raises(yard.ec2.exceptions.ClientError) as raised:
            yard.ec2.describe_instances()
        assert raised.value.response["Error"]["Code"] == "RequestLimitExceeded"
        assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
    yard.ec2.describe_instances()


def test_the_command_line_interrupts_kills_and_refuses(yard: Yard) -> None:
    host = yard.run(InstanceMarketOptions=ONE_TIME)[0]
    yard.becomes(host, "running")
    yard.cloud.command("fault", "interrupt", host, "--seconds", "0")
    yard.becomes(host, "terminated")
    yard.cloud.command("fault", "refuse", "g4dn.xlarge", "us-east-1a", "spot")
    assert members(yard.fleet(yard.template(), ["g4dn.xlarge/a"], 1)) == []
    yard.cloud.command("fault", "clear")
    assert len(members(yard.fleet(yard.template(), ["g4dn.xlarge/a"], 1))) == 1


def test_the_command_line_throttles_allows_lists_and_clears(yard: Yard) -> None:
    fault = partial(yard.cloud.command, "fault")
    assert fault("list").stdout == "No active faults.\n"
    fault("refuse", "g4dn.*/*/spot")
    fault("allow", "g4dn.xlarge/us-east-1b/spot")
    fault("throttle", "DescribeVpcs", "--times", "3", "--code", "Unavailable")
    assert fault("list").stdout.splitlines() == [
        "g4dn.*/*/spot: room for 0 hosts",
        "g4dn.xlarge/us-east-1b/spot: unlimited capacity",
        "DescribeVpcs Unavailable: the next 3 requests",
    ]
    assert error_code(yard.ec2.describe_vpcs) == "Unavailable"
    template = yard.template()
    assert members(yard.fleet(template, ["g4dn.xlarge/a", "g4dn.2xlarge/b"], 1)) == []
    assert len(members(yard.fleet(template, ["g4dn.xlarge/b"], 1))) == 1
    fault("clear", "g4dn.*/*/spot")
    assert json.loads(fault("list", "--json").stdout)["capacity"] == {"g4dn.xlarge/us-east-1b/spot": None}
    assert len(members(yard.fleet(template, ["g4dn.2xlarge/b"], 1))) == 1
    fault("clear")
    assert fault("list").stdout == "No active faults.\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("interrupt i-0123456789abcdef0", "unknown instance 'i-0123456789abcdef0'"),
        ("kill i-0123456789abcdef0", "aws ec2 describe-instances"),
        ("refuse g6.xlagre", "allowed: g6.xlarge"),
        ("refuse g6.xlarge/us-east-1q/spot", "allowed: us-east-1a, us-east-1b, us-east-1c, *"),
        ("allow g6.xlarge us-east-1a cheap", "allowed: spot, on-demand, *"),
        ("refuse g6.xlarge/spot", "type/zone/market"),
        ("refuse g6.xlarge/us-east-1a/spot us-east-1b", "type/zone/market"),
        ("throttle CreateFleets", "similar actions: CreateFleet"),
        ("clear g6.xlarge/us-east-1a/spot", "changed pools: none"),
    ],
)
def test_a_fault_that_cannot_be_says_what_can(yard: Yard, words: str, said: str) -> None:
    refused = yard.cloud.command("fault", *words.split(), check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert said in refused.stderr


# ------------------------------------------------------------------------------------------ prices


def test_a_request_without_a_price_bids_the_on_demand_price(yard: Yard) -> None:
    request = yard.spot_request(yard.run(InstanceType="g6.xlarge", InstanceMarketOptions=ONE_TIME)[0])
    assert float(request["SpotPrice"]) == 0.805


def test_spot_prices_are_per_zone_and_current(yard: Yard) -> None:
    asked: dict[str, Any] = {
        "InstanceTypes": ["g6.xlarge", "g5.xlarge"],
        "ProductDescriptions": ["Linux/UNIX"],
    }
    rows = yard.ec2.describe_spot_price_history(**asked)["SpotPriceHistory"]
    assert {(r["InstanceType"], r["AvailabilityZone"]) for r in rows} == {
        (kind, f"us-east-1{zone}") for kind in ("g6.xlarge", "g5.xlarge") for zone in "abc"
    }
    assert all(0 < float(row["SpotPrice"]) < 1.1 for row in rows)
    one = yard.ec2.describe_spot_price_history(
        **asked, Filters=[{"Name": "availability-zone", "Values": ["us-east-1b"]}]
    )["SpotPriceHistory"]
    assert {row["AvailabilityZone"] for row in one} == {"us-east-1b"}
