"""The check of a customer's KMS key for a yard: its state, and its policy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from trainyard.client.session import Session

LOGS = (
    "kms:Encrypt",
    "kms:Decrypt",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
    "kms:GenerateDataKey",
    "kms:DescribeKey",
)
"""docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html"""
ALARMS = ("kms:Decrypt", "kms:GenerateDataKey")
"""docs.aws.amazon.com/sns/latest/dg/sns-key-management.html"""
EVERYTHING = ("kms:*",)
WHO_ALARMS = "CloudWatch's alarms"


def state(session: Session, key: str) -> str:
    """Return why the key cannot be used in the session's region, or an empty text."""
    client = session.client("kms")
    try:
        found = client.describe_key(KeyId=key)["KeyMetadata"]
    except client.exceptions.NotFoundException:
        return f"it does not exist in {session.region}"
    if found["KeyState"] != "Enabled":
        return f"it is {found['KeyState']}"
    if (found["KeyUsage"], found["KeySpec"]) != ("ENCRYPT_DECRYPT", "SYMMETRIC_DEFAULT"):
        return f"it is for {found['KeyUsage']} ({found['KeySpec']}); a symmetric encryption key is required"
    return ""


def missing_statements(session: Session, key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each principal that the key's policy does not allow to do what a yard needs, with the missing statement."""
    account = key.split(":")[4]
    partition = key.split(":")[1]
    asked = session.client("kms").get_key_policy(KeyId=key, PolicyName="default")["Policy"]
    statements = json.loads(asked)["Statement"]
    for who, principal, actions in (
        (f"the account {account}", {"AWS": f"arn:{partition}:iam::{account}:root"}, EVERYTHING),
        ("CloudWatch Logs", {"Service": f"logs.{session.region}.amazonaws.com"}, LOGS),
        (WHO_ALARMS, {"Service": "cloudwatch.amazonaws.com"}, ALARMS),
    ):
        if not all(_allows(statements, principal, action) for action in actions):
            allowed = {"Principal": principal, "Action": list(actions), "Resource": "*"}
            yield who, {"Effect": "Allow", **allowed}


def _allows(statements: list[Mapping[str, Any]], principal: Mapping[str, str], action: str) -> bool:
    return any(
        statement["Effect"] == "Allow"
        and _names(statement.get("Principal", {}), principal)
        and any(fnmatchcase(action, pattern) for pattern in _as_list(statement.get("Action", [])))
        for statement in statements
    )


def _names(given: Any, principal: Mapping[str, str]) -> bool:
    [(kind, name)] = principal.items()
    named = _as_list(given.get(kind, []) if isinstance(given, Mapping) else given)
    account = name.split(":")[4] if kind == "AWS" else name
    return bool({name, account, "*"} & set(named))


def _as_list(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
