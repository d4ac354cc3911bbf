"""Clients that all retry alike and that all say AccessDenied, with the action's name, when IAM says no."""

import re
from functools import cache
from typing import Any

import boto3
from botocore.config import Config

from lambdas.core.model.errors import AccessDenied

NO = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AuthorizationError",
        "AuthorizationErrorException",
        "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
        "UnauthorizedOperation",
        "403",
    }
)
TROUBLE = frozenset(
    {
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "RequestLimitExceeded",
        "ServiceUnavailable",
        "Throttling",
        "ThrottlingException",
        "Unavailable",
    }
)
"""A service's own trouble: whatever else it is asked now fares no better."""
ACTION = re.compile(r"not authorized to perform:? ([a-z0-9-]+:[A-Za-z]+)")
PREFIXES = {"stepfunctions": "states", "service-quotas": "servicequotas"}
"""IAM's names of services, where they are not the client's."""
ACTIONS = {"s3:ListObjectsV2": "s3:ListBucket", "dynamodb:TransactWriteItems": "dynamodb:UpdateItem"}
"""IAM's names of actions, where they are not the operation's."""


@cache
def client(service: str) -> Any:
    """The client of this process for that service; botocore does the retries that AWS's hiccups need."""
    config = Config(retries={"mode": "standard", "total_max_attempts": 5}, connect_timeout=5, read_timeout=30)
    made = boto3.client(service, config=config)
    made.meta.events.register("after-call", _raise_denial)
    return made


def denial(code: str, message: str, *, action: str) -> AccessDenied | None:
    """The denial that an error of AWS is, naming the action (the message's own where it has one); else None."""
    if code not in NO and "is not authorized to perform" not in message:
        return None
    named = ACTION.search(message)
    action = named.group(1) if named else ACTIONS.get(action, action)
    return AccessDenied(
        f"The role may not {action}: {message or code}. "
        f"Give the role of this function (or of the host) the permission {action}; nothing was retried."
    )


def _raise_denial(parsed: dict[str, Any], model: Any, **_: Any) -> None:
    error = parsed.get("Error")
    if not error:
        return
    service = model.service_model.service_name
    action = f"{PREFIXES.get(service, service)}:{model.name}"
    denied = denial(str(error.get("Code", "")), str(error.get("Message", "")), action=action)
    if denied:
        raise denied
