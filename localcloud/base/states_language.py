"""Amazon States Language semantics, with AWS's error messages.

Pure, because the interpreters of the local cloud and of the simulator both use this module.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from localcloud.base import json_errors

ALL, TASK_FAILED = "States.ALL", "States.TaskFailed"
TIMEOUT, HEARTBEAT_TIMEOUT = "States.Timeout", "States.HeartbeatTimeout"
RUNTIME, TOO_LARGE = "States.Runtime", "States.DataLimitExceeded"
QUERY_ERROR = "States.QueryEvaluationError"
LOCATED = frozenset({RUNTIME, QUERY_ERROR})
"""Errors whose cause names the state, because the state machine itself is at fault."""
LONGEST_WAIT, MOST_BYTES = 99_999_999, 256 * 1024
TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)


class QueryError(Exception):
    """A JSONata expression failed, or its value does not fit its field. AWS calls this States.QueryEvaluationError."""

    def __init__(self, cause: str, location: str = "") -> None:
        super().__init__(cause)
        self.location = location
        """The path of the field within its state."""


def matches(wanted: Sequence[str], error: str | None) -> bool:
    """Return True if an `ErrorEquals` covers the error.

    States.Timeout covers a missed heartbeat, States.TaskFailed all but timeouts and too much data, and States.ALL
    everything else. AWS's manual excludes too much data from States.ALL; recorded executions include it.
    Nothing covers States.Runtime, not even its own name: it always ends an execution.
    """
    if error == RUNTIME:
        return False
    if error in wanted or ALL in wanted:
        return True
    if error == HEARTBEAT_TIMEOUT and TIMEOUT in wanted:
        return True
    return TASK_FAILED in wanted and error not in (TIMEOUT, TOO_LARGE)


def size_of(text: str) -> int:
    """Return the size in bytes as AWS counts it."""
    return len(text.encode(errors="surrogatepass"))


def excess(value: Any, whose: str) -> str | None:
    """Return the cause of States.DataLimitExceeded for the result of a state or task; None if it is small enough."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    if 4 * len(text) <= MOST_BYTES or size_of(text) <= MOST_BYTES:
        return None
    limit = "a result with a size exceeding the maximum number of bytes service limit."
    return f"The state/task '{whose}' returned {limit}"


def reported_error(error: str) -> str:
    """Return the name that histories, Catch and events show. A missed heartbeat has a name only for `ErrorEquals`."""
    return TIMEOUT if error == HEARTBEAT_TIMEOUT else error


def locate_cause(error: str, cause: str, state: str, event: int) -> str:
    """Return the cause as AWS writes it: with the state and the number of the event that entered it."""
    if error not in LOCATED or not state or cause.startswith("An error occurred while executing the state"):
        return cause
    return (
        f"An error occurred while executing the state '{state}' (entered at the event id #{event}). {cause}"
    )


def type_of(value: Any) -> str:
    """Return JSON's name for the type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def threw(source: str, location: str, code: str | None, message: str) -> QueryError:
    """Return the error of an expression that failed while it was evaluated."""
    text = f"{code}: {message}" if code else message
    return QueryError(f"{_expression(source, location)} threw an error during evaluation. {text}", location)


def undefined_error(source: str, location: str) -> QueryError:
    """Return the error of an expression without a value: JSON has none for it."""
    return QueryError(f"{_expression(source, location)} returned nothing (undefined).", location)


def unsupported_error(source: str, location: str) -> QueryError:
    """Return the error of an expression that returns something other than JSON, such as a function."""
    return QueryError(f"{_expression(source, location)} returned an unsupported result type.", location)


def require_type(field: str, expected: str, value: Any, source: str = "") -> None:
    """Raise QueryError unless the field's value has the type that AWS expects."""
    if type_of(value) != expected:
        raise QueryError(
            f"{_expression(source, field)} returned an unexpected result type. Expected '{expected}', but was "
            f"'{type_of(value)}' for value: {json.dumps(value, separators=(',', ':'))}",
            field,
        )


def whole(field: str, value: Any, *, least: int, source: str = "") -> int:
    """Return a field's whole number, or raise QueryError if AWS rejects the value."""
    require_type(field, "number", value, source)
    if not float(value).is_integer():
        raise QueryError(f"The {field} field cannot be parsed as an integer: {json.dumps(value)}", field)
    if not least <= value <= LONGEST_WAIT:
        raise QueryError(
            f"{field} must be between {least} and {LONGEST_WAIT} but was: {json.dumps(value)}", field
        )
    return int(value)


def moment(field: str, value: Any, source: str = "") -> datetime:
    """Return a field's time. Raise QueryError unless it is an ISO-8601 time with an offset."""
    require_type(field, "string", value, source)
    found = time_of(value)
    if found is None:
        raise QueryError(
            f"The {field} field cannot be parsed as an ISO-8601 extended offset date-time format string: {value}",
            field,
        )
    return found


def time_of(text: str) -> datetime | None:
    """Return the time of an ISO-8601 text with an offset, to the microsecond; None for any other text."""
    found = TIMESTAMP.fullmatch(text)
    if found is None:
        return None
    date, fraction, offset = found.groups()
    try:
        return datetime.fromisoformat(f"{date}{(fraction or '')[:7]}{'+00:00' if offset == 'Z' else offset}")
    except ValueError:
        return None


def pause(interval: float, backoff: float, longest: float | None, already: int) -> float:
    """Return the seconds before the next try, without jitter, once a retrier has retried `already` times."""
    seconds = interval * backoff**already
    return seconds if longest is None else min(seconds, longest)


def json_fault(text: str) -> str | None:
    """Return the AWS parser's message for a text that is not JSON, or None for JSON."""
    if not text.strip():
        return "Invalid execution input."
    try:
        json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        return json_errors.fault(text, error)[0]
    except ValueError as error:
        return str(error)
    return None


def _refuse_constant(name: str) -> Any:
    """Raise ValueError for NaN and Infinity, which Python reads and JSON does not have."""
    raise ValueError(f"Non-standard token '{name}'")


def _expression(source: str, location: str) -> str:
    return f"The JSONata expression '{source}' specified for the field '{location}'"
