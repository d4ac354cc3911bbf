"""Policy variables, which ministack's evaluator treats as text.

`${aws:userid}` in a resource or in a condition's value stands for that key's value in the request. A missing key
matches nothing, unless a default follows (`${aws:userid, 'none'}`).
docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_variables.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ministack.core import iam_evaluator
from ministack.core.iam_evaluator import EvalContext, ParsedStatement

from localcloud.patches import MINISTACK

VARIABLE = re.compile(r"\$\{\s*([^},]*?)\s*(?:,\s*'([^']*)'\s*)?\}")
NO_MATCH = "\0"
"""Matches no value."""


def install() -> None:
    """Substitute variables in every statement before its evaluation."""
    stock = MINISTACK.stock("core.iam_evaluator:_first_match")

    def first_match(
        ctx: EvalContext, stmts: Sequence[ParsedStatement], effect: str
    ) -> ParsedStatement | None:
        found: ParsedStatement | None = stock(ctx, [fill_in(each, ctx) for each in stmts], effect)
        return found

    MINISTACK.replace("core.iam_evaluator:_first_match", first_match)


def are_in(statement: ParsedStatement) -> bool:
    """Return True if the statement contains variables."""
    return any("${" in text for text in _texts(statement))


def fill_in(statement: ParsedStatement, context: EvalContext) -> ParsedStatement:
    """Return the statement with the variables of this request substituted."""
    if not are_in(statement):
        return statement
    conditions = {
        operator: {key: _all(_as_list(expected), context) for key, expected in operands.items()}
        for operator, operands in statement.conditions.items()
    }
    return replace(
        statement,
        resources=_all(statement.resources, context),
        not_resources=_all(statement.not_resources, context),
        conditions=conditions,
    )


def _texts(statement: ParsedStatement) -> Iterable[str]:
    yield from statement.resources
    yield from statement.not_resources
    for operands in statement.conditions.values():
        for expected in operands.values():
            yield from (text for text in _as_list(expected) if isinstance(text, str))


def _as_list(expected: Any) -> list[Any]:
    return expected if isinstance(expected, list) else [expected]


def _all(patterns: Sequence[Any], context: EvalContext) -> list[Any]:
    return [_one(each, context) if isinstance(each, str) else each for each in patterns]


def _one(pattern: str, context: EvalContext) -> str:
    values: Mapping[str, str | None] = {
        found[0]: _value(found[1], found[2], context) for found in VARIABLE.finditer(pattern)
    }
    if None in values.values():
        return NO_MATCH
    return VARIABLE.sub(lambda found: str(values[found[0]]), pattern)


def _value(key: str, default: str | None, context: EvalContext) -> str | None:
    value = iam_evaluator._resolve_condition_key(key, context)
    return default if value is None or isinstance(value, list) else str(value)
