"""What a new account lacks is said before anything is launched, with what to type."""

from collections.abc import Iterator

import boto3
import pytest
import yaml

from tests.contract.conftest import FACTS, REGION, Cloud, Credentials, free_port
from trainyard.client import Session
from trainyard.client.preflight import Need, Needs, Verdict, look, request_increases

SPOT, ON_DEMAND = "L-3819A6DF", "L-DB2E81BA"
NEEDS = Needs(
    ["g6.xlarge", "g5.xlarge"],
    [Need(SPOT, "All G and VT Spot Instance Requests", 8, "a gang"), Need(ON_DEMAND, "G", 4, "a bake")],
)


@pytest.fixture(scope="module")
def new_account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """All quotas of GPUs at AWS's default: 0."""
    folder = tmp_path_factory.mktemp("account")
    facts = yaml.safe_load(FACTS.read_text()) | {
        "quotas": {code: {"applied": None} for code in (SPOT, ON_DEMAND)}
    }
    (folder / "facts.yaml").write_text(yaml.safe_dump(facts))
    cloud = Cloud(folder / "state", free_port(), folder / "facts.yaml")
    cloud.up()
    yield cloud
    cloud.down()


def session(cloud: Cloud, who: Credentials | None = None) -> Session:
    who = who or Credentials()
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
    asked = {row.quota: row.found for row in after.rows if row.verdict is Verdict.ASKED}
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
