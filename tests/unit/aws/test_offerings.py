"""Instance types, prices and quotas, from AWS's answers."""

from collections.abc import Iterator
from unittest import mock

import boto3
import pytest
from botocore.stub import Stubber

from lambdas.aws import clients
from lambdas.aws.ec2 import offerings


@pytest.fixture
def quotas(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    clients.client.cache_clear()
    with mock.patch.object(boto3, "DEFAULT_SESSION", None):
        made = clients.client("service-quotas")
    with Stubber(made) as stubber:
        yield stubber
    clients.client.cache_clear()


def test_a_quota_that_aws_does_not_say_now_is_unknown(quotas: Stubber) -> None:
    quotas.add_client_error("get_service_quota", "TooManyRequestsException", "Rate exceeded", 429)
    assert offerings.vcpu_quota("L-DB2E81BA") is None


def test_a_quota_that_the_account_has_not_changed_is_awss_default(quotas: Stubber) -> None:
    quotas.add_client_error("get_service_quota", "NoSuchResourceException", http_status_code=400)
    quotas.add_response("get_aws_default_service_quota", {"Quota": {"Value": 64.0}})
    assert offerings.vcpu_quota("L-DB2E81BA") == 64.0
