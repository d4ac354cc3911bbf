"""JSONPath states of Amazon States Language: templates, intrinsic functions, rules of choices, and results.

Pure, because the interpreters of the local cloud and of the simulator both use this module.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import operator
import random
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from localcloud.base.states_language import time_of
from localcloud.base.states_paths import PathError, resolve

VARIABLE = re.compile(r"\$([A-Za-z_]\w*)")
CALL = "States."
WORDS = {"true": True, "false": False, "null": None}
ARGUMENT = re.compile(
    r"""\s*(?:
        '(?P<text>(?:[^'\\]|\\.)*)'
      | (?P<call>States\.\w+)\s*\(
      | (?P<path>\$(?:\[(?:\?\([^)]*\)|'[^']*'|[^\]'?]*)\]|[^,()\[])*)
      | (?P<number>-?\d+(?:\.\d+)?)
      | (?P<word>true|false|null)
    )\s*""",
    re.VERBOSE | re.DOTALL,
)
HASHES = {"MD5": "md5", "SHA-1": "sha1", "SHA-256": "sha256", "SHA-384": "sha384", "SHA-512": "sha512"}
MOST_CHARACTERS = 10_000
"""The longest text that States.Hash and the functions of base64 read."""
SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    "Equals": operator.eq,
    "LessThan": operator.lt,
    "LessThanEquals": operator.le,
    "GreaterThan": operator.gt,
    "GreaterThanEquals": operator.ge,
}
COMPARISON = re.compile(rf"(String|Numeric|Boolean|Timestamp)({'|'.join(SIGNS)})(Path)?")


@dataclass(frozen=True)
class Scope:
    """The values that the paths of a state lead to."""

    data: Any
    """`$`: the effective input, or the result."""
    context: Callable[[], Mapping[str, Any]] = dict
    """Returns `$$`, the context object."""
    variables: Mapping[str, Any] = field(default_factory=dict)

    def find(self, path: str) -> Any:
        """Return the value of a path in the data, in a variable (`$name`) or in the context object (`$$`). Raises
        PathError."""
        if path.startswith("$$"):
            return resolve(path[1:], self.context())
        if variable := VARIABLE.match(path):
            if variable[1] not in self.variables:
                raise PathError(f"Invalid path '{path}'")
            return resolve(f"${path[variable.end() :]}", self.variables[variable[1]])
        return resolve(path, self.data)

    def fill(self, given: Any) -> Any:
        """Return `Parameters` or a selector with its paths and intrinsic functions evaluated. Raises PathError."""
        match given:
            case dict():
                return {
                    key.removesuffix(".$"): self._select(key, value)
                    if key.endswith(".$") and isinstance(value, str)
                    else self.fill(value)
                    for key, value in given.items()
                }
            case list():
                return [self.fill(each) for each in given]
            case _:
                return given

    def _select(self, name: str, text: str) -> Any:
        if text.startswith(CALL):
            return self.call(text)
        try:
            return self.find(text)
        except PathError as error:
            raise PathError(not_found(text, name, self.data)) from error

    def call(self, text: str) -> Any:
        """Return the value of an intrinsic function. Raises PathError."""
        value, end = self._argument(text, 0)
        if text[end:].strip():
            raise PathError(f"Invalid intrinsic function {text!r}")
        return value

    def _argument(self, text: str, begin: int) -> tuple[Any, int]:
        found = ARGUMENT.match(text, begin)
        if found is None:
            raise PathError(f"Invalid intrinsic function {text!r}")
        if found["text"] is not None:
            return found["text"], found.end()
        if found["path"] is not None:
            return self.find(found["path"].strip()), found.end()
        if found["number"] is not None:
            return json.loads(found["number"]), found.end()
        if found["word"] is not None:
            return WORDS[found["word"]], found.end()
        given, end = [], found.end()
        while not text.startswith(")", end):
            value, end = self._argument(text, end)
            given.append(value)
            end += text.startswith(",", end)
            if end >= len(text):
                raise PathError(f"Invalid intrinsic function {text!r}")
        rest = text[end + 1 :]
        return _apply(found["call"], given), len(text) - len(rest.lstrip())

    def holds(self, rule: Mapping[str, Any]) -> bool:
        """Return True if the rule of a Choice holds. Raises PathError for a missing variable."""
        if "And" in rule:
            return all(self.holds(each) for each in rule["And"])
        if "Or" in rule:
            return any(self.holds(each) for each in rule["Or"])
        if "Not" in rule:
            return not self.holds(rule["Not"])
        if "IsPresent" in rule:
            return self._is_present(rule["Variable"]) is bool(rule["IsPresent"])
        value = self.find(rule["Variable"])
        for name, test in TESTS.items():
            if name in rule:
                return test(value) is bool(rule[name])
        if "StringMatches" in rule:
            return isinstance(value, str) and bool(_pattern(rule["StringMatches"]).fullmatch(value))
        for name, wanted in rule.items():
            if compared := COMPARISON.fullmatch(name):
                other = self.find(wanted) if compared[3] else wanted
                return _compare(compared[1], SIGNS[compared[2]], value, other)
        return False

    def _is_present(self, path: str) -> bool:
        try:
            self.find(path)
        except PathError:
            return False
        return True


def not_found(path: str, name: str, data: Any) -> str:
    """Return AWS's message for a path of a field that leads to no value."""
    given = json.dumps(data, separators=(",", ":"))
    return f"The JSONPath '{path}' specified for the field '{name}' could not be found in the input '{given}'"


