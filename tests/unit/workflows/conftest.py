"""A training run in the ledger, the bucket and EC2."""

import base64
import json
import sys
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import boto3
import pytest

from lambdas import environment
from lambdas.aws import clients
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.rows import look_up_row
from lambdas.aws.dynamodb.write import Write
from lambdas.steps.observability import logger
from lambdas.steps.signals.context import SignalSettings
from lambdas.workflows.train.train import TrainSettings
from simulation.aws.dynamodb import DynamoDb
from simulation.aws.endpoint.api import Caller
from simulation.aws.endpoint.gateway import Gateway, Service
from simulation.aws.endpoint.transport import Transport
from simulation.aws.iam import Iam
from simulation.aws.notifications import Notifications
from simulation.aws.s3 import S3
from simulation.aws.stepfunctions import TOKEN, StepFunctions
from tests.support.records import AT, JOB, host
from tests.unit.core.builders import NOON
from tests.unit.simulation import ec2_yard
from trainyard.protocol.ledger.lookup import Owner
from trainyard.values import serialization

ROOT = Caller("root", "root")
TOPIC = "arn:aws:sns:us-east-1:123456789012:trainyard-notices"
TRANSPORT = Transport()
ANSWERED_TOKEN = TOKEN + base64.b64encode(b"#0").decode()
"""A task token whose task has ended."""
HOST = {
    "attempt": 1,
    "type": "g6.xlarge",
    "zone": "a",
    "market": "spot",
    "price": Decimal(1),
    "launched": serialization.timestamp(NOON),
}
"""The values of a host's row in the ledger, in the first attempt."""


class Place:
    """The run digits-1 in its first attempt on two hosts, the chief first, with ledger and bucket."""

    def __init__(self) -> None:
        cloud = ec2_yard.Yard()
        self.s3, dynamodb = S3(cloud.world), DynamoDb(cloud.world)
        self.s3.create_bucket("bucket")
        dynamodb.create_table("ledger")
        self.notifications = Notifications(cloud.world)
        self.notifications.create_topic(TOPIC)
        services: dict[str, Service] = {
            "ec2": cloud.ec2,
            "sns": self.notifications,
            "s3": self.s3,
            "dynamodb": dynamodb,
            "stepfunctions": StepFunctions(cloud.world, lambda *_: None, lambda *_: None),
        }
        gateway = Gateway(cloud.world, services, Iam({}))
        TRANSPORT.serve(
            lambda service, operation, request, _: gateway.answer(ROOT, service, operation, request),
            lambda *_: None,
            cloud.world.sleep,
            seed=1,
        )
        self.chief, self.worker = self.hosts = sorted(cloud.launch(2))
        cloud.on(60)
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
        attempt = {
            "candidate": {"pool": "p"},
            "hosts": self.hosts,
            "launched": AT,
            "from_step": 0,
            "reported": 7,
        }
        self.row("attempt#0001", attempt)
        self.row("token#0001#train", {"token": ANSWERED_TOKEN, "stored": AT})
        for name in self.hosts:
            self.row(f"host#{name}", host())
            self.ledger.write(look_up_row("instance", name, Owner(run="digits-1", attempt=1), NOON))

    def row(self, sk: str, values: dict[str, Any]) -> None:
        self.ledger.write(Write("run#digits-1", sk, values))

    def leaves(self, instance: str, word: str, **facts: Any) -> None:
        """Leave the last signal of that host only in the bucket."""
        said = {"run": "digits-1", "attempt": 1, "instance": instance, "at": AT, "signal": word, **facts}
        self.put(f"runs/digits-1/attempts/1/signals/AROA:{instance}.json", said)

    def put(self, key: str, document: Mapping[str, Any]) -> None:
        self.s3.write("bucket", key, json.dumps(document).encode())

    def object(self, key: str) -> Any:
        return json.loads(self.s3.body("bucket", key) or b"")

    def remove(self, key: str) -> None:
        boto3.client("s3").delete_object(Bucket="bucket", Key=key)


@pytest.fixture(scope="module")
def models() -> Iterator[None]:
    """Let the simulator's models answer botocore."""
    clients.client.cache_clear()
    TRANSPORT.install()
    yield
    TRANSPORT.remove()


@pytest.fixture
def place(models: None, monkeypatch: pytest.MonkeyPatch) -> Place:
    given = {"yard": "trainyard", "table_name": "ledger", "bucket_name": "bucket"}
    more: dict[Any, dict[str, str]] = {
        SignalSettings: {"stop_document": "trainyard-stop"},
        TrainSettings: {"start_document": "trainyard-start"},
    }
    monkeypatch.setattr(environment, "read", lambda kind: kind(**given, **more.get(kind, {})))
    return Place()


class Stdout:
    """Use the current stdout: the logger keeps the stdout of its import."""

    def write(self, text: str) -> None:
        sys.stdout.write(text)

    def flush(self) -> None:
        sys.stdout.flush()


class Log:
    """Return the log lines and metrics that handlers printed since the last call."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._capture.readouterr().out.splitlines()]

    def metrics(self) -> dict[str, list[float]]:
        """Return the values of each metric by its name and kind."""
        found: dict[str, list[float]] = {}
        for line in self.lines():
            for directive in line.get("_aws", {}).get("CloudWatchMetrics", []):
                assert directive["Namespace"] == "Trainyard"
                ((*dimensions,),) = directive["Dimensions"]
                assert line["service"] == "trainyard"
                for metric in directive["Metrics"]:
                    name = ".".join(
                        [metric["Name"], *(line[each] for each in dimensions if each != "service")]
                    )
                    found.setdefault(name, []).extend(line[metric["Name"]])
        return found


@pytest.fixture
def log(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Log:
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "trainyard")
    monkeypatch.setattr(logger.registered_handler, "stream", Stdout())
    return Log(capsys)
