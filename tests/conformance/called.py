"""The operations that a yard may call: those that its published policies allow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache

from botocore.model import OperationModel
from moto.core.utils import get_service_model

from scripts.local_yard import ROOT

PREFIXES = {"stepfunctions": "states"}
"""Services whose prefix of IAM actions is not boto3's name."""
RENAMED = {
    "lambda:InvokeFunction": "lambda:Invoke",
    "s3:ListBucket": "s3:ListObjectsV2",
    "s3:ListAllMyBuckets": "s3:ListBuckets",
}
"""Actions that are not named like their operation."""


@cache
def operations(service: str) -> list[OperationModel]:
    """Return a service's operations that a yard may call."""
    return [each for each in every_operation(service) if is_called(service, each.name)]


@cache
def every_operation(service: str) -> list[OperationModel]:
    model = get_service_model(service)
    return [model.operation_model(name) for name in model.operation_names]


def is_called(service: str, operation: str) -> bool:
    action = f"{PREFIXES.get(service, service)}:{operation}"
    return any(fnmatchcase(action, pattern) for pattern in _actions())


@cache
def _actions() -> frozenset[str]:
    found = {
        action
        for file in sorted((ROOT / "docs" / "policies").glob("*.json"))
        for action in _listed(json.loads(file.read_text()))
    }
    return frozenset(RENAMED.get(each, each) for each in found)


def _listed(policy: dict[str, list[dict[str, list[str] | str]]]) -> Iterator[str]:
    for statement in policy["Statement"]:
        actions = statement.get("Action", [])
        yield from [actions] if isinstance(actions, str) else actions
