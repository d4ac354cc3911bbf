"""Transient errors of AWS have an error that workflows retry; faults of users have none."""

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore import exceptions
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError
from policy_sentry.querying.actions import get_actions_for_service

from lambdas.aws import clients, s3
from lambdas.core.run.recovery import Trouble
from trainyard.core.model.errors import AccessDenied, ServiceUnavailable

ENDPOINT = {"endpoint_url": "https://dynamodb.us-east-1.amazonaws.com"}
JSON = {"Content-Type": "application/x-amz-json-1.0"}

Says = Callable[[Any], AWSResponse]


class Body(io.BytesIO):
    """The part of urllib3's answer that botocore reads."""

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, Says], Any]]:
    """Return the client of a service with one fixed answer, and without waits between retries."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    clients.client.cache_clear()

    def made(service: str, says: Says) -> Any:
        client = clients.client(service)
        client.meta.events.register("before-send", lambda request, **_: says(request))
        return client

    yield made
    clients.client.cache_clear()


def refusal(status: int, code: str, **more: Any) -> Says:
    body = json.dumps({"__type": code, "message": f"the {code} message", **more}).encode()
    return lambda request: AWSResponse(request.url, status, JSON, Body(body))


def cancelled(*reasons: str) -> Says:
    told = [{"Code": each, "Message": each} for each in reasons]
    return refusal(400, "TransactionCanceledException", CancellationReasons=told)


def broken(error: Exception) -> Says:
    def says(_: Any) -> AWSResponse:
        raise error

    return says


def write(client: Any) -> None:
    delete = {"TableName": "t", "Key": {"pk": {"S": "run#1"}}}
    client.transact_write_items(TransactItems=[{"Delete": delete}])


TROUBLE = [
    ("throttled", refusal(400, "ThrottlingException")),
    ("beyond what the table may", refusal(400, "ProvisionedThroughputExceededException")),
    ("beyond the account's requests", refusal(400, "RequestLimitExceeded")),
    ("a fault of the service", refusal(500, "InternalServerError")),
    ("a fault without a known word", refusal(503, "SomethingNew")),
    ("the service gave up waiting", refusal(400, "RequestTimeout")),
    ("no way there", broken(exceptions.EndpointConnectionError(**ENDPOINT))),
    ("the call gets no answer", broken(exceptions.ConnectTimeoutError(**ENDPOINT))),
    ("no answer", broken(exceptions.ReadTimeoutError(**ENDPOINT))),
    ("broken off", broken(exceptions.ConnectionClosedError(**ENDPOINT))),
    ("no secure connection", broken(exceptions.SSLError(error="reset", **ENDPOINT))),
    ("another transaction", cancelled("TransactionConflict", "None")),
    ("another one, and no room", cancelled("ThrottlingError", "TransactionConflict")),
    ("no room for one of its rows", cancelled("None", "ProvisionedThroughputExceeded")),
]


@pytest.mark.parametrize("says", [row[1] for row in TROUBLE], ids=[row[0] for row in TROUBLE])
def test_what_is_nobodys_fault_is_tried_again(aws: Callable[[str, Says], Any], says: Says) -> None:
    with pytest.raises(ServiceUnavailable) as trouble:
        write(aws("dynamodb", says))
    assert Trouble(error=type(trouble.value).__name__).is_passing


@pytest.mark.parametrize(
    "says",
    [
        refusal(400, "ValidationException"),
        cancelled("ConditionalCheckFailed", "None"),
        cancelled("ConditionalCheckFailed", "TransactionConflict"),
        cancelled("ValidationError"),
    ],
    ids=["not valid", "a condition", "a condition beside a conflict", "not valid in a transaction"],
)
def test_what_is_an_answer_is_left_to_who_has_asked(aws: Callable[[str, Says], Any], says: Says) -> None:
    with pytest.raises(ClientError):
        write(aws("dynamodb", says))


def test_a_denial_names_the_action(aws: Callable[[str, Says], Any]) -> None:
    with pytest.raises(AccessDenied, match="dynamodb:UpdateItem"):
        write(aws("dynamodb", refusal(400, "AccessDeniedException")))


@pytest.mark.parametrize(("operation", "action"), clients.ACTIONS.items())
def test_a_denial_names_what_iam_calls_it_where_the_answer_says_nothing(
    operation: str, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer to HEAD has no body, and s3:HeadBucket is not an action of IAM."""
    known = get_actions_for_service(action.partition(":")[0])
    assert action in known
    assert operation not in known
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "trainyard-train-admit")
    denied = clients.denial("403", "Forbidden", action=operation)
    assert "Give the role of the function trainyard-train-admit " in str(denied)
    assert f"the permission {action}," in str(denied)


def test_an_object_that_breaks_off_is_tried_again(aws: Callable[[str, Says], Any]) -> None:
    headers = {"Content-Length": "100", "ETag": '"e"'}
    aws("s3", lambda request: AWSResponse(request.url, 200, headers, Body(b"a tenth...")))
    with pytest.raises(ServiceUnavailable):
        s3.get("bucket", "key")
