"""Filter policies that SNS refuses. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from localcloud.base import json_errors
from localcloud.services.eventbridge.patterns import InvalidPatternError, compile_pattern

SCOPES = ("MessageAttributes", "MessageBody")
"""The first is the default."""
MOST_KEYS, MOST_COMBINATIONS = 5, 150
NEGATED = ("prefix",)
"""Comparisons that SNS knows inside `anything-but`."""


def fault(attributes: Mapping[str, str]) -> str | None:
    """Return SNS's words for a subscription's filter policy, or for its scope."""
    scope, text = attributes.get("FilterPolicyScope", SCOPES[0]), attributes.get("FilterPolicy")
    if scope not in SCOPES:
        return (
            f"FilterPolicyScope: Invalid value [{scope}]. Please use either MessageBody or MessageAttributes"
        )
    if not text:
        return None
    try:
        policy = json.loads(text)
        if policy == {}:
            return None
        _refuse_foreign(policy)
        compile_pattern(policy)
    except json.JSONDecodeError as error:
        return f"FilterPolicy: failed to parse JSON. {json_errors.describe(text, error, hide=True)}"
    except InvalidPatternError as error:
        return f"FilterPolicy: {error}"
    return _excess(policy, scope)


def _refuse_foreign(policy: Any) -> None:
    for values, _ in _fields(policy, 1):
        for value in values:
            negated = value.get("anything-but") if isinstance(value, Mapping) else None
            if isinstance(negated, Mapping) and (foreign := next(iter(negated), None)) not in (
                None,
                *NEGATED,
            ):
                raise InvalidPatternError(f"Unsupported anything-but pattern: {foreign}")
            if isinstance(negated, Mapping) and not isinstance(negated.get("prefix", ""), str):
                raise InvalidPatternError("prefix match pattern must be a string")


def _excess(policy: Mapping[str, Any], scope: str) -> str | None:
    fields = list(_fields(policy, 1))
    if scope == SCOPES[0] and any(depth > 1 for _, depth in fields):
        return "Filter policy scope MessageAttributes does not support nested filter policy"
    if len(fields) > MOST_KEYS:
        return f"FilterPolicy: Filter policy can not have more than {MOST_KEYS} keys"
    combinations = 1
    for values, depth in fields:
        combinations *= depth * sum(map(_alternatives, values))
    return "FilterPolicy: Filter policy is too complex" if combinations > MOST_COMBINATIONS else None


def _alternatives(value: Any) -> int:
    negated = value.get("anything-but") if isinstance(value, Mapping) else None
    return len(negated) if isinstance(negated, list) else 1


def _fields(policy: Any, depth: int) -> Iterator[tuple[list[Any], int]]:
    """Yield the values of each field, with its depth."""
    for wanted in policy.values() if isinstance(policy, Mapping) else ():
        if isinstance(wanted, Mapping):
            yield from _fields(wanted, depth + 1)
        elif isinstance(wanted, list):
            yield wanted, depth
