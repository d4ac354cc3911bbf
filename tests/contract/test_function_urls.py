"""Function URLs, the limits of payloads, and reserved concurrency."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as RootCredentials
from botocore.exceptions import ClientError

from tests.contract.conftest import ACCOUNT, REGION, Cloud, Credentials, allow
from tests.contract.deploying import Deploy, deploy, reasons, word

__all__ = ["deploy", "word"]

MOST = 6_291_456
ANSWERS = """
def handler(event, context):
    body = event.get("body") or ""
    return {
        "statusCode": 503 if body == "later" else 200,
        "headers": {"X-Trainyard-Version": "3", "Retry-After": "60"},
        "body": "x" * int(body) if body.isdigit() else event["rawPath"],
    }
"""


def url_of(cloud: Cloud, function: str) -> str:
    made = cloud.client("lambda").create_function_url_config(FunctionName=function, AuthType="AWS_IAM")
    found = cloud.client("lambda").get_function_url_config(FunctionName=function)
    assert found["FunctionUrl"] == made["FunctionUrl"]
    return str(made["FunctionUrl"])


def curl(url: str, who: Credentials, body: bytes = b"{}") -> tuple[int, Mapping[str, str], str]:
    """Send a signed request as a user types it. Return status, headers and body."""
    token = ["-H", f"x-amz-security-token: {who.token}"] if who.token else []
    argv = [
        *("curl", "-sS", "-i", "--http1.1", "--max-time", "120", "--aws-sigv4", f"aws:amz:{REGION}:lambda"),
        *("--user", f"{who.key}:{who.secret}", "-H", "Content-Type: application/json", "-H", "Expect:"),
        *(*token, "--data-binary", "@-", url),
    ]
    done = subprocess.run(argv, input=body, capture_output=True, check=True)
    head, _, text = done.stdout.decode().partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return int(first.split()[1]), headers, text


def user(cloud: Cloud, function: str, *actions: str, **condition: Any) -> Credentials:
    arn = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{function}"
    return cloud.acting_as(*(allow(each, arn, **condition) for each in actions))


def test_curl_calls_a_function_by_its_url_and_gets_its_status_and_headers(cloud: Cloud) -> None:
    function = cloud.function(ANSWERS)
    url = url_of(cloud, function)
    who = user(cloud, function, "lambda:InvokeFunctionUrl", "lambda:InvokeFunction")
    status, headers, text = curl(f"{url}v1/models/digits/predict", who)
    assert (status, text) == (200, "/v1/models/digits/predict")
    assert headers["x-trainyard-version"] == "3"
    status, headers, _ = curl(f"{url}v1/models/digits/predict", who, b"later")
    assert (status, headers["retry-after"]) == (503, "60")


def test_a_signed_path_may_have_a_colon(cloud: Cloud) -> None:
    function, who = cloud.function(ANSWERS), cloud.root
    request = AWSRequest("POST", f"{url_of(cloud, function)}v1/models/digits:predict", data=b"{}")
    SigV4Auth(RootCredentials(who.key, who.secret), "lambda", REGION).add_auth(request)
    sent = urllib.request.Request(request.url, b"{}", dict(request.headers))
    with urllib.request.urlopen(sent, timeout=60) as answer:
        assert answer.read() == b"/v1/models/digits:predict"


@pytest.mark.parametrize(
    "actions", [[], ["lambda:InvokeFunctionUrl"], ["lambda:InvokeFunction"]], ids=lambda each: "+".join(each)
)
def test_a_caller_needs_both_permissions(cloud: Cloud, actions: list[str]) -> None:
    function = cloud.function(ANSWERS)
    url = url_of(cloud, function)
    status, headers, text = curl(url, user(cloud, function, *actions, "lambda:GetFunction"))
    assert (status, headers["x-amzn-errortype"]) == (403, "AccessDeniedException")
    assert json.loads(text)["Message"].startswith("Forbidden")


def test_a_permission_may_be_limited_to_calls_by_url(cloud: Cloud) -> None:
    function = cloud.function(ANSWERS)
    arn = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{function}"
    who = cloud.acting_as(
        allow("lambda:InvokeFunctionUrl", arn, StringEquals={"lambda:FunctionUrlAuthType": "AWS_IAM"}),
        allow("lambda:InvokeFunction", arn, Bool={"lambda:InvokedViaFunctionUrl": "true"}),
    )
    assert curl(url_of(cloud, function), who)[0] == 200
    with pytest.raises(ClientError, match="AccessDenied"):
        cloud.client("lambda", who).invoke(FunctionName=function, Payload=b"{}")


def test_a_request_without_a_valid_signature_is_forbidden(cloud: Cloud) -> None:
    function = cloud.function(ANSWERS)
    url = url_of(cloud, function)
    with pytest.raises(urllib.error.HTTPError) as unsigned:
        urllib.request.urlopen(urllib.request.Request(url, b"{}"), timeout=60)
    assert unsigned.value.code == 403
    assert json.load(unsigned.value)["Message"].startswith("Forbidden")
    status, _, text = curl(url, Credentials(cloud.root.key, "wrong"))
    assert status == 403
    assert "signature we calculated does not match" in text


def test_a_request_above_six_megabytes_is_refused(cloud: Cloud) -> None:
    function = cloud.function(ANSWERS)
    padded = json.dumps({"rawPath": "/", "body": "", "pad": "x" * (MOST - 100)}).encode()
    assert len(padded) <= MOST
    assert cloud.client("lambda").invoke(FunctionName=function, Payload=padded)["StatusCode"] == 200
    with pytest.raises(ClientError) as refused:
        cloud.client("lambda").invoke(FunctionName=function, Payload=b" " * 100 + padded)
    error = refused.value.response
    assert error["Error"]["Code"] == "RequestEntityTooLargeException"
    assert error["ResponseMetadata"]["HTTPStatusCode"] == 413
    assert (
        error["Error"]["Message"]
        == f"Request must be smaller than {MOST} bytes for the InvokeFunction operation"
    )
    assert curl(url_of(cloud, function), cloud.root, b"x" * (MOST + 1))[0] == 413


def test_an_answer_above_six_megabytes_is_a_function_error(cloud: Cloud) -> None:
    function = cloud.function(ANSWERS)
    event = json.dumps({"rawPath": "/", "body": str(MOST + 101)}).encode()
    answer = cloud.client("lambda").invoke(FunctionName=function, Payload=event)
    assert answer["FunctionError"] == "Unhandled"
    report = json.load(answer["Payload"])
    assert report["errorType"] == "Function.ResponseSizeTooLarge"
    assert "exceeded maximum allowed payload size (6291556 bytes)." in report["errorMessage"]
    assert curl(url_of(cloud, function), cloud.root, str(MOST + 101).encode())[0] == 502


def template(role: str, concurrency: int | None) -> dict[str, Any]:
    reserved = {} if concurrency is None else {"ReservedConcurrentExecutions": concurrency}
    function = {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "Code": {"ZipFile": "def handler(event, context): return event"},
            "Handler": "index.handler",
            "Role": role,
            "Runtime": "python3.13",
            **reserved,
        },
    }
    url = {
        "Type": "AWS::Lambda::Url",
        "Properties": {"AuthType": "AWS_IAM", "TargetFunctionArn": {"Fn::GetAtt": ["It", "Arn"]}},
    }
    outputs = {
        "Name": {"Value": {"Ref": "It"}},
        "Url": {"Value": {"Fn::GetAtt": ["Url", "FunctionUrl"]}},
    }
    return {"Resources": {"It": function, "Url": url}, "Outputs": outputs}


def test_a_stack_reserves_concurrency_within_the_accounts_limit(
    cloud: Cloud, deploy: Deploy, word: str
) -> None:
    client, role = cloud.client("lambda"), cloud.role("lambda.amazonaws.com")

    def limits() -> tuple[int, int]:
        found = client.get_account_settings()["AccountLimit"]
        return found["ConcurrentExecutions"], found["UnreservedConcurrentExecutions"]

    most, free = limits()
    stack = deploy(word, template(role, 50))
    outputs = {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}
    assert outputs["Url"].startswith(f"{cloud.endpoint}/")
    assert client.get_function_concurrency(FunctionName=outputs["Name"])["ReservedConcurrentExecutions"] == 50
    assert limits() == (most, free - 50)
    refused = deploy(word, template(role, most))
    assert refused["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert "UnreservedConcurrentExecution below its minimum value of [100]" in "".join(reasons(cloud, word))
    deploy(word, template(role, None))
    assert "ReservedConcurrentExecutions" not in client.get_function_concurrency(FunctionName=outputs["Name"])
    assert limits() == (most, free)
