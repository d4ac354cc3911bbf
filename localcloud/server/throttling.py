"""Throttling of requests beyond the rates in the settings, and of requests that a fault refuses.

As on AWS, a rate applies to an account in a region. Buckets fill in real time and are full when the server starts.
"""

from __future__ import annotations

import difflib
import threading
import time
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import UnknownServiceError
from ministack.core import iam_actions
from ministack.core.responses import get_account_id, get_region
from moto.core.utils import get_service_model

from localcloud.base.calls import calls
from localcloud.base.injected import Injected
from localcloud.base.rates import Bucket, Rate, rate_of
from localcloud.base.settings import Settings
from localcloud.server import admin, refusals
from localcloud.server.refusals import Answer, Handler

MODELS = {"states": "stepfunctions", "servicequotas": "service-quotas"}
"""boto3's service names that differ from IAM's."""
ACTIONS = {
    "s3:HeadObject": "s3:GetObject",
    "s3:ListObjects": "s3:ListBucket",
    "s3:ListObjectsV2": "s3:ListBucket",
    "lambda:Invoke": "lambda:InvokeFunction",
}
"""IAM's action names that differ from the operation's."""


@dataclass(frozen=True)
class ThrottlingError:
    """A service's error for too many requests."""

    code: str = "ThrottlingException"
    message: str = "Rate exceeded"
    status: int = 400


THROTTLING_ERRORS = {
    "ec2": ThrottlingError("RequestLimitExceeded", "Request limit exceeded.", 503),
    "s3": ThrottlingError("SlowDown", "Please reduce your request rate.", 503),
    "servicequotas": ThrottlingError("TooManyRequestsException", "Rate exceeded", 429),
    "lambda": ThrottlingError("TooManyRequestsException", "Rate Exceeded.", 429),
    **dict.fromkeys(("cloudwatch", "cloudformation", "iam", "sts", "sns"), ThrottlingError("Throttling")),
}
"""Throttling errors by IAM's service name."""
MESSAGES = {"Unavailable": "The server is overloaded."}
STATUSES = {
    "InternalError": 500,
    "InternalFailure": 500,
    "InternalServerError": 500,
    "ServiceUnavailable": 503,
    "SlowDown": 503,
    "Unavailable": 503,
}
"""HTTP status of error codes that a fault may name."""


EVERY = "*"
"""Stands for every operation of a service."""


class Throttle(Injected[ThrottlingError]):
    """Faults that refuse requests of an action."""

    def fail(self, action: str, code: str | None, times: int | None, seconds: float | None = None) -> str:
        """Refuse requests of an action ("ssm:SendCommand"; "ec2:" is optional) or of a whole service ("s3:*").

        Return the error code of the refusals.
        """
        service, _, operation = _parse_action(action)
        usual = THROTTLING_ERRORS.get(service, ThrottlingError())
        error = usual
        if code and code != usual.code:
            error = ThrottlingError(code, MESSAGES.get(code, "Injected fault."), STATUSES.get(code, 400))
        self.set(f"{service}:{operation}", error, times, seconds)
        return error.code

    def take_action(self, action: str) -> ThrottlingError | None:
        """Return the error for this request from a fault of its action or service, or None."""
        return self.take(action) or self.take(f"{action.partition(':')[0]}:{EVERY}")

    def list_throttled(self) -> dict[str, int | str | None]:
        """Return the remaining number of refusals, or their end time, by action and error code."""
        return {
            f"{action.removeprefix('ec2:')} {error.code}": until.isoformat()
            if (until := self.until(action))
            else times
            for action, (error, times) in self.active().items()
        }


class Limits:
    """The rates in the settings: a bucket for each action, account and region."""

    def __init__(self, settings: Settings) -> None:
        self._rates = {"request": settings.rates, "resource": settings.resource_rates}
        self._buckets: dict[tuple[str, ...], Bucket] = {}
        self._lock = threading.Lock()

    def take(self, action: str, resources: int) -> bool:
        """Return True if the current account may call the action now in the current region."""
        return self._has("request", action, 1) and self._has("resource", action, resources)

    def _has(self, kind: str, action: str, tokens: int) -> bool:
        rate: Rate | None = rate_of(self._rates[kind], action)
        if rate is None or not tokens:
            return True
        now, whose = time.monotonic(), (get_account_id(), get_region(), kind, action)
        with self._lock:
            return self._buckets.setdefault(whose, Bucket(rate, now)).take(tokens, now)


throttle = Throttle()


def install(settings: Settings) -> None:
    limits = Limits(settings)

    def limited(service: str, handler: Handler) -> Handler:
        async def handle(
            method: str, path: str, headers: Mapping[str, str], body: bytes, query_params: Mapping[str, Any]
        ) -> Answer:
            parameters = {**_form(headers, body), **(query_params or {})}
            action = iam_actions.extract_iam_action(service, method, path, headers, body, parameters)
            error = throttle.take_action(action) if action else None
            if error is None and action and not limits.take(action, _count_instances(parameters)):
                error = THROTTLING_ERRORS.get(action.partition(":")[0], ThrottlingError())
            if error is None:
                return await handler(method, path, headers, body, query_params)
            calls.mark_retryable()
            return refusals.answer(service, headers, error.code, error.message, error.status)

        return handle

    refusals.wrap_services(limited)


def _form(headers: Mapping[str, str], body: bytes | str) -> dict[str, list[str]]:
    if "x-www-form-urlencoded" not in headers.get("content-type", ""):
        return {}
    return urllib.parse.parse_qs(body.decode() if isinstance(body, bytes) else body, keep_blank_values=True)


def _count_instances(parameters: Mapping[str, Any]) -> int:
    """Return the number of instances that an EC2 request names or launches."""
    most = parameters.get("MaxCount", ["0"])[0]
    return sum(name.startswith("InstanceId.") for name in parameters) or (int(most) if most.isdigit() else 0)


def _parse_action(action: str) -> tuple[str, str, str]:
    """Split an action into service, colon and operation as IAM names them. Raise admin.Refused for an unknown one."""
    service, _, operation = action.rpartition(":")
    service = service or "ec2"
    try:
        operations = get_service_model(MODELS.get(service, service)).operation_names
    except UnknownServiceError as unknown:
        raise admin.Refused(
            f"unknown service {service!r}; allowed: ec2, ssm, states, dynamodb, s3 ..., as in a policy"
        ) from unknown
    if operation == EVERY:
        return service, ":", EVERY
    if operation not in operations:
        like = difflib.get_close_matches(operation, operations, 3, 0.5) or list(operations)[:3]
        raise admin.Refused(f"unknown {service} action {operation!r}; similar actions: {', '.join(like)}")
    named = ACTIONS.get(f"{service}:{operation}", f"{service}:{operation}")
    return named.partition(":")
