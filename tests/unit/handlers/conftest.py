"""A run that trains, as the ledger, the bucket and EC2 have it."""

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from lambdas import settings
from lambdas.aws import clients
from lambdas.aws.ledger import Ledger, Write
from lambdas.settings import SignalSettings
from tests.unit.core.test_records import AT, JOB, host

IMAGE = "ami-12c6146b"
"""One that moto knows from the beginning."""


class Place:
    """Run digits-1 in its first attempt on two hosts, the chief first, as its ledger and its bucket have it."""

    def __init__(self) -> None:
        table, ec2 = boto3.resource("dynamodb").Table("ledger"), boto3.client("ec2")
        for row in table.scan()["Items"]:
            table.delete_item(Key={"pk": row["pk"], "sk": row["sk"]})
        boto3.resource("s3").Bucket("bucket").objects.delete()
        made = ec2.run_instances(ImageId=IMAGE, MinCount=2, MaxCount=2, InstanceType="t3.micro")["Instances"]
        self.chief, self.worker = self.hosts = sorted(each["InstanceId"] for each in made)
        self.ledger = Ledger("ledger")
        job = {**JOB, "cluster": {"strategy": "multi_worker", "workers": 2}}
        run = {
            "kind": "train",
            "state": "Train",
            "attempt": 1,
            "created": AT,
            "execution_arn": "arn",
            "job": job,
        }
        self.row("run", run | {"progress": {"attempt": 1, "step": 7, "at": AT}})
        attempt = {"offer": {"pool": "p"}, "hosts": self.hosts, "launched": AT, "from_step": 0, "reported": 7}
        self.row("attempt#0001", attempt)
        self.row("token#0001#train", {"token": "t", "stored": AT})
        for name in self.hosts:
            self.row(f"host#{name}", host())

    def row(self, sk: str, values: dict[str, Any]) -> None:
        self.ledger.write(Write("run#digits-1", sk, values))

    def leaves(self, instance: str, word: str, **facts: Any) -> None:
        """What that host has said last, in the bucket alone."""
        said = {"run": "digits-1", "attempt": 1, "instance": instance, "at": AT, "signal": word, **facts}
        key = f"runs/digits-1/attempts/1/words/{instance}.json"
        boto3.client("s3").put_object(Bucket="bucket", Key=key, Body=json.dumps(said).encode())


@pytest.fixture(scope="module")
def account() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setattr(boto3, "DEFAULT_SESSION", None)
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


@pytest.fixture
def place(account: None, monkeypatch: pytest.MonkeyPatch) -> Place:
    given = {"yard": "trainyard", "table_name": "ledger", "bucket_name": "bucket"}
    more = {SignalSettings: {"stop_document": "trainyard-stop"}}
    monkeypatch.setattr(settings, "read", lambda kind: kind(**given, **more.get(kind, {})))
    return Place()
