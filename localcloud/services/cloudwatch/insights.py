"""Logs Insights: fields, display, filter, stats, sort, limit and dedup of events and of the JSON in them.

What is not known here is refused as malformed: ministack leaves it out and answers something else.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ministack.core.responses import error_response_json
from ministack.services import cloudwatch_logs as stock

from localcloud.patches import MINISTACK

Value = str | float | None
Row = dict[str, Value]
Stage = Callable[[list[Row]], list[Row]]

TOKEN = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<regex>/(?:[^/\\\n]|\\.)+/i?)"""
    r"""|(?P<number>-?\d+(?:\.\d+)?(?![\w.]))|(?P<name>`[^`]+`|[@\w][\w.@-]*)|(?P<mark>!=|<=|>=|=~|[=<>(),|*\[\]]))"""
)
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
MOST = 10_000
SHOWN = ("@timestamp", "@message")
"""Of a query that names no fields."""


class MalformedError(Exception):
    """What is wrong with a query."""


def install() -> None:
    """Answer StartQuery's queries in ministack's place."""
    start = MINISTACK.stock("services.cloudwatch_logs:_start_query")

    def start_query(data: dict[str, Any]) -> Any:
        try:
            query = parsed(str(data.get("queryString", "")))
        except MalformedError as wrong:
            return error_response_json("MalformedQueryException", str(wrong), 400)
        answer = start(data)
        if answer[0] == 200:
            kept = stock._queries[json.loads(answer[2])["queryId"]]
            names = stock._resolve_query_log_groups(data)
            records = stock._collect_query_records(names, kept["startTime"], kept["endTime"])
            kept["results"] = query.answer(records, int(data.get("limit") or MOST))
        return answer

    MINISTACK.replace("services.cloudwatch_logs:_start_query", start_query)


@dataclass(frozen=True)
class Query:
    """Stages, and which fields are shown (None: whatever the rows have)."""

    stages: Sequence[Stage]
    shown: Sequence[str] | None

    def answer(self, records: Iterable[Mapping[str, Any]], limit: int) -> list[list[dict[str, str]]]:
        """The rows as GetQueryResults has them."""
        rows = [_row(record) for record in records]
        rows.sort(key=lambda row: float(row["@time"] or 0), reverse=True)
        for stage in self.stages:
            rows = stage(rows)
        return [self._shown(row) for row in rows[:limit]]

    def _shown(self, row: Row) -> list[dict[str, str]]:
        names = [*self.shown, "@ptr"] if self.shown is not None else list(row)
        return [{"field": n, "value": _text(row[n])} for n in names if row.get(n) is not None]


def parsed(text: str) -> Query:
    """A query, from what a user writes."""
    tokens = _Tokens(text)
    stages: list[Stage] = []
    shown: Sequence[str] | None = SHOWN
    while tokens.left:
        command = tokens.name().lower()
        make = COMMANDS.get(command)
        if make is None:
            raise MalformedError(f"unknown command {command!r}; there is {', '.join(COMMANDS)}")
        stage, fields = make(tokens)
        stages.append(stage)
        shown = None if command == "stats" else fields if fields is not None else shown
        if tokens.left:
            tokens.expect("|")
    return Query(stages, shown)


# ------------------------------------------------------------------------------------------------- commands


def _fields(tokens: _Tokens) -> tuple[Stage, Sequence[str] | None]:
    wanted = tokens.listed(_named)

    def stage(rows: list[Row]) -> list[Row]:
        return [{**row, **{name: value(row) for name, value in wanted if name not in row}} for row in rows]

    return stage, [name for name, _ in wanted]


def _filter(tokens: _Tokens) -> tuple[Stage, None]:
    holds = _any(tokens)
    return (lambda rows: [row for row in rows if holds(row)]), None


def _limit(tokens: _Tokens) -> tuple[Stage, None]:
    most = int(tokens.number())
    return (lambda rows: rows[:most]), None


def _sort(tokens: _Tokens) -> tuple[Stage, None]:
    by: list[tuple[Expression, bool]] = tokens.listed(lambda t: (_operand(t), t.word("asc", "desc") != "asc"))

    def stage(rows: list[Row]) -> list[Row]:
        for value, descending in reversed(by):
            rows = sorted(rows, key=lambda row: _order(value(row)), reverse=descending)
        return rows

    return stage, None


def _dedup(tokens: _Tokens) -> tuple[Stage, None]:
    by = tokens.listed(_operand)

    def stage(rows: list[Row]) -> list[Row]:
        first: dict[tuple[Value, ...], Row] = {}
        for row in rows:
            first.setdefault(tuple(value(row) for value in by), row)
        return list(first.values())

    return stage, None


