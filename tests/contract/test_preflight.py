"""Checks of a new account before any launch, with the next step for each problem."""

from collections.abc import Iterator
from dataclasses import replace

import boto3
import pytest
import yaml

from tests.contract.conftest import REGION, SETTINGS, Cloud, Credentials, free_port
from trainyard.client import Session
from trainyard.client.admin.preflight import look, request_increases
from trainyard.client.admin.requirements import Need, Needs, Network, Row, Verdict
from trainyard.core.model.yard.data_buckets import DataBucket

SPOT, ON_DEMAND = "L-3819A6DF", "L-DB2E81BA"
NEEDS = Needs(
    ["g6.xlarge", "g5.xlarge"],
    [Need(SPOT, "All G and VT Spot Instance Requests", 8, "a gang"), Need(ON_DEMAND, "G", 4, "a bake")],
)


@pytest.fixture(scope="module")
def new_account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """Yield an account with AWS's default GPU quotas of 0."""
    folder = tmp_path_factory.mktemp("account")
    settings = yaml.safe_load(SETTINGS.read_text()) | {
        "quotas": {code: {"applied": None} for code in (SPOT, ON_DEMAND)}
    }
    (folder / "settings.yaml").write_text(yaml.safe_dump(settings))
    cloud = Cloud(folder / "state", free_port(), folder / "settings.yaml")
    cloud.up()
    yield cloud
    cloud.down()


def session(cloud: Cloud, who: Credentials | None = None) -> Session:
    who = who or cloud.root
    return Session(boto3.Session(who.key, who.secret, who.token, REGION), cloud.endpoint)


def test_an_account_with_everything_is_ready(cloud: Cloud) -> None:
    seen = look(session(cloud), NEEDS)
    assert seen.is_ready, seen.rows
    assert any("us-east-1a: g5.xlarge, g6.xlarge" in row.found for row in seen.rows)


def test_a_new_account_is_told_what_to_ask_for_and_then_how_far_it_is(new_account: Cloud) -> None:
    mine = session(new_account)
    before = look(mine, NEEDS)
    short = {row.quota: row.next_step for row in before.rows if row.verdict is Verdict.SHORT}
    assert short.keys() == {SPOT, ON_DEMAND}
    assert f"--quota-code {SPOT} --desired-value 8 --region {REGION}" in short[SPOT]
    assert before.can_deploy
    assert not before.is_ready

    assert {row.quota for row in request_increases(mine, before)} == {SPOT, ON_DEMAND}
    after = look(mine, NEEDS)
    asked = {row.quota: row.found for row in after.rows if row.verdict is Verdict.REQUESTED}
    assert asked.keys() == {SPOT, ON_DEMAND}
    assert "8 asked for on 20" in asked[SPOT]
    assert "PENDING" in asked[SPOT]
    assert request_increases(mine, after) == []


def test_types_that_the_region_does_not_have_are_missing(cloud: Cloud) -> None:
    seen = look(session(cloud), Needs(["g99.xlarge"], []))
    (row,) = [row for row in seen.rows if row.subject == "instance types"]
    assert row.verdict is Verdict.MISSING, row
    assert not seen.can_deploy


def test_what_the_credentials_may_not_read_is_said_and_the_rest_is_looked_at(cloud: Cloud) -> None:
    who = cloud.acting_as({"Effect": "Allow", "Action": "ec2:Describe*", "Resource": "*"})
    rows = {row.subject: row for row in look(session(cloud, who), NEEDS).rows}
    assert rows["quotas"].verdict is Verdict.UNKNOWN
    assert "servicequotas:GetServiceQuota was denied" in rows["quotas"].found
    assert rows["instance types"].verdict is Verdict.READY


def about(subject: str, cloud: Cloud, needs: Needs) -> Row:
    (row,) = [row for row in look(session(cloud), needs).rows if row.subject == subject]
    return row


