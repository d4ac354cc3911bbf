"""Requests that AWS would have come again: those beyond the settings' rates, and those that a fault refuses.

A rate is an account's in a region, as on AWS. Rates fill in real time and begin full when the server starts.
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
"""boto3's names of services, where they are not IAM's."""
ACTIONS = {
    "s3:HeadObject": "s3:GetObject",
    "s3:ListObjects": "s3:ListBucket",
    "s3:ListObjectsV2": "s3:ListBucket",
    "lambda:Invoke": "lambda:InvokeFunction",
}
"""IAM's names of actions, where they are not the operation's."""


@dataclass(frozen=True)
class Words:
    """How a service says that there were too many requests."""

    code: str = "ThrottlingException"
    message: str = "Rate exceeded"
    status: int = 400


WORDS = {
    "ec2": Words("RequestLimitExceeded", "Request limit exceeded.", 503),
    "s3": Words("SlowDown", "Please reduce your request rate.", 503),
    "servicequotas": Words("TooManyRequestsException", "Rate exceeded", 429),
    "lambda": Words("TooManyRequestsException", "Rate Exceeded.", 429),
    **dict.fromkeys(("cloudwatch", "cloudformation", "iam", "sts", "sns"), Words("Throttling")),
}
"""By IAM's name of the service."""
MESSAGES = {"Unavailable": "The server is overloaded."}
STATUSES = {
    "InternalError": 500,
    "InternalFailure": 500,
    "InternalServerError": 500,
    "ServiceUnavailable": 503,
    "SlowDown": 503,
    "Unavailable": 503,
}
"""Of codes that somebody asks for."""


EVERY = "*"
"""In place of an operation: every one of the service."""


class Throttle(Injected[Words]):
    """Actions whose next so many requests, or all for a while, are refused."""

    def fail(self, action: str, code: str | None, times: int | None, seconds: float | None = None) -> str:
        """Refuse requests of this action ("ssm:SendCommand"; EC2's may go without "ec2:"), or of a whole service
        ("s3:*"), from now on. Return the code that they answer."""
        service, _, operation = _known(action)
        usual = WORDS.get(service, Words())
        words = usual
        if code and code != usual.code:
            words = Words(code, MESSAGES.get(code, "Injected fault."), STATUSES.get(code, 400))
        self.set(f"{service}:{operation}", words, times, seconds)
        return words.code

    def take_action(self, action: str) -> Words | None:
        """Return how this request is refused, by a fault of its action or of its whole service; None if it is not."""
        return self.take(action) or self.take(f"{action.partition(':')[0]}:{EVERY}")

    def throttled(self) -> dict[str, int | str | None]:
        """Which actions are still refused: how many times, or until when."""
        return {
            f"{action.removeprefix('ec2:')} {words.code}": until.isoformat()
            if (until := self.until(action))
            else times
            for action, (words, times) in self.active().items()
        }


class Limits:
    """The settings' rates: a bucket for each action of each account and region."""

    def __init__(self, settings: Settings) -> None:
        self._rates = {"request": settings.rates, "resource": settings.resource_rates}
        self._buckets: dict[tuple[str, ...], Bucket] = {}
        self._lock = threading.Lock()

    def take(self, action: str, resources: int) -> bool:
        """Whether the current account may do this now, in the current region."""
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
    """Stand in front of every service."""
    limits = Limits(settings)

    def limited(service: str, handler: Handler) -> Handler:
        async def handle(
            method: str, path: str, headers: Mapping[str, str], body: bytes, query_params: Mapping[str, Any]
        ) -> Answer:
            parameters = {**_form(headers, body), **(query_params or {})}
            action = iam_actions.extract_iam_action(service, method, path, headers, body, parameters)
            words = throttle.take_action(action) if action else None
            if words is None and action and not limits.take(action, _named(parameters)):
                words = WORDS.get(action.partition(":")[0], Words())
            if words is None:
                return await handler(method, path, headers, body, query_params)
            calls.come_again()
            return refusals.answer(service, headers, words.code, words.message, words.status)

        return handle

    refusals.in_front_of_all(limited)


def _form(headers: Mapping[str, str], body: bytes | str) -> dict[str, list[str]]:
    if "x-www-form-urlencoded" not in headers.get("content-type", ""):
        return {}
    return urllib.parse.parse_qs(body.decode() if isinstance(body, bytes) else body, keep_blank_values=True)


def _named(parameters: Mapping[str, Any]) -> int:
    """How many instances a request of EC2's is about."""
    most = parameters.get("MaxCount", ["0"])[0]
    return sum(name.startswith("InstanceId.") for name in parameters) or (int(most) if most.isdigit() else 0)


def _known(action: str) -> tuple[str, str, str]:
    """Service, colon and action as IAM has them; admin.Refused where there is no such."""
    service, _, operation = action.rpartition(":")
    service = service or "ec2"
    try:
        operations = get_service_model(MODELS.get(service, service)).operation_names
    except UnknownServiceError as unknown:
        raise admin.Refused(
            f"there is no service {service!r}; allowed: ec2, ssm, states, dynamodb, s3 ..., as in a policy"
        ) from unknown
    if operation == EVERY:
        return service, ":", EVERY
    if operation not in operations:
        like = difflib.get_close_matches(operation, operations, 3, 0.5) or list(operations)[:3]
        raise admin.Refused(f"there is no {service} action {operation!r}; there is {', '.join(like)} ...")
    named = ACTIONS.get(f"{service}:{operation}", f"{service}:{operation}")
    return named.partition(":")
