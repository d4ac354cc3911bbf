"""Clients that all retry alike, and the one place where AWS's errors get a word: AccessDenied, with the action's name,
when IAM says no; ServiceUnavailable when AWS is in trouble, be it throttling, its own fault, a conflict or the network.
What is left is a ClientError, for whoever asked to know."""

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

NO = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AuthorizationError",
        "AuthorizationErrorException",
        "UnauthorizedOperation",
        "403",
    }
)
NO_ROLE_OF_EC2 = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
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
"""AWS has done nothing, for now."""
TROUBLE = THROTTLED | {
    "InternalError",
    "InternalFailure",
    "InternalServerError",
    "RequestTimeout",
    "RequestTimeoutException",
    "ServiceUnavailable",
}
"""A service's own trouble: whatever else it is asked now fares no better."""
NO_ANSWER = (HTTPClientError, NoConnectionError, IncompleteReadError)
"""botocore's errors where a service was not reached, said nothing or broke off."""
NOT_NOW = frozenset({"TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError"})
"""Why DynamoDB cancels a transaction that it may do a moment later: another one wrote the same rows, or it has no room.
(API reference, TransactionCanceledException)"""
CONFLICT_TRIES = 8
CONFLICT_SECONDS = 0.05
"""Before the second try of a transaction that met another, doubled each time."""
NOT_SHOWN = ("InvalidAMIID.NotFound", "InvalidArnException")
NOT_SHOWN_TRIES = 4
SHOWN_LATE = {"ec2": "DeregisterImage", "kms": "CreateGrant"}
"""AWS may deny for some seconds what has just been made: EC2 an image, KMS a role that is to have a grant."""
ACTION = re.compile(r"not authorized to perform:? ([a-z0-9-]+:[A-Za-z]+)")
PREFIXES = {"stepfunctions": "states", "service-quotas": "servicequotas"}
"""IAM's names of services, where they are not the client's."""
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
"""IAM's names of actions, where they are not the operation's (service authorization reference). What answers HEAD says
none itself."""


@cache
def client(service: str, region: str | None = None, *, read_seconds: float = 30.0) -> Any:
    """The client of this process for that service, in the process's own region where none is named; botocore does the
    retries that AWS's hiccups need. `read_seconds`: how long it waits for an answer."""
    config = Config(
        retries={"mode": "standard", "total_max_attempts": 5},
        connect_timeout=5,
        read_timeout=read_seconds,
    )
    made = boto3.client(service, region_name=region, config=config)
    made.meta.events.register("after-call", _raise_known)
    made.meta.events.register("after-call-error", _raise_network)
    if service == "dynamodb":
        made.meta.events.register("needs-retry.dynamodb.TransactWriteItems", _wait_for_others)
    if service in SHOWN_LATE:
        made.meta.events.register(f"needs-retry.{service}.{SHOWN_LATE[service]}", _wait_until_shown)
    return made


def denial(code: str, message: str, *, action: str) -> AccessDenied | None:
    """The denial that an error of AWS is, naming the action (the message's own where it has one); else None."""
    if code == NO_ROLE_OF_EC2:
        return AccessDenied(
            f"The account lacks a role that EC2 launches through ({message}), and the deployment could not make it, as "
            "the Training stack's output Prepared says. Somebody who may makes it once: aws iam "
            "create-service-linked-role --aws-service-name spot.amazonaws.com, and the same for ec2fleet.amazonaws.com"
        )
    if code not in NO and "is not authorized to perform" not in message:
        return None
    named = ACTION.search(message)
    action = named.group(1) if named else ACTIONS.get(action, action)
    function = f"the function {os.environ.get('AWS_LAMBDA_FUNCTION_NAME', '')}".rstrip()
    return AccessDenied(
        f"The role may not {action}: {message or code}. "
        f"Give the role of {function} (or of the host) the permission {action}, and start the run again."
    )


def _raise_known(http_response: Any, parsed: dict[str, Any], model: Any, **_: Any) -> None:
    error = parsed.get("Error")
    if not error:
        return
    code, message = str(error.get("Code", "")), str(error.get("Message", ""))
    service = model.service_model.service_name
    denied = denial(code, message, action=f"{PREFIXES.get(service, service)}:{model.name}")
    if denied:
        raise denied
    if code in TROUBLE or http_response.status_code >= 500 or _cancelled_for_now(parsed):
        raise ServiceUnavailable(f"{service} does not do {model.name} now ({code}: {message})", code)


def _raise_network(exception: Exception, **_: Any) -> None:
    if isinstance(exception, NO_ANSWER):
        raise unanswered(exception) from exception


def unanswered(error: Exception) -> ServiceUnavailable:
    """The word for one of NO_ANSWER: what was asked may have been done."""
    return ServiceUnavailable(f"AWS could not be asked: {error}", type(error).__name__)


def _cancelled_for_now(parsed: Mapping[str, Any]) -> bool:
    """Whether a transaction failed for reasons that pass."""
    codes = {str(reason.get("Code")) for reason in parsed.get("CancellationReasons", [])} - {"None"}
    return bool(codes) and codes <= NOT_NOW


def _wait_for_others(response: tuple[Any, Mapping[str, Any]] | None, attempts: int, **_: Any) -> float | None:
    """Seconds until botocore tries such a transaction again; None where its own rules decide."""
    if response is None or not _cancelled_for_now(response[1]) or attempts >= CONFLICT_TRIES:
        return None
    return random.uniform(0.5, 1.0) * CONFLICT_SECONDS * (1 << attempts)


def _wait_until_shown(
    response: tuple[Any, Mapping[str, Any]] | None, attempts: int, **_: Any
) -> float | None:
    """Seconds until botocore asks again for what AWS does not show, yet or any more."""
    if response is None or response[1].get("Error", {}).get("Code") not in NOT_SHOWN:
        return None
    return float(2 ** (attempts - 1)) if attempts < NOT_SHOWN_TRIES else None
