"""What a request needs: one check for every (action, resource) pair, each with the facts its conditions may ask."""

from __future__ import annotations

import contextvars
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Check:
    """The caller must be allowed `action` on `resource`; `context` holds condition keys in lower case.

    A request is allowed when every one of its checks is that is not `optional`.
    """

    action: str
    resource: str
    context: Mapping[str, Any] = field(default_factory=dict)
    optional: bool = False
    """Denied, it keeps the service from this one act and not from the request; `is_skipped` tells the service."""


_skipped: contextvars.ContextVar[frozenset[str]] = contextvars.ContextVar("iam_skipped", default=frozenset())


def skip(denied: Iterable[Check]) -> None:
    """Let the service of the current request know which of its optional checks were denied."""
    _skipped.set(frozenset(check.action for check in denied))


def is_skipped(action: str) -> bool:
    """Whether the caller of the current request may not do this part of it."""
    return action in _skipped.get()
