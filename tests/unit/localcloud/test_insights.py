"""Logs Insights queries, as far as the local cloud supports them."""

import json
from typing import Any

import pytest

from localcloud.services.cloudwatch.insights.query import parse_query
from localcloud.services.cloudwatch.insights.tokens import MalformedError

AT = 1_795_413_600_000  # 2026-11-23 06:00:00 UTC


def event(seconds: int, message: Any) -> dict[str, Any]:
    text = message if isinstance(message, str) else json.dumps(message)
    return {
        "@timestamp": f"+{seconds}",
        "@message": text,
        "@ptr": f"p{seconds}",
        "_timestamp_ms": AT + seconds * 1000,
    }


EVENTS = [
    event(0, {"type": "Started", "run": "a", "details": {"cost": 1.5}}),
    event(60, {"type": "Started", "run": "b", "details": {"cost": 2}}),
    event(300, {"type": "Failed", "run": "a", "details": {"error": "No room"}, "final": True}),
    event(301, "a line of text"),
]


def rows(query: str, limit: int = 100) -> list[dict[str, str]]:
    found = parse_query(query).answer(EVENTS, limit)
    return [{each["field"]: each["value"] for each in row if each["field"] != "@ptr"} for row in found]


@pytest.mark.parametrize(
    ("query", "runs"),
    [
        ('filter type = "Started" | fields run', ["b", "a"]),
        ('filter type != "Started" and ispresent(run) | fields run', ["a"]),
        ('filter type in ["Failed", "Gone"] or details.cost > 1.9 | fields run | sort run asc', ["a", "b"]),
        ("filter details.error like /no ROOM/i | fields run", ["a"]),
        ('filter details.error not like "room" and not (type = "Started") and run = "a" | fields run', []),
        ("filter ispresent(run) | sort @timestamp asc | limit 2 | fields run", ["a", "b"]),
        ("filter ispresent(run) | dedup run | fields run", ["a", "b"]),
        ("filter final = 1 | display run", ["a"]),
    ],
)
def test_events_are_chosen_and_ordered(query: str, runs: list[str]) -> None:
    assert [row["run"] for row in rows(query)] == runs


def test_statistics_are_those_of_each_group() -> None:
    found = rows(
        "filter ispresent(run) | stats count(*) as n, sum(details.cost) as dollars, latest(type) as state, "
        "min(@timestamp) as began by run | sort run asc"
    )
    assert found == [
        {"run": "a", "n": "2", "dollars": "1.5", "state": "Failed", "began": str(AT)},
        {"run": "b", "n": "1", "dollars": "2", "state": "Started", "began": str(AT + 60_000)},
    ]
    assert rows("stats count(*), pct(details.cost, 50), avg(details.cost) as mean") == [
        {"count(*)": "4", "pct(details.cost,50)": "1.5", "mean": "1.75"}
    ]
    assert rows("stats count(*) as n by bin(1h)") == [{"bin(1h)": "2026-11-23 06:00:00.000", "n": "4"}]


def test_a_query_without_fields_shows_time_and_message_the_newest_first() -> None:
    assert rows("filter @message like /text/") == [{"@timestamp": "+301", "@message": "a line of text"}]
    assert [row["@timestamp"] for row in rows("limit 2")] == ["+301", "+300"]
    assert len(rows("fields @message", limit=1)) == 1


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("nonsense here", "unknown command 'nonsense'"),
        ("stats median(x)", "unknown statistic 'median'"),
        ("fields frobnicate(x)", "unknown function 'frobnicate'"),
        ("stats count(* by run", "')' is missing before by"),
        ("filter (a = 1", "is missing before the end"),
        ("fields a b", "'|' is missing before b"),
        ("filter x like /(/", "unterminated"),
        ("stats count(*) by bin(5 minutes)", "a name is missing before 5"),
        ("fields a ! b", "unexpected symbol"),
    ],
)
def test_what_is_not_understood_is_refused(query: str, said: str) -> None:
    with pytest.raises(MalformedError) as refused:
        parse_query(query)
    assert said in str(refused.value)
