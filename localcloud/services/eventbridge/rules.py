"""Matching of rules by `patterns`, instead of by ministack's matcher."""

from __future__ import annotations

import json
from typing import Any

from ministack.core.responses import error_response_json, json_response
from ministack.services import eventbridge as stock

from localcloud.patches import MINISTACK
from localcloud.services.eventbridge.patterns import InvalidPatternError, parse_pattern


def install() -> None:
    """Match and refuse patterns as AWS does."""
    MINISTACK.replace("services.eventbridge:_event_pattern_error", refusal)
    MINISTACK.replace("services.eventbridge:_matches_pattern_view", matches)
    MINISTACK.replace("services.eventbridge:_test_event_pattern", test_event_pattern)


def refusal(text: Any) -> str | None:
    """Return why EventBridge refuses the pattern."""
    if not text:
        return None
    try:
        parse_pattern(str(text))
    except InvalidPatternError as reason:
        return str(reason)
    return None


def matches(text: str, view: Any, owner: str = "rule") -> bool:
    """Return True if the event of a view matches the pattern. `owner` is for ministack's log."""
    return parse_pattern(text).matches(view.event_with_detail())


def test_event_pattern(data: dict[str, Any]) -> Any:
    """Answer TestEventPattern."""
    try:
        event = json.loads(data.get("Event") or "")
    except ValueError:
        event = None
    if not isinstance(event, dict):
        return error_response_json("ValidationException", "Parameter Event is not valid.", 400)
    reason = refusal(data.get("EventPattern") or " ")
    if reason:
        return stock._invalid_event_pattern(reason)
    return json_response({"Result": parse_pattern(data["EventPattern"]).matches(event)})
