"""Whoever looks for a yard and does not find it is told why, and what to do now."""

import json
from collections.abc import Iterator

import boto3
import pytest

from tests.contract.conftest import REGION, Cloud, Credentials, free_port
from trainyard.client import Session, Yard
from trainyard.client.errors import Denied, NoAnswer, NoCredentials, NoRegion, YardIncomplete, YardNotFound

TEMPLATE = {
    "Resources": {"Queue": {"Type": "AWS::SQS::Queue"}},
    "Outputs": {"BucketName": {"Value": "some-bucket"}},
}


def session(cloud: Cloud, who: Credentials | None = None, region: str = REGION) -> Session:
    who = who or Credentials()
    boto = boto3.Session(who.key, who.secret, who.token, region)
    return Session(boto, cloud.endpoint)


@pytest.fixture(scope="module", autouse=True)
def half_a_yard(cloud: Cloud) -> Iterator[None]:
    stacks = cloud.client("cloudformation")
    tags = [{"Key": "trainyard:yard", "Value": "half"}]
    stacks.create_stack(StackName="Half-Storage", TemplateBody=json.dumps(TEMPLATE), Tags=tags)
    stacks.get_waiter("stack_create_complete").wait(StackName="Half-Storage", WaiterConfig={"Delay": 1})
    yield
    stacks.delete_stack(StackName="Half-Storage")


def test_a_yard_that_is_not_there_is_told_from_those_that_are(cloud: Cloud) -> None:
    with pytest.raises(YardNotFound, match=rf"no yard Mine in account \d+, region {REGION}: there is .*Half"):
        Yard.find("Mine", session(cloud))


def test_a_yard_of_which_a_part_is_there_is_incomplete(cloud: Cloud) -> None:
    with pytest.raises(
        YardIncomplete, match=r"no output TableName, .*Half-Storage': 'CREATE_COMPLETE'"
    ) as error:
        Yard.find("Half", session(cloud))
    assert error.value.next_step == "make deploy"


def test_in_another_region_the_yard_is_not_found_and_the_region_is_named(cloud: Cloud) -> None:
    with pytest.raises(YardNotFound, match="region eu-west-1: there is no yard at all"):
        Yard.find("Half", session(cloud, region="eu-west-1"))


def test_no_region_is_an_error_of_its_own(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch)
    with pytest.raises(NoRegion, match="AWS_REGION"):
        Yard.find(session=Session.of(endpoint=cloud.endpoint))


def test_no_credentials_are_an_error_of_its_own(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch)
    with pytest.raises(NoCredentials, match="aws configure"):
        Yard.find(session=Session.of(region=REGION, endpoint=cloud.endpoint))


def test_who_may_not_look_is_told_which_permission_is_missing(cloud: Cloud) -> None:
    nobody = cloud.acting_as({"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"})
    with pytest.raises(Denied, match="cloudformation:DescribeStacks was denied"):
        Yard.find("Half", session(cloud, nobody))


def test_an_endpoint_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the environment names it."""
    alone(monkeypatch)
    endpoint = f"http://127.0.0.1:{free_port()}"
    for name, value in (("ACCESS_KEY_ID", "a"), ("SECRET_ACCESS_KEY", "b"), ("ENDPOINT_URL", endpoint)):
        monkeypatch.setenv(f"AWS_{name}", value)
    with pytest.raises(NoAnswer, match=endpoint):
        Yard.find(session=Session.of(region=REGION))


def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of AWS is set, whatever the person who runs the tests has set."""
    for name in (
        "PROFILE",
        "REGION",
        "DEFAULT_REGION",
        "ACCESS_KEY_ID",
        "SECRET_ACCESS_KEY",
        "SESSION_TOKEN",
    ):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    for name in ("CONFIG_FILE", "SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(f"AWS_{name}", "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
