"""Clients with one retry policy, and the translation of AWS's errors.

AccessDenied names the denied action. ServiceUnavailable covers throttling, conflicts, network errors and errors of the
service itself. All other errors stay ClientError."""

import os
import random
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ConnectionError as NoConnectionError
from botocore.exceptions import HTTPClientError, IncompleteReadError

from trainyard.core.model.errors import AccessDenied, ServiceUnavailable

DENIED = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AuthorizationError",
        "AuthorizationErrorException",
        "UnauthorizedOperation",
        "403",
    }
)
MISSING_EC2_ROLE = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
THROTTLED = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
        "TransactionInProgressException",
        "Unavailable",
    }
)
"""Codes of requests that AWS refused for now and did not carry out."""
FAILURES = THROTTLED | {
    "InternalError",
    "InternalFailure",
    "InternalServerError",
    "RequestTimeout",
    "RequestTimeoutException",
    "ServiceException",
    "ServiceUnavailable",
}
"""Codes of a service that currently fails; other requests to it would fail, too."""
NO_ANSWER = (HTTPClientError, NoConnectionError, IncompleteReadError)
"""Errors of botocore for a service that was not reached, or whose answer is missing or incomplete."""
TRANSIENT_CANCELLATIONS = frozenset(
    {"TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError"}
)
"""Reasons for which DynamoDB cancels a transaction that may succeed a moment later: a conflict, or missing throughput.
(API reference, TransactionCanceledException)"""
CONFLICT_TRIES = 8
CONFLICT_SECONDS = 0.05
"""The pause before the second try of a conflicting transaction. It doubles with each try."""
INVISIBLE = ("InvalidAMIID.NotFound", "InvalidArnException")
INVISIBLE_TRIES = 4
EVENTUALLY_VISIBLE = {"ec2": "DeregisterImage", "kms": "CreateGrant"}
"""Operations, by service, that AWS may refuse for some seconds after their object was created: a new image in EC2, a
new role in KMS."""
ACTION = re.compile(r"not authorized to perform:? ([a-z0-9-]+:[A-Za-z]+)")
PREFIXES = {"efs": "elasticfilesystem", "stepfunctions": "states", "service-quotas": "servicequotas"}
"""Names of services in IAM that differ from the name of the client."""
ACTIONS = {
    "s3:CopyObject": "s3:PutObject",
    "s3:CreateMultipartUpload": "s3:PutObject",
    "s3:DeleteObjects": "s3:DeleteObject",
    "s3:HeadBucket": "s3:ListBucket",
    "s3:HeadObject": "s3:GetObject",
    "s3:ListObjectsV2": "s3:ListBucket",
    "s3:UploadPart": "s3:PutObject",
    "dynamodb:TransactWriteItems": "dynamodb:UpdateItem",
}
"""Names of actions in IAM that differ from the name of the operation (service authorization reference). Answers to HEAD
contain no action."""


@cache
def client(service: str, region: str | None = None, *, read_seconds: float = 30.0) -> Any:
    """Return the cached client of a service, by default in the region of this process. botocore retries transient
    errors. `read_seconds` limits the wait for an answer."""
    config = Config(
        retries={"mode": "standard", "total_max_attempts": 5},
        connect_timeout=5,
        read_timeout=read_seconds,
    )
    made = boto3.client(service, region_name=region, config=config)
    made.meta.events.register("after-call", _raise_by_code)
    made.meta.events.register("after-call-error", _raise_network)
    if service == "dynamodb":
        made.meta.events.register("needs-retry.dynamodb.TransactWriteItems", _conflict_delay)
    if service in EVENTUALLY_VISIBLE:
        made.meta.events.register(f"needs-retry.{service}.{EVENTUALLY_VISIBLE[service]}", _visibility_delay)
    return made


def denial(code: str, message: str, *, action: str) -> AccessDenied | None:
    """Return AccessDenied if the error is a denial, else None. It names the action from the message, else `action`."""
    if code == MISSING_EC2_ROLE:
        return AccessDenied(
            f"The account lacks a service-linked role that EC2 needs for launches ({message}). The deployment could "
            "not create it (output Prepared of the Training stack), so no host can be launched. An administrator "
            "creates it with aws iam create-service-linked-role --aws-service-name spot.amazonaws.com, and again with "
            "ec2fleet.amazonaws.com"
        )
    if code not in DENIED and "is not authorized to perform" not in message:
        return None
    named = ACTION.search(message)
    action = named.group(1) if named else ACTIONS.get(action, action)
    function = f"the function {os.environ.get('AWS_LAMBDA_FUNCTION_NAME', '')}".rstrip()
    return AccessDenied(
        f"The role may not {action}: {message or code}. "
        f"Give the role of {function} (or of the host) the permission {action}, and start the run again."
    )


def _raise_by_code(http_response: Any, parsed: dict[str, Any], model: Any, **_: Any) -> None:
    error = parsed.get("Error")
    if not error:
        return
    code, message = str(error.get("Code", "")), str(error.get("Message", ""))
    service = model.service_model.service_name
    denied = denial(code, message, action=f"{PREFIXES.get(service, service)}:{model.name}")
    if denied:
        raise denied
    if code in FAILURES or http_response.status_code >= 500 or _is_transient_cancellation(parsed):
        raise ServiceUnavailable(f"{service} does not do {model.name} now ({code}: {message})", code)


def _raise_network(exception: Exception, **_: Any) -> None:
    if isinstance(exception, NO_ANSWER):
        raise as_unavailable(exception) from exception


def as_unavailable(error: Exception) -> ServiceUnavailable:
    """Return the error for one of NO_ANSWER. AWS may have carried out the request."""
    return ServiceUnavailable(f"AWS could not be asked: {error}", type(error).__name__)


def _is_transient_cancellation(parsed: Mapping[str, Any]) -> bool:
    """Return True if a transaction failed only for transient reasons."""
    codes = {str(reason.get("Code")) for reason in parsed.get("CancellationReasons", [])} - {"None"}
    return bool(codes) and codes <= TRANSIENT_CANCELLATIONS


def _conflict_delay(response: tuple[Any, Mapping[str, Any]] | None, attempts: int, **_: Any) -> float | None:
    """Return the seconds until botocore retries a conflicting transaction; None leaves the decision to botocore."""
    if response is None or not _is_transient_cancellation(response[1]) or attempts >= CONFLICT_TRIES:
        return None
    return random.uniform(0.5, 1.0) * CONFLICT_SECONDS * (1 << attempts)


def _visibility_delay(
    response: tuple[Any, Mapping[str, Any]] | None, attempts: int, **_: Any
) -> float | None:
    """Return the seconds until botocore retries a request for an object that AWS does not show yet."""
    if response is None or response[1].get("Error", {}).get("Code") not in INVISIBLE:
        return None
    return float(2 ** (attempts - 1)) if attempts < INVISIBLE_TRIES else None
