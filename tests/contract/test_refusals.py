"""The local cloud refuses calls with AWS's codes, statuses and messages."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.config import Config

from tests.contract.conftest import REGION, Cloud
from tests.contract.refusable import named_by
from tests.contract.refused import Refused, table

REQUEST_ID = re.compile(r"(?<=Request ID: )[\w#-]+")


def as_written(answer: tuple[str, int, str]) -> tuple[str, int, str]:
    return answer[0], answer[1], REQUEST_ID.sub("#", answer[2].strip())


@pytest.fixture(scope="module")
def client(cloud: Cloud) -> Callable[[str], Any]:
    """Return clients without local validation."""
    session = boto3.Session(cloud.root.key, cloud.root.secret, region_name=REGION)
    config = Config(parameter_validation=False, retries={"max_attempts": 0}, inject_host_prefix=False)
    made: dict[str, Any] = {}

    def of(service: str) -> Any:
        if service not in made:
            made[service] = session.client(service, endpoint_url=cloud.endpoint, config=config)
        return made[service]

    return of


@pytest.fixture(scope="module")
def named(client: Callable[[str], Any]) -> dict[str, Any]:
    return named_by(client)


@pytest.mark.parametrize("row", table(), ids=lambda row: row.key)
def test_a_call_is_refused_as_on_aws(
    client: Callable[[str], Any], named: dict[str, Any], row: Refused
) -> None:
    code, status, words = row.answer(client(row.service), named)
    assert (code, status, REQUEST_ID.sub("#", words.strip())) == as_written(row.expected(named))


def test_answers_have_the_members_that_aws_always_returns(
    client: Callable[[str], Any], named: dict[str, Any]
) -> None:
    table = client("dynamodb").describe_table(TableName=named["$TABLE"])["Table"]
    assert table["ProvisionedThroughput"]["NumberOfDecreasesToday"] == 0
    assert client("kms").describe_key(KeyId=named["$KEY"])["KeyMetadata"]["AWSAccountId"] == "123456789012"
    (stack,) = client("cloudformation").describe_stacks(StackName=named["$STACK"])["Stacks"]
    assert stack["NotificationARNs"] == []
