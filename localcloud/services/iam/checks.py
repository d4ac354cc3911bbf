"""Checks of a request: one for every (action, resource) pair, each with its condition keys."""

from __future__ import annotations

import contextvars
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Check:
    """The caller needs permission for `action` on `resource`. `context` holds condition keys in lower case.

    A request is allowed if all of its checks pass that are not `optional`.
    """

    action: str
    resource: str
    context: Mapping[str, Any] = field(default_factory=dict)
    optional: bool = False
    """A denial only stops the service from this part of the request. `is_skipped` reports the denial to the service."""


_skipped: contextvars.ContextVar[frozenset[str]] = contextvars.ContextVar("iam_skipped", default=frozenset())


def skip(denied: Iterable[Check]) -> None:
    """Record the denied optional checks of the current request for its service."""
    _skipped.set(frozenset(check.action for check in denied))


def is_skipped(action: str) -> bool:
    """Return True if the caller of the current request may not do this part."""
    return action in _skipped.get()
