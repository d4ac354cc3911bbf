"""Headers of PutObject that need separate S3 permissions: ACLs, tags and object locks.

docs.aws.amazon.com/AmazonS3/latest/API/API_PutObject.html, "Permissions".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs

from localcloud.patches import MINISTACK
from localcloud.services.iam.checks import Check

TAG_KEYS = "s3:RequestObjectTagKeys"
LOCKS = {
    "x-amz-object-lock-mode": "s3:object-lock-mode",
    "x-amz-object-lock-retain-until-date": "s3:object-lock-retain-until-date",
    "x-amz-object-lock-legal-hold": "s3:object-lock-legal-hold",
}
"""Condition key of each header."""
ACTIONS = {
    "s3:x-amz-acl": "s3:PutObjectAcl",
    "s3:x-amz-grant-": "s3:PutObjectAcl",
    "s3:requestobjecttagkeys": "s3:PutObjectTagging",
    "s3:object-lock-legal-hold": "s3:PutObjectLegalHold",
    "s3:object-lock-": "s3:PutObjectRetention",
}
"""Actions by prefix of the condition key in lower case. The first match counts."""


def install() -> None:
    """Add tags and locks to ministack's condition keys of a request."""
    stock = MINISTACK.stock("core.iam_actions:s3_service_context")

    def context(
        action: str, query: Mapping[str, Any] | None, path: str = "", sent: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        found: dict[str, Any] = stock(action, query, path, sent)
        return found | _checks_of_write(sent or {}) if action == "s3:PutObject" else found

    MINISTACK.replace("core.iam_actions:s3_service_context", context)


def checks_of(base: Check) -> Iterator[Check]:
    """Yield the checks for a write's headers, besides the check of the write itself."""
    if base.action == "s3:PutObject":
        actions = {_action_of(key) for key in base.context} - {None}
        yield from (Check(str(action), base.resource, base.context) for action in sorted(map(str, actions)))


def _checks_of_write(sent: Mapping[str, str]) -> dict[str, Any]:
    tags = list(parse_qs(sent.get("x-amz-tagging", ""), keep_blank_values=True))
    locks = {key: sent[name] for name, key in LOCKS.items() if name in sent}
    return locks | ({TAG_KEYS: tags} if tags else {})


def _action_of(key: str) -> str | None:
    return next((action for beginning, action in ACTIONS.items() if key.lower().startswith(beginning)), None)
