"""The preparations of a deployment, and its answers to CloudFormation, which never report a failure."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.core import DEFAULT_ACCOUNT_ID

from lambdas import environment
from lambdas.aws import clients, iam
from lambdas.workflows import prepare
from lambdas.workflows.prepare import PrepareSettings
from tests.support.recorded import CONTEXT
from trainyard.core.model.errors import AccessDenied

STACK = f"arn:aws:cloudformation:us-east-1:{DEFAULT_ACCOUNT_ID}:stack/Trainyard-Training/1"
RECIPE = "name: gpu\n"


class Waiting(HTTPServer):
    """CloudFormation, waiting at a URL for an answer."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answered)
        self.answers: list[dict[str, Any]] = []
        self.media_types: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class Answered(BaseHTTPRequestHandler):
    server: Waiting

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.answers.append(json.loads(body))
        self.server.media_types.append(self.headers["Content-Type"])
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    with Waiting() as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the bake's state machine, in a new account with the yard's bucket."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    with mock_aws():
        clients.client.cache_clear()
        boto3.client("s3").create_bucket(Bucket="bucket")
        versioned = {"Status": "Enabled"}
        boto3.client("s3").put_bucket_versioning(Bucket="bucket", VersioningConfiguration=versioned)
        definition = {"StartAt": "A", "States": {"A": {"Type": "Wait", "Seconds": 60, "End": True}}}
        arn = boto3.client("stepfunctions").create_state_machine(
            name="trainyard-bake",
            definition=json.dumps(definition),
            roleArn=f"arn:aws:iam::{DEFAULT_ACCOUNT_ID}:role/bake",
        )["stateMachineArn"]
        yard = PrepareSettings(
            yard="trainyard",
            table_name="ledger",
            bucket_name="bucket",
            bake_state_machine_arn=arn,
            recipe_key="images/gpu.yaml",
        )
        monkeypatch.setattr(environment, "read", lambda _: yard)
        yield arn
    clients.client.cache_clear()


def asked(waiting: Waiting, kind: str, **properties: str) -> str:
    """Return the answer to this request of CloudFormation."""
    before = len(waiting.answers)
    prepare.handler(
        {
            "RequestType": kind,
            "RequestId": "request",
            "StackId": STACK,
            "LogicalResourceId": "Prepared",
            "PhysicalResourceId": "Prepared",
            "ResourceType": "Custom::Prepared",
            "ResponseURL": waiting.url,
            "ResourceProperties": {"ServiceToken": "arn", "ServiceTimeout": "300", **properties},
        },
        CONTEXT,
    )
    (answer,) = waiting.answers[before:]
    said = answer.pop("Data")["Said"]
    assert answer == {
        "Status": "SUCCESS",
        "PhysicalResourceId": "Prepared",
        "StackId": STACK,
        "RequestId": "request",
        "LogicalResourceId": "Prepared",
    }
    return str(said)


def bakes(machine: str) -> list[str]:
    found = boto3.client("stepfunctions").list_executions(stateMachineArn=machine)["executions"]
    return [each["name"] for each in found]


def roles() -> set[str]:
    return {role["RoleName"] for role in boto3.client("iam").list_roles()["Roles"]}


def test_a_new_account_gets_its_roles_and_the_bake_of_the_recipe(waiting: Waiting, machine: str) -> None:
    said = asked(waiting, "Create", Recipe=RECIPE, Software="1")
    assert len(roles()) == 2
    (bake,) = bakes(machine)
    assert f"started the bake {bake}; it waits for any other bake to end" in said
    assert (
        boto3.client("s3").get_object(Bucket="bucket", Key="images/gpu.yaml")["Body"].read()
        == RECIPE.encode()
    )


def test_the_upload_s_own_event_names_the_same_bake(waiting: Waiting, machine: str) -> None:
    """The upload's event and the function start the same execution."""
    asked(waiting, "Create", Recipe=RECIPE, Software="1")
    (bake,) = bakes(machine)
    head = boto3.client("s3").head_object(Bucket="bucket", Key="images/gpu.yaml")
    event = {"key": "images/gpu.yaml", "version-id": head["VersionId"], "etag": head["ETag"].strip('"')}
    (execution,) = boto3.client("stepfunctions").list_executions(stateMachineArn=machine)["executions"]
    given = boto3.client("stepfunctions").describe_execution(executionArn=execution["executionArn"])["input"]
    assert json.loads(given) == {
        "recipe_key": event["key"], "version_id": event["version-id"], "etag": event["etag"],
    }  # fmt: skip
    assert bake.startswith("gpu-")


def test_what_is_there_is_left_alone(waiting: Waiting, machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iam, "make_service_linked_role", lambda _: False)
    assert asked(waiting, "Update") == "nothing had to be done"
    assert bakes(machine) == []


def test_nothing_is_undone(waiting: Waiting, machine: str) -> None:
    assert asked(waiting, "Delete", Recipe=RECIPE, Software="1") == "nothing had to be done"
    assert bakes(machine) == []
    assert roles() == set()


def test_what_fails_is_said_with_what_to_type_and_the_rest_is_done(
    waiting: Waiting, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(service: str) -> bool:
        raise AccessDenied(f"The role may not iam:CreateServiceLinkedRole for {service}")

    monkeypatch.setattr(iam, "make_service_linked_role", denied)
    said = asked(waiting, "Create", Recipe=RECIPE, Software="1")
    assert "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com" in said
    assert "the bake gpu-" in said


def test_ec2_may_use_the_key_of_the_yard(waiting: Waiting, machine: str) -> None:
    key = boto3.client("kms").create_key()["KeyMetadata"]["Arn"]
    for _ in range(2):
        asked(waiting, "Create", Key=key)
    grants = boto3.client("kms").list_grants(KeyId=key)["Grants"]
    prefix = f"arn:aws:iam::{DEFAULT_ACCOUNT_ID}:role/aws-service-role"
    assert {grant["GranteePrincipal"] for grant in grants} == {
        f"{prefix}/spot.amazonaws.com/AWSServiceRoleForEC2Spot",
        f"{prefix}/ec2fleet.amazonaws.com/AWSServiceRoleForEC2Fleet",
    }
    assert all("CreateGrant" in grant["Operations"] for grant in grants)
