"""States in JSONPath: templates, intrinsic functions, rules of choices, and the place of a result."""

from __future__ import annotations

from typing import Any

import pytest

from localcloud.base.states_paths import PathError
from localcloud.base.states_queries import Scope, put_result

DATA: dict[str, Any] = {
    "name": "it's",
    "items": [3, 1, 3],
    "text": '{"a": [1]}',
    "none": None,
    "day": "2026-11-20T12:00:00Z",
    "half": 0.5,
    "yes": True,
}
SCOPE = Scope(DATA, lambda: {"Execution": {"Name": "run"}}, {"old": {"x": 1}, "word": "b"})


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("States.Array(1, $.half, 'a', true, null)", [1, 0.5, "a", True, None]),
        ("States.ArrayContains($.items, 1)", True),
        ("States.ArrayGetItem($.items, 1)", 1),
        ("States.ArrayLength($.items)", 3),
        ("States.ArrayPartition($.items, 2)", [[3, 1], [3]]),
        ("States.ArrayRange(1, 7, 3)", [1, 4, 7]),
        ("States.ArrayRange(3, 1, -1)", [3, 2, 1]),
        ("States.ArrayUnique($.items)", [3, 1]),
        ("States.Base64Decode(States.Base64Encode($.name))", "it's"),
        ("States.Format('{}: {} {}', $.name, $.yes, $.items)", "it's: true [3,1,3]"),
        (r"States.Format('\{\} \'{}\' \\', 1)", "{} '1' \\"),
        ("States.Hash('a', 'MD5')", "0cc175b9c0f1b6a831c399e269772661"),
        ("States.JsonMerge($old, States.StringToJson($.text), false)", {"x": 1, "a": [1]}),
        ("States.JsonToString($.items)", "[3,1,3]"),
        ("States.MathAdd(1, -2)", -1),
        ("States.MathRandom(4, 5)", 4),
        ("States.StringSplit('a,b;;c', ',;')", ["a", "b", "c"]),
        ("States.StringToJson(' ')", None),
        ("States.Format('{}/{}', $$.Execution.Name, $word)", "run/b"),
        ("States.ArrayLength($.items[?(@ == 3)])", 2),
        ("States.Array($['half'], $.items[0,1])", [0.5, [3, 1]]),
    ],
)
def test_an_intrinsic_function_has_its_value(call: str, value: Any) -> None:
    assert SCOPE.call(call) == value


@pytest.mark.parametrize(
    "call",
    [
        "States.ArrayGetItem($.items, 7)",
        "States.MathAdd('a', 1)",
        "States.Hash('a', 'MD4')",
        "States.StringToJson('{')",
        "States.Format('{}')",
        "States.Format('{}', 1, 2)",
        "States.Unknown()",
        "States.Array(1",
        "States.Array(1) 2",
        "States.Array(?)",
        "States.Array($.missing)",
    ],
)
def test_a_wrong_call_is_an_error(call: str) -> None:
    with pytest.raises(PathError):
        SCOPE.call(call)


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        ({"Variable": "$.name", "StringEquals": "it's"}, True),
        ({"Variable": "$.name", "StringMatches": "i*s"}, True),
        ({"Variable": "$.name", "StringMatches": r"i\*s"}, False),
        ({"Variable": "$.name", "NumericEquals": 1}, False),
        ({"Variable": "$.name", "StringLessThan": "j"}, True),
        ({"Variable": "$word", "StringGreaterThanEqualsPath": "$.name"}, False),
        ({"Variable": "$.half", "NumericLessThanEquals": 0.5}, True),
        ({"Variable": "$.half", "NumericGreaterThanPath": "$.items[1]"}, False),
        ({"Variable": "$.yes", "BooleanEquals": True}, True),
        ({"Variable": "$.yes", "NumericEquals": 1}, False),
        ({"Variable": "$.day", "TimestampLessThan": "2026-11-20T13:30:00+01:00"}, True),
        ({"Variable": "$.day", "IsTimestamp": True}, True),
        ({"Variable": "$.yes", "IsNumeric": True}, False),
        ({"Variable": "$.none", "IsNull": True}, True),
        ({"Variable": "$.missing", "IsPresent": False}, True),
        ({"Variable": "$.none", "IsPresent": True}, True),
        ({"Not": {"Variable": "$.yes", "BooleanEquals": True}}, False),
        (
            {"And": [{"Variable": "$.yes", "IsBoolean": True}, {"Variable": "$.half", "IsString": True}]},
            False,
        ),
        (
            {"Or": [{"Variable": "$.yes", "IsBoolean": True}, {"Variable": "$.missing", "IsString": True}]},
            True,
        ),
    ],
)
def test_a_rule_of_a_choice_holds_or_not(rule: dict[str, Any], holds: bool) -> None:
    assert SCOPE.holds(rule) is holds


def test_a_rule_with_a_missing_variable_is_an_error() -> None:
    with pytest.raises(PathError, match="Invalid path"):
        SCOPE.holds({"Variable": "$.missing", "StringEquals": "a"})


def test_a_template_has_paths_calls_and_plain_values() -> None:
    given = {
        "plain": "$.name",
        "it.$": "$.name",
        "in": [{"n.$": "States.ArrayLength($.items)"}],
        "old.$": "$old.x",
    }
    assert SCOPE.fill(given) == {"plain": "$.name", "it": "it's", "in": [{"n": 3}], "old": 1}
    with pytest.raises(
        PathError, match=r"The JSONPath '[$].missing' specified for the field 'it.[$]' could not"
    ):
        SCOPE.fill({"it.$": "$.missing"})
    with pytest.raises(PathError, match=r"Invalid path '[$]new'"):
        SCOPE.find("$new")


@pytest.mark.parametrize(
    ("path", "whole"),
    [
        (None, {"a": {"b": 1}}),
        ("$", 2),
        ("$.a", {"a": 2}),
        ("$.a.c", {"a": {"b": 1, "c": 2}}),
        ("$['new'].deep", {"a": {"b": 1}, "new": {"deep": 2}}),
    ],
)
def test_a_result_has_its_place_in_the_input(path: str | None, whole: Any) -> None:
    given = {"a": {"b": 1}}
    assert put_result(path, given, 2) == whole
    assert given == {"a": {"b": 1}}
