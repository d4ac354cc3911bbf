"""Logs Insights queries: fields, display, filter, stats, sort, limit and dedup over events and their JSON.

Unsupported syntax is refused as malformed, because ministack ignores it and returns other results.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ministack.core.responses import error_response_json
from ministack.services import cloudwatch_logs as stock

from localcloud.patches import MINISTACK
from localcloud.services.cloudwatch.insights.expressions import (
    Expression,
    Row,
    figure_of_group,
    operand,
    order,
    parse_named,
    read_condition,
)
from localcloud.services.cloudwatch.insights.tokens import MalformedError, Tokens, Value

Stage = Callable[[list[Row]], list[Row]]

MOST = 10_000
SHOWN = ("@timestamp", "@message")
"""Default fields of a query."""


def install() -> None:
    """Answer StartQuery's queries instead of ministack."""
    start = MINISTACK.stock("services.cloudwatch_logs:_start_query")

    def start_query(data: dict[str, Any]) -> Any:
        try:
            query = parse_query(str(data.get("queryString", "")))
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
    """Stages and shown fields (None: all fields of the rows)."""

    stages: Sequence[Stage]
    shown: Sequence[str] | None

    def answer(self, records: Iterable[Mapping[str, Any]], limit: int) -> list[list[dict[str, str]]]:
        """Return the rows in GetQueryResults' format."""
        rows = [_row(record) for record in records]
        rows.sort(key=lambda row: float(row["@time"] or 0), reverse=True)
        for stage in self.stages:
            rows = stage(rows)
        return [self._show_row(row) for row in rows[:limit]]

    def _show_row(self, row: Row) -> list[dict[str, str]]:
        names = [*self.shown, "@ptr"] if self.shown is not None else list(row)
        return [{"field": n, "value": _text(row[n])} for n in names if row.get(n) is not None]


def parse_query(text: str) -> Query:
    """Parse the text of a query."""
    tokens = Tokens(text)
    stages: list[Stage] = []
    shown: Sequence[str] | None = SHOWN
    while tokens.left:
        command = tokens.name().lower()
        make = COMMANDS.get(command)
        if make is None:
            raise MalformedError(f"unknown command {command!r}; supported: {', '.join(COMMANDS)}")
        stage, fields = make(tokens)
        stages.append(stage)
        shown = None if command == "stats" else fields if fields is not None else shown
        if tokens.left:
            tokens.expect("|")
    return Query(stages, shown)


def _fields(tokens: Tokens) -> tuple[Stage, Sequence[str] | None]:
    wanted = tokens.parse_list(parse_named)

    def stage(rows: list[Row]) -> list[Row]:
        return [{**row, **{name: value(row) for name, value in wanted if name not in row}} for row in rows]

    return stage, [name for name, _ in wanted]


def _filter(tokens: Tokens) -> tuple[Stage, None]:
    holds = read_condition(tokens)
    return (lambda rows: [row for row in rows if holds(row)]), None


def _limit(tokens: Tokens) -> tuple[Stage, None]:
    most = int(tokens.number())
    return (lambda rows: rows[:most]), None


def _sort(tokens: Tokens) -> tuple[Stage, None]:
    by: list[tuple[Expression, bool]] = tokens.parse_list(
        lambda t: (operand(t), t.word("asc", "desc") != "asc")
    )

    def stage(rows: list[Row]) -> list[Row]:
        for value, descending in reversed(by):
            rows = sorted(rows, key=lambda row: order(value(row)), reverse=descending)
        return rows

    return stage, None


def _dedup(tokens: Tokens) -> tuple[Stage, None]:
    by = tokens.parse_list(operand)

    def stage(rows: list[Row]) -> list[Row]:
        first: dict[tuple[Value, ...], Row] = {}
        for row in rows:
            first.setdefault(tuple(value(row) for value in by), row)
        return list(first.values())

    return stage, None


def _stats(tokens: Tokens) -> tuple[Stage, None]:
    figures = tokens.parse_list(figure_of_group)
    by = tokens.parse_list(parse_named) if tokens.word("by") else []

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


COMMANDS: Mapping[str, Callable[[Tokens], tuple[Stage, Sequence[str] | None]]] = {
    "fields": _fields,
    "display": _fields,
    "filter": _filter,
    "stats": _stats,
    "sort": _sort,
    "limit": _limit,
    "dedup": _dedup,
}


def _row(record: Mapping[str, Any]) -> Row:
    """Return an event's fields, plus the fields of its JSON. Nested fields are named like "details.error"."""
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


def _text(value: Value) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
