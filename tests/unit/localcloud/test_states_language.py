"""Semantics of the Amazon States Language: JSONPath, times, and matching of errors."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from localcloud.base import states_language as language
from localcloud.base.states_paths import PathError, resolve

DATA: dict[str, Any] = {
    "items": [{"n": 0, "ok": True}, {"n": 1}, {"n": 2, "name": "c"}],
    "deep": {"items": [{"n": 3}]},
    "with space": 1,
    "nothing": None,
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("$", DATA),
        ("$.items[0].n", 0),
        ("$.items[-1].n", 2),
        ("$['with space']", 1),
        ('$["with space"]', 1),
        ("$.nothing", None),
        ("$.items[*].n", [0, 1, 2]),
        ("$.items[1:]", DATA["items"][1:]),
        ("$.items[:1].n", [0]),
        ("$.items[0,2].n", [0, 2]),
        ("$.items[::2].n", [0, 2]),
        ("$.items[?(@.n == 1)]", [{"n": 1}]),
        ("$.items[?(@.n > 0 && @.name == 'c')].n", [2]),
        ("$.items[?(@.n == 0 || @.n == 2)].n", [0, 2]),
        ("$.items[?(@.ok)].n", [0]),
        ("$.items[?(@.n == 9)]", []),
        ("$..n", [0, 1, 2, 3]),
        ("$.missing[*]", []),
        ("$.missing[1:5].n", []),
        ("$.missing.items[?(@.n == 0)]", []),
    ],
)
def test_what_a_path_means(path: str, value: Any) -> None:
    assert resolve(path, DATA) == value


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("$.missing", "Invalid path '$.missing' : No results for path: $['missing']"),
        ("$.missing.deeper", "Invalid path '$.missing.deeper' : Missing property in path $['missing']"),
        ("$.items[7]", "Invalid path '$.items[7]' : No results for path: $['items'][7]"),
        ("items", "Invalid path 'items'"),
        ("$.a b", "Invalid path '$.a b'"),
    ],
)
def test_a_path_to_one_value_that_is_not_there_is_an_error(path: str, said: str) -> None:
    with pytest.raises(PathError) as missing:
        resolve(path, DATA)
    assert str(missing.value) == said


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-20T12:00:00Z", datetime(2026, 11, 20, 12, tzinfo=UTC)),
        ("2026-11-20T12:00:00.5Z", datetime(2026, 11, 20, 12, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-11-20T12:00:00.123456789Z", datetime(2026, 11, 20, 12, 0, 0, 123_456, tzinfo=UTC)),
        ("2026-11-20T13:00:00+01:00", datetime(2026, 11, 20, 12, tzinfo=UTC)),
        ("2026-11-20 12:00:00Z", None),
        ("2026-11-20T12:00:00", None),
        ("2026-13-20T12:00:00Z", None),
        ("2026-11-20T25:00:00Z", None),
        ("20-11-2026T12:00:00Z", None),
        ("2026-11-20", None),
        ("", None),
    ],
)
def test_which_texts_are_times(text: str, moment: datetime | None) -> None:
    assert language.time_of(text) == moment


@pytest.mark.parametrize(
    ("error", "wanted", "is_meant"),
    [
        ("Mine", ["Mine"], True),
        ("Mine", ["Yours", "States.TaskFailed"], True),
        ("Mine", ["Min"], False),
        ("States.Timeout", ["States.ALL"], True),
        ("States.Timeout", ["States.TaskFailed"], False),
        ("States.Timeout", ["States.HeartbeatTimeout"], False),
        ("States.HeartbeatTimeout", ["States.HeartbeatTimeout"], True),
        ("States.HeartbeatTimeout", ["States.Timeout"], True),
        ("States.Runtime", ["States.ALL"], False),
        ("States.Runtime", ["States.Runtime"], False),
        ("States.DataLimitExceeded", ["States.TaskFailed"], False),
        ("States.DataLimitExceeded", ["States.DataLimitExceeded"], True),
        ("States.DataLimitExceeded", ["States.ALL"], True),
        (None, ["States.ALL"], True),
        (None, ["Mine"], False),
    ],
)
def test_which_errors_a_rule_is_for(error: str | None, wanted: list[str], *, is_meant: bool) -> None:
    assert language.matches(wanted, error) is is_meant