def _stats(tokens: _Tokens) -> tuple[Stage, None]:
    figures = tokens.listed(_figure)
    by = tokens.listed(_named) if tokens.word("by") else []

    def stage(rows: list[Row]) -> list[Row]:
        groups: dict[tuple[Value, ...], list[Row]] = {} if by else {(): rows}
        for row in rows if by else ():
            groups.setdefault(tuple(value(row) for _, value in by), []).append(row)
        return [
            {
                **dict(zip([name for name, _ in by], key, strict=True)),
                **{name: figure(g) for name, figure in figures},
            }
            for key, g in groups.items()
        ]

    return stage, None


COMMANDS: Mapping[str, Callable[[_Tokens], tuple[Stage, Sequence[str] | None]]] = {
    "fields": _fields,
    "display": _fields,
    "filter": _filter,
    "stats": _stats,
    "sort": _sort,
    "limit": _limit,
    "dedup": _dedup,
}


# ---------------------------------------------------------------------------------------------- expressions

Expression = Callable[[Row], Value]
Condition = Callable[[Row], bool]


def _named(tokens: _Tokens) -> tuple[str, Expression]:
    """An expression under its alias, or as it is written."""
    begin = tokens.position
    value = _operand(tokens)
    written = tokens.written(begin)
    return (tokens.name() if tokens.word("as") else written), value


def _figure(tokens: _Tokens) -> tuple[str, Callable[[list[Row]], Value]]:
    begin = tokens.position
    function = tokens.name().lower()
    if function not in FIGURES:
        raise MalformedError(f"unknown statistic {function!r}; there is {', '.join(FIGURES)}")
    tokens.expect("(")
    field = None if tokens.mark("*") else _operand(tokens)
    share = tokens.number() if function == "pct" and tokens.mark(",") else 0.0
    tokens.expect(")")
    written = tokens.written(begin)
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
    "frommillis": lambda value: None if value is None else _stamp(float(value)),
    "abs": lambda value: None if value is None else abs(float(value)),
    "ceil": lambda value: None if value is None else float(math.ceil(float(value))),
    "floor": lambda value: None if value is None else float(math.floor(float(value))),
}


def _operand(tokens: _Tokens) -> Expression:
    if (literal := tokens.literal()) is not None:
        return lambda row: literal
    name = tokens.name()
    if not tokens.mark("("):
        return (lambda row: row.get("@time")) if name == "@timestamp" else (lambda row: row.get(name))
    if name.lower() == "bin":
        return _bin(tokens)
    function = FUNCTIONS.get(name.lower())
    if function is None:
        raise MalformedError(f"unknown function {name!r}; there is bin, {', '.join(FUNCTIONS)}")
    arguments = tokens.listed(_operand)
    tokens.expect(")")
    return lambda row: function(*(argument(row) for argument in arguments))


def _bin(tokens: _Tokens) -> Expression:
    span = re.fullmatch(r"(\d+)([smhd])", tokens.name())
    if span is None:
        raise MalformedError("bin takes a span such as 5m")
    tokens.expect(")")
    milliseconds = int(span[1]) * SECONDS[span[2]] * 1000
    return lambda row: _stamp(float(row.get("@time") or 0) // milliseconds * milliseconds)


def _any(tokens: _Tokens) -> Condition:
    either = [_all(tokens)]
    while tokens.word("or"):
        either.append(_all(tokens))
    return lambda row: any(holds(row) for holds in either)


def _all(tokens: _Tokens) -> Condition:
    both = [_one(tokens)]
    while tokens.word("and"):
        both.append(_one(tokens))
    return lambda row: all(holds(row) for holds in both)


def _one(tokens: _Tokens) -> Condition:
    if tokens.word("not"):
        inner = _one(tokens)
        return lambda row: not inner(row)
    if tokens.mark("("):
        inner = _any(tokens)
        tokens.expect(")")
        return inner
    left = _operand(tokens)
    if tokens.word("not"):
        condition = _like_or_in(tokens, left)
        return lambda row: not condition(row)
    for mark, compare in COMPARISONS.items():
        if tokens.mark(mark):
            right = _operand(tokens)
            return lambda row, compare=compare: compare(left(row), right(row))  # type: ignore[misc]
    if tokens.next_is("like", "in", "=~"):
        return _like_or_in(tokens, left)
    return lambda row: bool(left(row))


def _like_or_in(tokens: _Tokens, left: Expression) -> Condition:
    if tokens.word("in"):
        tokens.expect("[")
        allowed = tokens.listed(_operand)
        tokens.expect("]")
        return lambda row: any(_equal(left(row), each(row)) for each in allowed)
    if not tokens.word("like"):
        tokens.expect("=~")
    pattern = tokens.pattern()
    return lambda row: pattern.search(str(left(row) or "")) is not None


def _equal(one: Value, other: Value) -> bool:
    first, second = _number(one), _number(other)
    return first == second if first is not None and second is not None else one == other


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Value, Value], bool]:
    def holds(one: Value, other: Value) -> bool:
        if one is None or other is None:
            return False
        return compare(_order(one), _order(other))

    return holds


