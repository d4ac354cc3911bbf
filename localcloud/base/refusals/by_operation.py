"""Refusals of requests by boto3's names: by the service's model first, then by its rules."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from botocore import xform_name
from botocore.model import OperationModel
from botocore.session import Session

from localcloud.base import constraints
from localcloud.base.refusals import Refusal, Request, Rule, objects, state_machines

CONSTRAINED: Mapping[str, tuple[str, Collection[str]]] = {
    "cloudformation": ("ValidationError", ("stackName",)),
    "cloudwatch": ("ValidationError", ("stateValue",)),
    "dynamodb": ("ValidationException", ()),
    "events": ("ValidationException", ()),
    "iam": ("ValidationError", ()),
    "kms": ("ValidationException", ()),
    "lambda": ("ValidationException", ("runtime",)),
    "logs": ("InvalidParameterException", ("logGroupName", "logStreamName")),
    "ssm": ("ValidationException", ("parameterFilters.1.member.key",)),
    "stepfunctions": ("ValidationException", ("name", "roleArn")),
    "sts": ("ValidationError", ()),
}
"""Services whose requests are checked against their model: the error code, and fields to skip."""
RULES: Mapping[str, Rule] = {
    f"{service}.{xform_name(operation)}": rule
    for service, rules in (("s3", objects.RULES), ("stepfunctions", state_machines.RULES))
    for operation, rule in rules.items()
}


def refusal(service: str, operation: str, request: Request) -> Refusal | None:
    """Return why AWS refuses a request, by its parameters only."""
    model = _operations(service).get(operation) if service in CONSTRAINED else None
    if model is not None and (wrong := by_model(service, model, request)):
        return wrong
    rule = RULES.get(f"{service}.{operation}")
    return rule(request) if rule else None


def by_model(service: str, operation: Any, request: Request) -> Refusal | None:
    """Return the violations of the service's model."""
    if service not in CONSTRAINED or operation.input_shape is None:
        return None
    code, unchecked = CONSTRAINED[service]
    message = constraints.refusal(operation.input_shape, request, unchecked)
    return Refusal(code, message) if message else None


@cache
def _operations(service: str) -> Mapping[str, OperationModel]:
    model = Session().get_service_model(service)
    return {xform_name(name): model.operation_model(name) for name in model.operation_names}
