"""Counts of API calls by caller and action: `GET /_localcloud/calls`, for benchmarks and for tuning of polling.

Each signed request counts once, when IAM checks it, whatever the answer is. A request with a retryable error, such as
throttling or a write conflict, has a separate count, because its retries depend on other callers.
"""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from typing import Any

from ministack.core import iam_evaluator

from localcloud.base.calls import calls
from localcloud.patches import MINISTACK
from localcloud.server import admin

_uncounted: contextvars.ContextVar[bool] = contextvars.ContextVar("calls_uncounted", default=False)


def caller_name(arn: str) -> str:
    """Return the role name in the ARN of an assumed role, or any other ARN unchanged."""
    parts = arn.split(":")[-1].split("/")
    return parts[1] if parts[0] == "assumed-role" and len(parts) > 1 else arn


def install() -> None:
    """Count at ministack's IAM check, outside of the wrapper of `localcloud.services.iam`."""
    next_tags = MINISTACK.stock("core.iam_actions:request_tag_context")
    next_enforce = MINISTACK.stock("core.iam_evaluator:enforce")

    def request_begins(service: str, iam_action: str, body: bytes, params: Mapping[str, Any]) -> Any:
        """Mark the start of a request, before its first check."""
        _uncounted.set(True)
        calls.begins()
        return next_tags(service, iam_action, body, params)

    def count_once(access_key_id: str, iam_action: str, *arguments: Any, **named: Any) -> Any:
        if _uncounted.get():
            _uncounted.set(False)
            identity = iam_evaluator.resolve_caller_identity(access_key_id or "") or {}
            calls.count(caller_name(str(identity.get("userArn", "anonymous"))), iam_action)
        return next_enforce(access_key_id, iam_action, *arguments, **named)

    MINISTACK.replace("core.iam_actions:request_tag_context", request_begins)
    MINISTACK.replace("core.iam_evaluator:enforce", count_once)
    admin.route("GET", "/calls", calls.answer)
