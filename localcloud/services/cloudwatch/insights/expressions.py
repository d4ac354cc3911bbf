"""Expressions, conditions and statistics of Logs Insights, applied to the rows of a query."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from localcloud.services.cloudwatch.insights.tokens import MalformedError, Tokens, Value

Row = dict[str, Value]

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

Expression = Callable[[Row], Value]
Condition = Callable[[Row], bool]


def parse_named(tokens: Tokens) -> tuple[str, Expression]:
    """Parse an expression. Its name is its alias or its text."""
    begin = tokens.position
    value = operand(tokens)
    written = tokens.text_since(begin)
    return (tokens.name() if tokens.word("as") else written), value


def figure_of_group(tokens: Tokens) -> tuple[str, Callable[[list[Row]], Value]]:
    begin = tokens.position
    function = tokens.name().lower()
    if function not in FIGURES:
        raise MalformedError(f"unknown statistic {function!r}; supported: {', '.join(FIGURES)}")
    tokens.expect("(")
    field = None if tokens.mark("*") else operand(tokens)
    share = tokens.number() if function == "pct" and tokens.mark(",") else 0.0
    tokens.expect(")")
    written = tokens.text_since(begin)
    figure = FIGURES[function]

    def of_group(rows: list[Row]) -> Value:
        if field is None:
            return figure([1.0] * len(rows), share)
        by_time = sorted(rows, key=lambda row: float(row.get("@time") or 0))
        return figure([found for row in by_time if (found := field(row)) is not None], share)

    return (tokens.name() if tokens.word("as") else written), of_group


def _numbers(values: list[Value]) -> list[float]:
    return [number for value in values if (number := _number(value)) is not None]


def _percentile(values: list[Value], share: float) -> Value:
    numbers = sorted(_numbers(values))
    return numbers[max(0, math.ceil(share / 100 * len(numbers)) - 1)] if numbers else None


FIGURES: Mapping[str, Callable[[list[Value], float], Value]] = {
    "count": lambda values, _: float(len(values)),
    "count_distinct": lambda values, _: float(len(set(values))),
    "sum": lambda values, _: sum(_numbers(values)),
    "avg": lambda values, _: sum(numbers) / len(numbers) if (numbers := _numbers(values)) else None,
    "min": lambda values, _: min(_numbers(values), default=None),
    "max": lambda values, _: max(_numbers(values), default=None),
    "pct": _percentile,
    "earliest": lambda values, _: values[0] if values else None,
    "latest": lambda values, _: values[-1] if values else None,
}
FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "ispresent": lambda value: float(value is not None),
    "isblank": lambda value: float(value is None or not str(value).strip()),
    "isempty": lambda value: float(value is None or value == ""),
    "strlen": lambda value: float(len(str(value or ""))),
    "strcontains": lambda value, part: float(str(part) in str(value or "")),
    "tolower": lambda value: str(value or "").lower(),
    "toupper": lambda value: str(value or "").upper(),
    "tomillis": lambda value: value,
    "frommillis": lambda value: None if value is None else timestamp(float(value)),
    "abs": lambda value: None if value is None else abs(float(value)),
    "ceil": lambda value: None if value is None else float(math.ceil(float(value))),
    "floor": lambda value: None if value is None else float(math.floor(float(value))),
}


def operand(tokens: Tokens) -> Expression:
    if (literal := tokens.literal()) is not None:
        return lambda row: literal
    name = tokens.name()
    if not tokens.mark("("):
        return (lambda row: row.get("@time")) if name == "@timestamp" else (lambda row: row.get(name))
    if name.lower() == "bin":
        return _bin(tokens)
    function = FUNCTIONS.get(name.lower())
    if function is None:
        raise MalformedError(f"unknown function {name!r}; supported: bin, {', '.join(FUNCTIONS)}")
    arguments = tokens.parse_list(operand)
    tokens.expect(")")
    return lambda row: function(*(argument(row) for argument in arguments))


def _bin(tokens: Tokens) -> Expression:
    span = re.fullmatch(r"(\d+)([smhd])", tokens.name())
    if span is None:
        raise MalformedError("bin takes a span such as 5m")
    tokens.expect(")")
    milliseconds = int(span[1]) * SECONDS[span[2]] * 1000
    return lambda row: timestamp(float(row.get("@time") or 0) // milliseconds * milliseconds)


def read_condition(tokens: Tokens) -> Condition:
    either = [_all(tokens)]
    while tokens.word("or"):
        either.append(_all(tokens))
    return lambda row: any(holds(row) for holds in either)


def _all(tokens: Tokens) -> Condition:
    both = [_one(tokens)]
    while tokens.word("and"):
        both.append(_one(tokens))
    return lambda row: all(holds(row) for holds in both)


def _one(tokens: Tokens) -> Condition:
    if tokens.word("not"):
        inner = _one(tokens)
        return lambda row: not inner(row)
    if tokens.mark("("):
        inner = read_condition(tokens)
        tokens.expect(")")
        return inner
    left = operand(tokens)
    if tokens.word("not"):
        condition = _like_or_in(tokens, left)
        return lambda row: not condition(row)
    for mark, compare in COMPARISONS.items():
        if tokens.mark(mark):
            right = operand(tokens)
            return lambda row, compare=compare: compare(left(row), right(row))  # type: ignore[misc]
    if tokens.next_is("like", "in", "=~"):
        return _like_or_in(tokens, left)
    return lambda row: bool(left(row))


def _like_or_in(tokens: Tokens, left: Expression) -> Condition:
    if tokens.word("in"):
        tokens.expect("[")
        allowed = tokens.parse_list(operand)
        tokens.expect("]")
        return lambda row: any(_equal(left(row), each(row)) for each in allowed)
    if not tokens.word("like"):
        tokens.expect("=~")
    pattern = tokens.pattern()
    return lambda row: pattern.search(str(left(row) or "")) is not None


def _equal(one: Value, other: Value) -> bool:
    first, second = _number(one), _number(other)
    return first == second if first is not None and second is not None else one == other


def _compare_ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Value, Value], bool]:
    def holds(one: Value, other: Value) -> bool:
        if one is None or other is None:
            return False
        return compare(order(one), order(other))

    return holds


COMPARISONS: Mapping[str, Callable[[Value, Value], bool]] = {
    "!=": lambda one, other: not _equal(one, other),
    "<=": _compare_ordered(lambda one, other: one <= other),
    ">=": _compare_ordered(lambda one, other: one >= other),
    "=": _equal,
    "<": _compare_ordered(lambda one, other: one < other),
    ">": _compare_ordered(lambda one, other: one > other),
}


def _number(value: Value) -> float | None:
    try:
        return None if value is None else float(value)
    except ValueError:
        return None


def order(value: Value) -> tuple[int, float, str]:
    """Return a sort key: empty values first, then numbers, then texts."""
    number = _number(value)
    if number is not None:
        return (1, number, "")
    return (0, 0.0, "") if value is None else (2, 0.0, str(value))


def timestamp(milliseconds: float) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
