"""Refusals of requests that ministack accepts and AWS refuses, and AWS's messages for refusals of ministack.

tests/contract/refusals.yaml lists both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import yaml
from botocore.model import OperationNotFoundError
from ministack.core.responses import get_region
from ministack.services import eventbridge, iam
from moto.core.utils import get_service_model

from localcloud.base import constraints, publications
from localcloud.server import refusals
from localcloud.server.refusals import Answer, Handler

WORDS = Path(__file__).with_name("words.yaml")
CONSTRAINED = {
    "events": ("events", "ValidationException", ()),
    "logs": ("logs", "InvalidParameterException", ()),
    "states": ("stepfunctions", "ValidationException", ("name",)),
}
"""Services whose requests are checked against their model: botocore's name, the error code, and fields to skip."""
MOST_TARGETS = 5
NOT_FOUND = ("NoSuchEntity",)
Request = Mapping[str, Any]
Refusal = tuple[str, str]
"""Code and message."""


def install() -> None:
    words = {
        service: [(re.compile(pattern), text) for pattern, text in rows.items()]
        for service, rows in yaml.safe_load(WORDS.read_text()).items()
    }

    def around(service: str, handler: Handler) -> Handler:
        rows = words.get(service, [])
        if not rows and service not in CONSTRAINED:
            return handler
        refused = {"iam": policy_refusal, "sns": publish_refusal}.get(service, refusal)

        async def handle(
            method: str, path: str, headers: Mapping[str, str], body: bytes, query: Mapping[str, Any]
        ) -> Answer:
            wrong = refused(service, headers.get("x-amz-target", "").rpartition(".")[2], body)
            if wrong:
                status = 404 if wrong[0] in NOT_FOUND else 400
                return refusals.answer(service, headers, *wrong, status=status)
            status, answered, text = await handler(method, path, headers, body, query)
            if status >= 400 and isinstance(text, bytes):
                text = replace_messages(text.decode(), rows).encode()
                answered = {key: value for key, value in answered.items() if key.lower() != "content-length"}
            return status, answered, text

        return handle

    refusals.wrap_services(around)


def refusal(service: str, action: str, body: bytes) -> Refusal | None:
    """Return why AWS refuses the request, or None."""
    if service not in CONSTRAINED:
        return None
    try:
        request = json.loads(body or b"{}")
        name, code, own = CONSTRAINED[service]
        model = get_service_model(name).operation_model(action)
    except (ValueError, OperationNotFoundError):  # ministack refuses these itself
        return None
    if model.input_shape is not None and (message := constraints.refusal(model.input_shape, request, own)):
        return code, message
    check = CHECKS.get((service, action))
    return check(request) if check else None


def policy_refusal(service: str, _: str, body: bytes) -> Refusal | None:
    """Return why IAM refuses a policy, or None."""
    given = {name: values[0] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
    match given.get("Action"):
        case "CreateRole" | "UpdateAssumeRolePolicy" | "PutRolePolicy":
            document = given.get("AssumeRolePolicyDocument") or given.get("PolicyDocument", "")
            try:
                json.loads(document)
            except ValueError:
                return "MalformedPolicyDocument", "This policy contains invalid Json"
        case "AttachRolePolicy":
            arn = given.get("PolicyArn", "")
            if not arn.startswith("arn:"):
                return "ValidationError", "Invalid ARN:  Could not be parsed!"
            if ":aws:policy/" not in arn and not iam.policy_known(arn):
                return "NoSuchEntity", f"Policy {arn} does not exist or is not attachable."
    return None


def publish_refusal(service: str, _: str, body: bytes) -> Refusal | None:
    """Return why SNS does not publish a message, or None."""
    text = body.decode("utf-8", "replace")
    given = {name: values[0] for name, values in parse_qs(text, keep_blank_values=True).items()}
    if given.get("Action") != "Publish" or "TopicArn" not in given:
        return None
    message, subject, structure = (
        given.get("Message", ""),
        given.get("Subject"),
        given.get("MessageStructure"),
    )
    wrong = publications.refusal(given["TopicArn"], get_region(), message, subject, structure)
    return ("InvalidParameter", wrong) if wrong else None


def replace_messages(text: str, rows: list[tuple[re.Pattern[str], str]]) -> str:
    """Replace ministack's messages with AWS's."""
    for pattern, words in rows:
        text = pattern.sub(words, text)
    return text


def _targets_of(request: Request, rule: str) -> list[Mapping[str, Any]]:
    key = eventbridge._rule_key(request.get(rule), request.get("EventBusName", "default"))
    return eventbridge._targets.get(key) or []


def _delete_rule(request: Request) -> Refusal | None:
    if _targets_of(request, "Name"):
        return "ValidationException", "Rule can't be deleted since it has targets."
    return None


def _put_targets(request: Request) -> Refusal | None:
    known = {each["Id"] for each in (*_targets_of(request, "Rule"), *request["Targets"])}
    if len(known) > MOST_TARGETS:
        return "LimitExceededException", "The requested resource exceeds the maximum number allowed."
    return None


def _put_log_events(request: Request) -> Refusal | None:
    times = [each["timestamp"] for each in request["logEvents"]]
    if times != sorted(times):
        message = "Log events in a single PutLogEvents request must be in chronological order."
        return "InvalidParameterException", message
    return None


def _describe_log_groups(request: Request) -> Refusal | None:
    if request.get("logGroupNamePrefix") and request.get("logGroupNamePattern"):
        message = "LogGroup name prefix and LogGroup name pattern are mutually exclusive parameters."
        return "InvalidParameterException", message
    return None


CHECKS: Mapping[tuple[str, str], Callable[[Request], Refusal | None]] = {
    ("events", "DeleteRule"): _delete_rule,
    ("events", "PutTargets"): _put_targets,
    ("logs", "PutLogEvents"): _put_log_events,
    ("logs", "DescribeLogGroups"): _describe_log_groups,
}
