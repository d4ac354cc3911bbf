"""Who called what how often: `GET /_localcloud/calls`, for benchmarks and for questions about polling.

Counts every signed request at the place where IAM looks at it, once, whatever its answer was.
"""

from __future__ import annotations

import contextvars
import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ministack.core import iam_evaluator

from localcloud.patches import MINISTACK
from localcloud.server import admin

_uncounted: contextvars.ContextVar[bool] = contextvars.ContextVar("calls_uncounted", default=False)


class Calls:
    """Counts by caller and action. A caller is a role's name; for the account's root or a user its ARN."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def count(self, caller: str, action: str) -> None:
        """One more call."""
        with self._lock:
            self._counts[caller, action] += 1

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """All counts since the server started: {caller: {action: times}}."""
        counted: dict[str, dict[str, int]] = {}
        with self._lock:
            for (caller, action), times in sorted(self._counts.items()):
                counted.setdefault(caller, {})[action] = times
        return counted


def caller_name(arn: str) -> str:
    """The role's name in the ARN of an assumed role; any other ARN as it is."""
    parts = arn.split(":")[-1].split("/")
    return parts[1] if parts[0] == "assumed-role" and len(parts) > 1 else arn


def install() -> None:
    """Count at ministack's IAM check, outside of what `localcloud.services.iam` put around it."""
    calls = Calls()
    next_tags = MINISTACK.stock("core.iam_actions:request_tag_context")
    next_enforce = MINISTACK.stock("core.iam_evaluator:enforce")

    def request_begins(service: str, iam_action: str, body: bytes, params: Mapping[str, Any]) -> Any:
        """Called once per request, before its one or more checks."""
        _uncounted.set(True)
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