def test_a_yard_that_cannot_bake_for_want_of_a_way_out_is_told_so(cloud: Cloud) -> None:
    """Test a network whose routes lead nowhere. It needs a base image that uses a mirror."""
    ec2 = cloud.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    closed, open_ = (
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.9.{number}.0/24")["Subnet"]["SubnetId"]
        for number in (0, 1)
    )
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
    ec2.associate_route_table(RouteTableId=table, SubnetId=open_)

    def verdict(network: Network) -> Verdict:
        row = about("way out of the hosts", cloud, Needs(["g6.xlarge"], [], network=network))
        assert ("-c base_image_parameter=" in row.next_step) == (row.verdict is Verdict.SHORT)
        return row.verdict

    assert verdict(Network()) is Verdict.READY
    assert verdict(Network(private=True)) is Verdict.SHORT
    assert verdict(Network(private=True, base_image_parameter="/ours/image")) is Verdict.READY
    assert verdict(Network(vpc, [open_])) is Verdict.READY
    assert verdict(Network(vpc, [open_, closed])) is Verdict.SHORT
    (main,) = ec2.describe_route_tables(
        Filters=[{"Name": "vpc-id", "Values": [vpc]}, {"Name": "association.main", "Values": ["true"]}]
    )["RouteTables"]
    ec2.create_route(RouteTableId=main["RouteTableId"], DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
    assert verdict(Network(vpc, [open_, closed])) is Verdict.READY


def test_whether_hosts_reach_s3_by_an_endpoint_is_said_before_a_setting_relies_on_it(cloud: Cloud) -> None:
    ec2 = cloud.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.8.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.8.0.0/24")["Subnet"]["SubnetId"]

    def told(network: Network) -> tuple[Verdict, str]:
        row = about("way to S3", cloud, Needs(["g6.xlarge"], [], network=network))
        return row.verdict, row.next_step

    assert told(Network()) == (Verdict.READY, "")
    assert told(Network(vpc, [subnet])) == (Verdict.READY, "")
    verdict, step = told(Network(vpc, [subnet], s3_endpoint=True))
    assert verdict is Verdict.SHORT
    assert "or deploy without -c s3_endpoint" in step
    (main,) = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["RouteTables"]
    ec2.create_vpc_endpoint(
        VpcId=vpc, ServiceName="com.amazonaws.us-east-1.s3", RouteTableIds=[main["RouteTableId"]]
    )
    assert told(Network(vpc, [subnet])) == (Verdict.READY, "deploy with -c s3_endpoint=true")
    assert told(Network(vpc, [subnet], s3_endpoint=True)) == (Verdict.READY, "")


def test_whoever_is_told_of_nothing_is_told_so(cloud: Cloud) -> None:
    nobody = about("notices", cloud, NEEDS)
    assert "-c notify=" in nobody.next_step
    somebody = about("notices", cloud, replace(NEEDS, notify="ops@example.com"))
    assert (somebody.found, somebody.next_step) == ("mailed to ops@example.com", "")


def test_other_buckets_that_runs_are_to_read_are_looked_at(cloud: Cloud) -> None:
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket="a-corpus")
    s3.put_object(Bucket="a-corpus", Key="images/a.npz", Body=b"a")
    buckets = [DataBucket("a-corpus", "images/"), DataBucket("a-corpus", "words/"), DataBucket("no-corpus")]
    seen = look(session(cloud), replace(NEEDS, data_buckets=buckets))
    found = {
        row.subject: (row.verdict, row.found) for row in seen.rows if row.subject.startswith("data bucket")
    }
    assert found == {
        "data bucket s3://a-corpus/images/": (Verdict.READY, "it exists and is not empty"),
        "data bucket s3://a-corpus/words/": (Verdict.SHORT, "it is empty"),
        "data bucket s3://no-corpus/": (Verdict.SHORT, "it does not exist"),
    }


@pytest.mark.parametrize(
    ("most", "verdict", "step"),
    [
        (0, None, ""),
        (50, Verdict.READY, ""),
        (901, Verdict.MISSING, "deploy with -c most_predictions_at_once=900, or ask AWS for more"),
    ],
)
def test_a_concurrency_that_the_account_cannot_reserve_is_missing(
    new_account: Cloud, most: int, verdict: Verdict | None, step: str
) -> None:
    rows = look(session(new_account), replace(NEEDS, most_predictions_at_once=most)).rows
    found = next((row for row in rows if row.subject == "concurrency of functions"), None)
    assert (found.verdict if found else None) is verdict
    assert found is None or found.next_step.startswith(step)
