"""Dev hosts are found by name and listed with prices. A refused request names its reason."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import boto3
import pytest
from moto import mock_aws

from tests.unit.client.facts import yard_of
from trainyard.client import Session, Yard
from trainyard.client.dev import hosts, listing, prices, requests
from trainyard.client.dev.down import take_down
from trainyard.client.errors import HostNotConnected, HostNotFound, HostRefused
from trainyard.core.model.dev import Keep

IMAGE = "ami-12c6146b"
"""An image that moto provides."""


@pytest.fixture
def yard() -> Iterator[Yard]:
    with mock_aws():
        boto = boto3.Session("AKIDEXAMPLE", "secret", region_name="us-east-1")
        boto.client("dynamodb").create_table(
            TableName="table",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[
                {"AttributeName": "pk", "KeyType": "HASH"},
                {"AttributeName": "sk", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
        )
        yield yard_of(Session(boto))


def launched(there: Yard, *, spot: bool = False, **tags: str) -> str:
    marks = {"yard": "trainyard", "submitter": "alice", "price": "0.804800", "disk": "100"} | tags
    market: dict[str, Any] = {"InstanceMarketOptions": {"MarketType": "spot"}} if spot else {}
    made = there.session.client("ec2").run_instances(
        ImageId=IMAGE,
        MinCount=1,
        MaxCount=1,
        InstanceType="g6.xlarge",
        TagSpecifications=[
            {
                "ResourceType": "instance",
                "Tags": [{"Key": f"trainyard:{key}", "Value": value} for key, value in marks.items()],
            }
        ],
        **market,
    )
    return str(made["Instances"][0]["InstanceId"])


def test_a_dev_host_is_found_by_its_name_among_the_yards_alone(yard: Yard) -> None:
    mine = launched(yard, dev="mine")
    launched(yard, run="digits-1")
    launched(yard, dev="mine", yard="another")
    assert hosts.find(yard, "mine").instance == mine
    assert hosts.running(yard, "mine").owner == "alice"
    with pytest.raises(HostNotFound, match=r"has no dev host other.*trainyard dev up other"):
        hosts.find(yard, "other")


def test_one_that_is_stopped_is_not_used_but_brought_up(yard: Yard) -> None:
    mine = launched(yard, dev="mine")
    yard.session.client("ec2").stop_instances(InstanceIds=[mine])
    with pytest.raises(HostNotConnected, match=r"is stopped.*trainyard dev up mine"):
        hosts.running(yard, "mine")


def test_a_month_costs_the_disk_while_it_is_stopped_and_both_while_it_runs(yard: Yard) -> None:
    mine = launched(yard, dev="mine")
    (found,) = listing.list_dev_hosts(yard)
    assert (found.state, found.place) == ("running", mine)
    assert found.per_hour == pytest.approx(0.8048 + 100 * 0.08 / 730)
    assert found.per_month == pytest.approx(0.8048 * 730 + 8)
    yard.session.client("ec2").stop_instances(InstanceIds=[mine])
    (found,) = listing.list_dev_hosts(yard)
    assert (found.per_hour, found.per_month) == (0.0, 8.0)


def test_prices_are_the_regions_where_patrol_has_read_them(yard: Yard) -> None:
    assert prices.read_prices(yard) == prices.Prices(0.08, 0.05)
    row = {"pk": "patrol", "sk": "prices", "storage": {"disk": "0.10"}, "requested": "now"}
    yard.session.resource("dynamodb").Table("table").put_item(Item=row)
    assert prices.read_prices(yard) == prices.Prices(0.10, 0.05)


@pytest.mark.parametrize(
    ("state", "dollars"), [("running", 738.0), ("stopped", 8.0), ("image", 5.0), ("pending", 738.0)]
)
def test_each_state_has_its_price(state: str, dollars: float) -> None:
    assert prices.cost(prices.Prices(0.08, 0.05), 1.0, 100).of(state) == pytest.approx(dollars)
    unknown = prices.cost(prices.Prices(0.08, 0.05), None, 100)
    assert (unknown.hour, unknown.of("running"), unknown.of("stopped")) == (None, None, 8.0)


def test_one_on_spot_keeps_no_disk(yard: Yard) -> None:
    host = launched(yard, spot=True, dev="mine")
    with pytest.raises(HostRefused, match=r"is on spot.*--keep image"):
        take_down(yard, "mine", Keep.DISK, print)
    assert hosts.find(yard, "mine").instance == host
    assert hosts.find(yard, "mine").state == "running"


def test_nothing_is_left_where_nothing_is_kept_and_then_there_is_nothing_to_take_down(yard: Yard) -> None:
    launched(yard, dev="mine")
    said: list[str] = []
    take_down(yard, "mine", Keep.NOTHING, said.append)
    assert listing.list_dev_hosts(yard) == []
    assert "its disk with it" in said[0]
    for keep in Keep:
        with pytest.raises(HostNotFound):
            take_down(yard, "mine", keep, said.append)


REQUEST = {"request": "{}", "at": "2026-11-20T12:00:00.000Z"}


def test_what_brings_it_up_or_images_it_now_is_known_until_it_is_over(yard: Yard) -> None:
    states, table = yard.session.client("stepfunctions"), yard.session.resource("dynamodb").Table("table")
    made = {
        word: states.create_state_machine(
            name=f"trainyard-{word}",
            definition='{"StartAt": "End", "States": {"End": {"Type": "Succeed"}}}',
            roleArn="arn:aws:iam::123456789012:role/any",
        )["stateMachineArn"]
        for word in ("dev-host", "snapshot")
    }
    there = replace(yard, workflows=made)
    me = yard.session.client("sts").get_caller_identity()["Arn"].rpartition("/")[2]
    rows = [
        {"pk": "dev", "sk": "mine", "owner": me, "run": "dev-mine-1", **REQUEST},
        {"pk": "dev", "sk": "hers", "owner": "somebody-else", "run": "dev-mine-1", **REQUEST},
        {"pk": "dev-imaging", "sk": "archive-i-1-2026112012", "instance": "i-1"},
        {"pk": "dev-imaging", "sk": "never-started", "instance": "i-2"},
    ]
    for row in rows:
        table.put_item(Item=row)
    assert requests.find_launch(there, "mine") is None
    begun = [
        states.start_execution(stateMachineArn=made[word], name=name)["executionArn"]
        for word, name in (("dev-host", "dev-mine-1"), ("snapshot", "archive-i-1-2026112012"))
    ]
    launch, snapshot = requests.find_launch(there, "mine"), requests.find_snapshot(there, "i-1")
    assert launch is not None
    assert snapshot is not None
    assert [launch.arn, snapshot.arn] == begun
    assert requests.find_launch(there, "hers") is None
    assert requests.find_snapshot(there, "i-2") is None
    with pytest.raises(HostRefused, match=r"is being launched, by dev-mine-1"):
        take_down(there, "mine", Keep.DISK, print)
    for arn in begun:
        states.stop_execution(executionArn=arn)
    assert requests.find_launch(there, "mine") is requests.find_snapshot(there, "i-1") is None
