"""Event patterns: matches, and EventBridge's refusals with their messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from localcloud.services.eventbridge.patterns import InvalidPatternError, compile_pattern, parse_pattern

MISSING: Any = object()


def event(value: Any) -> dict[str, Any]:
    return {"source": "yard", "detail": {} if value is MISSING else {"it": value}}


@pytest.mark.parametrize(
    ("wanted", "value", "is_match"),
    [
        (["a", "b"], "b", True),
        (["a", "b"], "c", False),
        (["1"], 1, False),
        ([1], 1.0, True),
        ([True], 1, False),
        ([None], None, True),
        ([""], None, False),
        (["a"], ["x", "a"], True),
        (["a"], [["x"], ["a"]], True),
        (["a"], MISSING, False),
        ([{"prefix": "yard-"}], "yard-start", True),
        ([{"prefix": "yard-"}], "AWS-start", False),
        ([{"prefix": ""}], "any text", True),
        ([{"prefix": ""}], 5, False),
        ([{"prefix": {"equals-ignore-case": "Yard"}}], "yARD-1", True),
        ([{"suffix": ".yaml"}], "a.yaml", True),
        ([{"suffix": {"equals-ignore-case": ".YAML"}}], "a.yaml", True),
        ([{"wildcard": "jobs/*.yaml"}], "jobs/deep/a.yaml", True),
        ([{"wildcard": "jobs/*.yaml"}], "jobs/a.yaml.bak", False),
        ([{"wildcard": "jobs/*.yaml"}], "jobs/ayaml", False),
        ([{"wildcard": "a\\*b*c"}], "a*b-c", True),
        ([{"wildcard": "a\\*b*c"}], "aXb-c", False),
        ([{"wildcard": "*/a/*/b/*"}], "x/a/y/a/z/b/", True),
        ([{"wildcard": "*/a/*/b/*"}], "x/b/y/a/", False),
        ([{"wildcard": ""}], "a", False),
        ([{"equals-ignore-case": "Ready"}], "READY", True),
        ([{"exactly": "a"}], "a", True),
        ([{"anything-but": ["a", "b"]}], "c", True),
        ([{"anything-but": ["a", "b"]}], "a", False),
        ([{"anything-but": [1, 2]}], 3, True),
        ([{"anything-but": 0}], 0, False),
        ([{"anything-but": "a"}], None, True),
        ([{"anything-but": "a"}], MISSING, False),
        ([{"anything-but": "a"}], ["a", "b"], True),
        ([{"anything-but": "a"}], [], False),
        ([{"anything-but": {"prefix": "x"}}], "xy", False),
        ([{"anything-but": {"prefix": ["x", "y"]}}], "y", False),
        ([{"anything-but": {"prefix": "x"}}], 5, True),
        ([{"anything-but": {"suffix": "x"}}], "ax", False),
        ([{"anything-but": {"wildcard": ["*/a/*", "b*"]}}], "x/a/", False),
        ([{"anything-but": {"wildcard": "*/a/*"}}], "x/b/", True),
        ([{"anything-but": {"equals-ignore-case": ["A", "b"]}}], "B", False),
        ([{"numeric": [">", 0, "<=", 5]}], 5, True),
        ([{"numeric": [">", 0, "<=", 5]}], 6, False),
        ([{"numeric": ["=", 5]}], 5.0, True),
        ([{"numeric": ["=", 5]}], "5", False),
        ([{"numeric": ["=", 5]}], None, False),
        ([{"cidr": "10.0.0.5/24"}], "10.0.0.200", True),
        ([{"cidr": "10.0.0.0/24"}], "10.0.1.1", False),
        ([{"cidr": "10.0.0.0/24"}], "no address", False),
        ([{"cidr": "2001:db8::/32"}], "2001:db8::1", True),
        ([{"cidr": "2001:db8::/32"}], "10.0.0.1", False),
        ([{"exists": True}], None, True),
        ([{"exists": True}], [], False),
        ([{"exists": True}], {"a": 1}, False),
        ([{"exists": True}], MISSING, False),
        ([{"exists": False}], "a", False),
        ([{"exists": False}], MISSING, True),
        ([{"exists": False}, "a"], "a", True),
        ({"name": ["a"]}, [{"name": "b"}, {"name": "a"}], True),
        ({"name": ["a"]}, '{"name": "a"}', False),
        ({"name": [{"exists": False}]}, "text", True),
    ],
)
def test_which_values_a_field_accepts(wanted: Any, value: Any, *, is_match: bool) -> None:
    assert compile_pattern({"detail": {"it": wanted}}).matches(event(value)) is is_match


@pytest.mark.parametrize(
    ("pattern", "given", "is_match"),
    [
        ({"a.b": [1]}, {"a": {"b": 1}}, True),
        ({"a": {"b": [1]}}, {"a.b": 1}, True),
        ({"a": {"b": [1]}}, {"a.b": {"b": 1}}, False),
        ({"a": {"x": [1], "y": [2]}}, {"a": [{"x": 1, "y": 2}]}, True),
        ({"a": {"x": [1], "y": [2]}}, {"a": [{"x": 1}, {"y": 2}]}, False),
        ({"a": {"b": {"x": [1], "y": [2]}}}, {"a": [{"b": [{"x": 1}, {"y": 2}]}]}, False),
        ({"a": {"x": [1], "b": {"y": [2]}}}, {"a": [{"x": 1}, {"b": {"y": 2}}]}, False),
        ({"a": {"x": [1], "b": {"y": [2]}}}, {"a": [{"x": 0}, {"x": 1, "b": [{"y": 2}]}]}, True),
        ({"a": {"x": [1]}, "tags": ["t"]}, {"a": [{"x": 1}], "tags": ["s", "t"]}, True),
        ({"$or": [{"a": [1]}, {"b": [1]}]}, {"b": 1}, True),
        ({"$or": [{"a": [1]}, {"b": [1]}]}, {"a": 2, "b": 2}, False),
        ({"a": [1], "$or": [{"a": [2]}, {"b": [3]}]}, {"a": 2}, True),
        ({"a": {"$or": [{"b": [1]}, {"c": [{"exists": False}]}]}}, {"a": {"b": 2}}, True),
        ({"$or": [{"prefix": "x"}, {"prefix": "y"}]}, {"$or": "yes"}, True),
    ],
)
def test_fields_of_one_array_are_of_one_element_and_dots_join_names(
    pattern: Any, given: Any, *, is_match: bool
) -> None:
    assert compile_pattern(pattern).matches(given) is is_match


TOO_COMPLEX = (
    "Rule is too complex - try using fewer wildcard characters or fewer repeating character sequences after a "
    "wildcard character"
)
NOT_ONE = "Value of anything-but must be an array or single string/number value."
AFFIX = "prefix/suffix match pattern must be a string"
CASES = "Inside anything-but/equals-ignore-case list, number|start|null|boolean is not supported."


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ("text", '"it" must be an object or an array'),
        (42, '"it" must be an object or an array'),
        ([], "Empty arrays are not allowed"),
        ({}, "Empty objects are not allowed"),
        ([["a"]], "Match value must be String, number, true, false, or null"),
        ([{}], "Match expression name not found"),
        ([{"EXISTS": True}], "Unrecognized match type EXISTS"),
        ([{"prefix": "a", "suffix": "b"}], "Only one key allowed in match expression"),
        ([{"exists": "true"}], "exists match pattern must be either true or false."),
        ([{"prefix": 1}], "prefix match pattern must be a string"),
        ([{"suffix": [".png"]}], "suffix match pattern must be a string"),
        ([{"equals-ignore-case": ["a"]}], "equals-ignore-case match pattern must be a string"),
        ([{"wildcard": 1}], "wildcard match pattern must be a string"),
        ([{"wildcard": "ab**"}], "Consecutive wildcard characters at pos 3"),
        ([{"wildcard": "ab\\c"}], "Invalid escape character at pos 3"),
        ([{"wildcard": "*-*-*-*-*-x"}], TOO_COMPLEX),
        ([{"cidr": "10.0.0.0"}], "Malformed CIDR, one '/' required"),
        ([{"cidr": "10.0.0.0/x"}], "Malformed CIDR, mask bits must be an integer"),
        ([{"cidr": "10.0.0.0/32"}], "IPv4 mask bits must be < 32"),
        ([{"cidr": "host/8"}], "Nonstandard IP address: host"),
        ([{"cidr": "300.0.0.0/8"}], "Invalid IP address: 300.0.0.0"),
        ([{"cidr": ["10.0.0.0/8"]}], "prefix match pattern must be a string"),
        ([{"numeric": 10}], "Value of numeric must be an array."),
        ([{"numeric": ["==", 1]}], "Unrecognized numeric range operator: =="),
        ([{"numeric": ["=", "1"]}], "Value of equals must be numeric"),
        ([{"numeric": [">", 0, "<"]}], "Value of < must be numeric"),
        ([{"numeric": [">", 0, ">", 1]}], "Bad numeric range operator: >"),
        ([{"numeric": [">", 5, "<", 1]}], "Bottom must be less than top"),
        ([{"numeric": [None, 1]}], "Invalid member in numeric match: null"),
        ([{"anything-but": None}], NOT_ONE),
        ([{"anything-but": ["a", None]}], "Inside anything but list, start|null|boolean is not supported."),
        ([{"anything-but": {"prefix": ""}}], "Null prefix/suffix not allowed"),
        ([{"anything-but": {"suffix": ""}}], "Null prefix/suffix not allowed"),
        ([{"anything-but": {"prefix": 1}}], AFFIX),
        ([{"anything-but": {"suffix": [None, "a"]}}], AFFIX),
        ([{"anything-but": {"prefix": {"equals-ignore-case": "a"}}}], NOT_ONE),
        ([{"anything-but": {"wildcard": [1, "a*"]}}], "wildcard match pattern must be a string"),
        ([{"anything-but": {"equals-ignore-case": 1}}], CASES),
        ([{"anything-but": {"cidr": "10.0.0.0/8"}}], "Unsupported anything-but pattern: cidr"),
    ],
)
def test_what_eventbridge_refuses_and_with_which_words(wanted: Any, reason: str) -> None:
    with pytest.raises(InvalidPatternError) as refused:
        parse_pattern(json.dumps({"detail": {"it": wanted}}))
    assert str(refused.value) == reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", "Filter is not an object"), ("{", "Unexpected end-of-input"), ('{"a": [NaN]}', "Invalid JSON")],
)
def test_a_pattern_is_a_json_object(text: str, reason: str) -> None:
    with pytest.raises(InvalidPatternError, match=reason):
        parse_pattern(text)


def test_a_pattern_may_stand_for_a_thousand_combinations() -> None:
    ten = [{f"{number}": [1]} for number in range(10)]
    pattern = {"a": {"$or": ten}, "b": {"$or": ten}, "c": {"$or": ten}}
    assert compile_pattern(pattern).matches({"a": {"1": 1}, "b": {"2": 1}, "c": {"3": 1}})
    with pytest.raises(InvalidPatternError, match="more than 1000 rule combinations"):
        compile_pattern({**pattern, "d": {"$or": ten}})