COMPARISONS: Mapping[str, Callable[[Value, Value], bool]] = {
    "!=": lambda one, other: not _equal(one, other),
    "<=": _ordered(lambda one, other: one <= other),
    ">=": _ordered(lambda one, other: one >= other),
    "=": _equal,
    "<": _ordered(lambda one, other: one < other),
    ">": _ordered(lambda one, other: one > other),
}


# --------------------------------------------------------------------------------------------- text and rows


class _Tokens:
    """A query's words, one after the other."""

    def __init__(self, text: str) -> None:
        self._found: list[tuple[str, str]] = []
        self.position = 0
        end = 0
        while text[end:].strip():
            match = TOKEN.match(text, end)
            if match is None:
                raise MalformedError(f"unexpected symbol at {text[end:].strip()[:20]!r}")
            self._found.append((str(match.lastgroup), match[match.lastgroup or 0]))
            end = match.end()

    @property
    def left(self) -> bool:
        return self.position < len(self._found)

    def _take(self, kind: str) -> str | None:
        if self.left and self._found[self.position][0] == kind:
            self.position += 1
            return self._found[self.position - 1][1]
        return None

    def next_is(self, *texts: str) -> bool:
        return self.left and self._found[self.position][1].lower() in texts

    def word(self, *words: str) -> str | None:
        """One of these words, if it comes next."""
        return (self._take("name") or "").lower() if self.next_is(*words) else None

    def mark(self, mark: str) -> bool:
        """Whether this mark came next."""
        return self.next_is(mark) and self._take("mark") is not None

    def expect(self, mark: str) -> None:
        if not self.mark(mark):
            found = self._found[self.position][1] if self.left else "the end"
            raise MalformedError(f"{mark!r} is missing before {found}")

    def name(self) -> str:
        found = self._take("name")
        if found is None:
            raise MalformedError(
                f"a name is missing before {self._found[self.position][1] if self.left else 'the end'}"
            )
        return found.strip("`")

    def number(self) -> float:
        found = self._take("number")
        if found is None:
            raise MalformedError("a number is missing")
        return float(found)

    def literal(self) -> Value:
        if (text := self._take("string")) is not None:
            return re.sub(r"\\(.)", r"\1", text[1:-1])
        return float(number) if (number := self._take("number")) is not None else None

    def pattern(self) -> re.Pattern[str]:
        """What comes after `like`."""
        expression, text = self._take("regex"), None
        if expression is None:
            text = self.literal()
            if not isinstance(text, str):
                raise MalformedError("like takes a text or a /regular expression/")
            return re.compile(re.escape(text))
        body, _, flags = expression[1:].rpartition("/")
        try:
            return re.compile(body, re.IGNORECASE if flags else 0)
        except re.error as wrong:
            raise MalformedError(f"{expression}: {wrong}") from wrong

    def listed(self, one: Callable[[_Tokens], Any]) -> list[Any]:
        found = [one(self)]
        while self.mark(","):
            found.append(one(self))
        return found

    def written(self, begin: int) -> str:
        """The words since then, as one."""
        return "".join(text for _, text in self._found[begin : self.position]).strip("`")


def _row(record: Mapping[str, Any]) -> Row:
    """An event's own fields, and those of the JSON it holds, "details.error" for what is inside."""
    row: Row = {name: str(value) for name, value in record.items() if name.startswith("@")}
    row["@time"] = float(record["_timestamp_ms"])
    message = str(record["@message"])
    if message.startswith("{"):
        try:
            row |= dict(_flat("", json.loads(message)))
        except ValueError:
            return row
    return row


def _flat(prefix: str, found: Mapping[str, Any]) -> Iterable[tuple[str, Value]]:
    for name, value in found.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}{name}.", value)
        elif isinstance(value, bool):
            yield f"{prefix}{name}", str(int(value))
        elif isinstance(value, int | float):
            yield f"{prefix}{name}", float(value)
        elif value is not None:
            yield f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value)


def _number(value: Value) -> float | None:
    try:
        return None if value is None else float(value)
    except ValueError:
        return None


def _order(value: Value) -> tuple[int, float, str]:
    """Nothing before numbers before texts."""
    number = _number(value)
    if number is not None:
        return (1, number, "")
    return (0, 0.0, "") if value is None else (2, 0.0, str(value))


def _stamp(milliseconds: float) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _text(value: Value) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