def put_result(path: str | None, original: Any, result: Any) -> Any:
    """Return the input of a state with its result at the `ResultPath`; None discards the result."""
    if path is None:
        return original
    if path == "$":
        return result
    whole = copy.deepcopy(original) if isinstance(original, dict) else {}
    *folders, last = re.findall(r"[^.$\[\]'\"]+", path)
    inside = whole
    for name in folders:
        if not isinstance(inside.get(name), dict):
            inside[name] = {}
        inside = inside[name]
    inside[last] = result
    return whole


def _pattern(text: str) -> re.Pattern[str]:
    """Return the pattern of StringMatches, where `*` is any text and `\\*` a star."""
    parts = re.split(r"(\\\*|\\\\|\*)", text)
    signs = {"*": ".*", r"\*": r"\*", r"\\": r"\\"}
    return re.compile("".join(signs.get(part) or re.escape(part) for part in parts), re.DOTALL)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_time(value: Any) -> bool:
    return isinstance(value, str) and time_of(value) is not None


TESTS: Mapping[str, Callable[[Any], bool]] = {
    "IsNull": lambda value: value is None,
    "IsNumeric": _is_number,
    "IsString": lambda value: isinstance(value, str),
    "IsBoolean": lambda value: isinstance(value, bool),
    "IsTimestamp": _is_time,
}
KINDS: Mapping[str, Callable[[Any], bool]] = {
    "String": TESTS["IsString"],
    "Numeric": _is_number,
    "Boolean": TESTS["IsBoolean"],
    "Timestamp": _is_time,
}


def _compare(kind: str, compare: Callable[[Any, Any], bool], value: Any, other: Any) -> bool:
    """Compare two values of the kind. Values of another kind match nothing."""
    if not (KINDS[kind](value) and KINDS[kind](other)):
        return False
    if kind == "Timestamp":
        value, other = time_of(value), time_of(other)
    return compare(value, other)


def _apply(name: str, given: Sequence[Any]) -> Any:
    function = FUNCTIONS.get(name)
    if function is None:
        raise PathError(f"Unsupported intrinsic function: {name}")
    try:
        return function(*given)
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise PathError(f"Invalid arguments in {name}") from error


def _format(template: str, *values: Any) -> str:
    """Replace each `{}` by a value. A backslash takes the next character as it is."""
    left = list(values)

    def put(found: re.Match[str]) -> str:
        if found[0] != "{}":
            return found[0][1:]
        value = left.pop(0)
        return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))

    text = re.sub(r"\\.|\{\}", put, template, flags=re.DOTALL)
    if left:
        raise ValueError(template)
    return text


def _short(text: Any) -> str:
    if not isinstance(text, str) or len(text) > MOST_CHARACTERS:
        raise ValueError(text)
    return text


def _parse(text: str) -> Any:
    return json.loads(text) if text.strip() else None


def _decode(text: Any) -> str:
    text = _short(text)
    return base64.b64decode(text + "=" * (-len(text) % 4)).decode(errors="replace")


def _unique(values: Sequence[Any]) -> list[Any]:
    return [each for number, each in enumerate(values) if each not in values[:number]]


def _partition(values: Sequence[Any], size: int) -> list[Any]:
    return [values[begin : begin + size] for begin in range(0, len(values), size)]


def _range(first: int, last: int, step: int) -> list[int]:
    return list(range(first, last + (1 if step > 0 else -1), step))


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "States.Array": lambda *values: list(values),
    "States.ArrayContains": lambda values, value: value in values,
    "States.ArrayGetItem": lambda values, index: values[index],
    "States.ArrayLength": len,
    "States.ArrayPartition": _partition,
    "States.ArrayRange": _range,
    "States.ArrayUnique": _unique,
    "States.Base64Decode": _decode,
    "States.Base64Encode": lambda text: base64.b64encode(_short(text).encode()).decode(),
    "States.Format": _format,
    "States.Hash": lambda text, name: hashlib.new(HASHES[name], _short(text).encode()).hexdigest(),
    "States.JsonMerge": lambda first, second, deep: {**first, **second},
    "States.JsonToString": lambda value: json.dumps(value, separators=(",", ":")),
    "States.MathAdd": lambda first, second: int(first) + int(second),
    "States.MathRandom": lambda first, last, seed=None: random.Random(seed).randrange(first, last),
    "States.StringSplit": lambda text, signs: [
        each for each in re.split(f"[{re.escape(signs)}]", text) if each
    ],
    "States.StringToJson": _parse,
    "States.UUID": lambda: str(uuid.uuid4()),
}
