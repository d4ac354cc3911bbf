"""An empty account in moto."""

from collections.abc import Iterator
from contextlib import contextmanager

import boto3
import pytest
from moto import mock_aws

from lambdas.aws import clients


@contextmanager
def an_account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make an empty account with the ledger and the bucket."""
    with mock_aws():
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
        clients.client.cache_clear()
        boto3.client("s3").create_bucket(Bucket="bucket")
        boto3.client("dynamodb").create_table(
            TableName="ledger",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[
                {"AttributeName": "pk", "KeyType": "HASH"},
                {"AttributeName": "sk", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
        )
        yield
    clients.client.cache_clear()
