"""Webhooks: each kind of notification arrives once, signed, also if the receiver does not answer for a while.

A function of the yard sends what a topic delivers to it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import json
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stacks.constructs.packages import layers
from tests.contract.conftest import ACCOUNT, REGION, Cloud, allow, eventually
from tests.support.webhook_receiver import Receiver
from trainyard.client import webhooks as client
from trainyard.protocol import webhooks
from trainyard.protocol.webhooks import Attribute, NotificationKind, Webhook, WebhookKind
from trainyard.values import serialization

ROOT = Path(__file__).parents[2]
ME = "AROA1:ada@example.org"
YARD = "hooked"


def make_receiver(cloud: Cloud) -> Receiver:
    return Receiver.make(
        cloud.client("lambda"), f"receiver-{uuid.uuid4().hex[:12]}", cloud.role("lambda.amazonaws.com")
    )


@pytest.fixture
def receiver(cloud: Cloud) -> Receiver:
    return make_receiver(cloud)


class Yard:
    """A topic, the function notify that is subscribed to it, its ledger, and its queue of dead letters."""

    def __init__(self, cloud: Cloud, code: bytes) -> None:
        self.cloud = cloud
        self.name = f"{YARD}{uuid.uuid4().hex[:8]}"
        self.table = f"{self.name}-ledger"
        keys = ("pk", "sk")
        cloud.client("dynamodb").create_table(
            TableName=self.table,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
            KeySchema=[
                {"AttributeName": key, "KeyType": kind}
                for key, kind in zip(keys, ("HASH", "RANGE"), strict=True)
            ],
        )
        self.queue = cloud.client("sqs").create_queue(QueueName=f"{self.name}-dead-letters")["QueueUrl"]
        self.topic = cloud.client("sns").create_topic(Name=f"{self.name}-notices")["TopicArn"]
        self.function = self._function(code)
        self._subscribe()

    def _function(self, code: bytes) -> str:
        folder = f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter{webhooks.folder(self.name)}"
        queue = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{self.name}-dead-letters"
        may = (
            allow(["ssm:GetParameters", "ssm:GetParametersByPath"], [folder, f"{folder}/*"]),
            allow("sqs:SendMessage", queue),
            allow(
                ["dynamodb:BatchGetItem", "dynamodb:PutItem"],
                f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{self.table}",
            ),
        )
        variables = {
            "YARD": self.name,
            "TABLE_NAME": self.table,
            "BUCKET_NAME": "none",
            "QUEUE_URL": self.queue,
            "INTERNAL_WEBHOOKS": "127.0.0.0/8",
        }
        made = self.cloud.client("lambda").create_function(
            FunctionName=f"{self.name}-notify",
            Runtime="python3.11",
            Handler="lambdas.workflows.notify.handler",
            Role=self.cloud.role("lambda.amazonaws.com", *may),
            Code={"ZipFile": code},
            Timeout=60,
            MemorySize=512,
            Environment={"Variables": variables},
        )
        self.cloud.client("lambda").put_function_event_invoke_config(
            FunctionName=f"{self.name}-notify", DestinationConfig={"OnFailure": {"Destination": queue}}
        )
        return str(made["FunctionArn"])

    def _subscribe(self) -> None:
        self.cloud.client("lambda").add_permission(
            FunctionName=self.function,
            StatementId="topic",
            Action="lambda:InvokeFunction",
            Principal="sns.amazonaws.com",
            SourceArn=self.topic,
        )
        self.cloud.client("sns").subscribe(TopicArn=self.topic, Protocol="lambda", Endpoint=self.function)

    def register(self, name: str, url: str, kind: WebhookKind = WebhookKind.URL, **more: Any) -> Webhook:
        hook = Webhook(kind=kind, url=url, **more)
        own = name == webhooks.ME
        parameter = webhooks.own_parameter(self.name, ME) if own else webhooks.parameter(self.name, name)
        value = json.dumps(serialization.to_json(hook))
        self.cloud.client("ssm").put_parameter(Name=parameter, Type="SecureString", Value=value)
        return hook

    def publish(self, kind: NotificationKind | None, subject: str = "a subject", **attributes: str) -> str:
        """Publish a message and return its id."""
        given = {**({Attribute.KIND.value: kind.value} if kind else {}), **attributes}
        values = {
            name: {"DataType": "String", "StringValue": value} for name, value in given.items() if value
        }
        answer = self.cloud.client("sns").publish(
            TopicArn=self.topic, Subject=subject, Message="a line\n", MessageAttributes=values
        )
        return str(answer["MessageId"])

    def letters(self) -> list[dict[str, Any]]:
        """Wait for dead letters, and return them."""
        client = self.cloud.client("sqs")
        found = eventually(
            lambda: client.receive_message(QueueUrl=self.queue, WaitTimeSeconds=1).get("Messages")
        )
        bodies = [json.loads(each["Body"]) for each in found]
        print(bodies)  # shown if a test fails
        return bodies


@pytest.fixture(scope="module")
def code() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for package in ("lambdas", "trainyard"):
            for path in (ROOT / package).rglob("*"):
                if path.suffix in (".py", ".json") and not {"ui", "cli", "client"} & {*path.parts}:
                    archive.write(path, path.relative_to(ROOT))
        packages = layers.layer_folder() / "python"
        for path in packages.rglob("*"):
            if path.is_file() and path.relative_to(packages).parts[0] not in ("boto3", "botocore"):
                archive.write(path, path.relative_to(packages))
    return content.getvalue()


@pytest.fixture
def yard(cloud: Cloud, code: bytes) -> Iterator[Yard]:
    made = Yard(cloud, code)
    yield made
    left = cloud.client("sqs").receive_message(QueueUrl=made.queue, MaxNumberOfMessages=10)
    print("remaining dead letters:", left.get("Messages"))  # shown if a test fails


def is_signed(hook: Webhook, headers: dict[str, str], body: str) -> bool:
    """Check the signature as the specification of Standard Webhooks describes it."""
    key = base64.b64decode(hook.key.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{body}".encode()
    own = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return headers["webhook-signature"] == f"v1,{own}"


def test_a_receiver_gets_each_kind_once_and_signed(yard: Yard, receiver: Receiver) -> None:
    hook = yard.register("all", f"{receiver.url}/all", key=client.make_key(), on=tuple(NotificationKind))
    ids = {
        kind: yard.publish(kind, f"about {kind}", run="digits-1", submitter=ME) for kind in NotificationKind
    }
    eventually(lambda: len(receiver.taken) >= len(ids))
    requests = receiver.requests
    bodies = [json.loads(each["body"]) for each in requests]
    assert {body["type"]: body["data"]["subject"] for body in bodies} == {
        kind.value: f"about {kind}" for kind in NotificationKind
    }
    assert sorted(each["headers"]["webhook-id"] for each in requests) == sorted(ids.values())
    assert all(is_signed(hook, each["headers"], each["body"]) for each in requests)
    assert not is_signed(hook, requests[0]["headers"], requests[0]["body"] + " ")


def test_runs_of_others_and_jobs_that_name_no_webhook_stay_out(yard: Yard, receiver: Receiver) -> None:
    yard.register(webhooks.ME, f"{receiver.url}/me")
    yard.register("ml", f"{receiver.url}/ml", WebhookKind.SLACK, named_only=True)
    yard.publish(NotificationKind.END, submitter="bob")
    yard.publish(NotificationKind.END, submitter=ME, notify="slack:ml,me")
    yard.publish(NotificationKind.END, submitter=ME, notify="discord:ml")
    eventually(lambda: len(receiver.taken) >= 3)
    taken = receiver.taken
    assert sorted(each["path"] for each in taken) == ["/me", "/me", "/ml"]
    (slack,) = (json.loads(each["body"]) for each in taken if each["path"] == "/ml")
    assert slack == {"text": "*a subject*\na line", "unfurl_links": False}


def test_after_an_outage_each_receiver_has_the_message_once(
    yard: Yard, receiver: Receiver, cloud: Cloud
) -> None:
    """The receiver that took the message at the first try gets no other one."""
    other = make_receiver(cloud)
    receiver.set(status=503)
    yard.register("down", f"{receiver.url}/down")
    yard.register("up", f"{other.url}/up")
    yard.publish(NotificationKind.FAILURE)
    eventually(lambda: receiver.requests)
    receiver.set(status=200)
    eventually(lambda: receiver.taken)
    assert (len(receiver.taken), len(other.requests)) == (1, 1)


def test_a_message_that_no_try_delivers_is_a_dead_letter_with_the_reason(
    yard: Yard, receiver: Receiver
) -> None:
    receiver.set(status=500)
    yard.register("down", f"{receiver.url}/down")
    yard.publish(NotificationKind.END, "Trainyard: digits-1 succeeded")
    (letter,) = yard.letters()
    assert len(receiver.requests) == 3
    assert "the webhook down did not get the message: it answered 500" in str(letter["responsePayload"])


@pytest.mark.parametrize(
    ("url", "status", "reason"),
    [
        ("{}/gone", 410, "it answered 410"),
        ("{}/moved", 302, "it answered 302: redirects are not followed"),
        ("http://169.254.169.254/latest/meta-data/", 200, "the internal address 169.254.169.254"),
        ("ftp://example.org/", 200, "does not begin with https://"),
    ],
)
def test_a_refusal_is_final_and_a_dead_letter_at_once(
    yard: Yard, receiver: Receiver, url: str, status: int, reason: str
) -> None:
    receiver.set(status=status, location="http://169.254.169.254/")
    yard.register("wrong", url.format(receiver.url))
    yard.publish(NotificationKind.END, "Trainyard: digits-1 succeeded", run="digits-1")
    (letter,) = yard.letters()
    assert (letter["webhook"], letter["run"]) == ("wrong", "digits-1")
    assert reason in letter["reason"]
    assert len(receiver.requests) == (1 if url.startswith("{}") else 0)


def test_a_receiver_that_hangs_does_not_hold_up_the_others(
    yard: Yard, receiver: Receiver, cloud: Cloud
) -> None:
    other = make_receiver(cloud)
    receiver.set(hangs=True)
    yard.register("hangs", f"{receiver.url}/hangs")
    yard.register("well", f"{other.url}/well")
    yard.publish(NotificationKind.END)
    eventually(lambda: other.taken)
    receiver.set(hangs=False)
    eventually(lambda: receiver.taken)
    assert (len(other.requests), len(receiver.taken)) == (1, 1)
