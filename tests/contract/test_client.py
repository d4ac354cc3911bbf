"""Errors for users whose yard is not found: the reason and the next step."""

import json
from collections.abc import Iterator

import boto3
import pytest

from tests.contract.conftest import REGION, Cloud, Credentials, free_port
from trainyard import __version__
from trainyard.client import Session, Yard
from trainyard.client.errors import (
    Denied,
    NoAnswer,
    NoCredentials,
    NoRegion,
    YardIncomplete,
    YardNotFound,
    YardOfAnotherVersion,
)

TOLD = {
    "version": __version__,
    "yard": "Told",
    "account": "123456789012",
    "region": REGION,
    "bucket": "some-bucket",
    "table": "some-table",
    "bus": "told",
    "workflows": {"train": f"arn:aws:states:{REGION}:123456789012:stateMachine:told-train"},
    "recipe": "images/gpu.yaml",
    "dashboard": "told",
    "software": "told",
    "monthly_dollars": 100,
    "topic": f"arn:aws:sns:{REGION}:123456789012:told-notices",
    "policies": {},
}
"""Settings as the stacks write them."""
YARDS = {
    "/told/yard": json.dumps(TOLD),
    "/older/yard": json.dumps(TOLD | {"yard": "Older", "version": "0.1.7"}),
    "/spoilt/yard": json.dumps({word: said for word, said in TOLD.items() if word != "table"}),
    "/no/yard/this": "-",
}


def session(cloud: Cloud, who: Credentials | None = None, region: str = REGION) -> Session:
    who = who or cloud.root
    boto = boto3.Session(who.key, who.secret, who.token, region)
    return Session(boto, cloud.endpoint)


@pytest.fixture(scope="module", autouse=True)
def yards(cloud: Cloud) -> Iterator[None]:
    parameters = cloud.client("ssm")
    for name, value in YARDS.items():
        parameters.put_parameter(Name=name, Value=value, Type="String")
    yield
    parameters.delete_parameters(Names=list(YARDS))


@pytest.mark.parametrize("name", ["Told", "told"])
def test_a_yard_is_found_by_its_parameter_alone(cloud: Cloud, name: str) -> None:
    may = cloud.acting_as(
        {
            "Effect": "Allow",
            "Action": "ssm:GetParameter",
            "Resource": f"arn:aws:ssm:{REGION}:*:parameter/told/yard",
        }
    )
    yard = Yard.find(name, session(cloud, may))
    assert (yard.name, yard.version, yard.bucket.name, yard.table) == (
        "Told",
        __version__,
        "some-bucket",
        "some-table",
    )
    assert yard.run("mine").arn == f"arn:aws:states:{REGION}:123456789012:execution:told-train:mine"


def test_a_yard_that_is_not_there_is_told_from_those_that_are(cloud: Cloud) -> None:
    there = f"no yard Mine in account \\d+, region {REGION}: existing yards: older, spoilt, told"
    with pytest.raises(YardNotFound, match=there):
        Yard.find("Mine", session(cloud))


def test_who_may_use_one_yard_is_told_of_it_where_he_names_another(cloud: Cloud) -> None:
    """Test a user with permission for one yard who names another.

    AWS denies this, because the policy lacks the name.
    """
    one = {
        "Effect": "Allow",
        "Action": "ssm:GetParameter",
        "Resource": f"arn:aws:ssm:{REGION}:*:parameter/told/yard",
    }
    names = {"Effect": "Allow", "Action": "ssm:DescribeParameters", "Resource": "*"}
    who = cloud.acting_as(one, names)
    with pytest.raises(YardNotFound, match="existing yards: older, spoilt, told"):
        Yard.find("Mine", session(cloud, who))
    with pytest.raises(Denied, match="ssm:GetParameter was denied"):
        Yard.find("Older", session(cloud, who))


def test_a_yard_of_another_release_is_told_with_both_versions(cloud: Cloud) -> None:
    with pytest.raises(
        YardOfAnotherVersion, match=rf"Older has version 0.1.7, and this client has version {__version__}"
    ):
        Yard.find("Older", session(cloud))


def test_a_parameter_that_says_too_little_is_named(cloud: Cloud) -> None:
    with pytest.raises(YardIncomplete, match=r"/spoilt/yard is incomplete .*table"):
        Yard.find("Spoilt", session(cloud))


def test_in_another_region_the_yard_is_not_found_and_the_region_is_named(cloud: Cloud) -> None:
    with pytest.raises(YardNotFound, match="region eu-west-1: this region has no yard"):
        Yard.find("Told", session(cloud, region="eu-west-1"))


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
    with pytest.raises(Denied, match="ssm:GetParameter was denied"):
        Yard.find("Told", session(cloud, nobody))


def test_an_endpoint_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test the name of the endpoint in the environment."""
    alone(monkeypatch)
    endpoint = f"http://127.0.0.1:{free_port()}"
    for name, value in (("ACCESS_KEY_ID", "a"), ("SECRET_ACCESS_KEY", "b"), ("ENDPOINT_URL", endpoint)):
        monkeypatch.setenv(f"AWS_{name}", value)
    with pytest.raises(NoAnswer, match=endpoint):
        Yard.find(session=Session.of(region=REGION))


def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove all AWS settings of the person who runs the tests."""
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
