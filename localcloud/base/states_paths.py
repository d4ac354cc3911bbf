"""JSONPath with the semantics of Step Functions. Pure.

A path that may match several values (`*`, a slice, a filter, `..`) returns a list, which may be empty. Any other path
returns its single value.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

STEP = re.compile(
    r"""(?P<deep>\.\.)?(?:
        \.?(?P<star>\*|\[\*\])
      | \.?(?P<name>[^\s.\[\]()'"*@?,]+)
      | \.?\[\s*(?P<quote>['"])(?P<quoted>(?:\\.|(?!(?P=quote)).)*)(?P=quote)\s*\]
      | \.?\[\s*(?P<indexes>-?\d+(?:\s*,\s*-?\d+)*)\s*\]
      | \.?\[\s*(?P<slice>-?\d*\s*:\s*-?\d*(?:\s*:\s*-?\d*)?)\s*\]
      | \.?\[\?\(\s*(?P<filter>.*?)\s*\)\]
    )""",
    re.VERBOSE | re.DOTALL,
)
CONDITION = re.compile(r"@(?P<path>[^\s=!<>&|]*)\s*(?:(?P<sign>==|!=|<=|>=|<|>)\s*(?P<value>.+))?", re.DOTALL)
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
Find = Callable[[Any], Iterator[Any]]
"""Yields the matches of one step from a value."""


class PathError(Exception):
    """The path is invalid or matches no value. The message is AWS's."""


@dataclass(frozen=True)
class Step:
    """A step of a path: its function, and AWS's notation."""

    find: Find
    is_single: bool
    name: str = ""


def resolve(path: str, data: Any) -> Any:
    """Return the value of a path. Raise PathError if a single value is missing."""
    steps = _steps(path)
    is_single = all(step.is_single for step in steps)
    found: Sequence[Any] = [data]
    for number, step in enumerate(steps):
        found = [each for value in found for each in step.find(value)]
        if is_single and not found:
            raise PathError(_missing(path, steps, number))
    return found[0] if is_single else list(found)


def _missing(path: str, steps: Sequence[Step], number: int) -> str:
    walked = "$" + "".join(step.name for step in steps[: number + 1])
    if number == len(steps) - 1:
        return f"Invalid path '{path}' : No results for path: {walked}"
    return f"Invalid path '{path}' : Missing property in path {walked}"


@cache
def _steps(path: str) -> Sequence[Step]:
    if not path.startswith("$"):
        raise PathError(f"Invalid path '{path}'")
    steps: list[Step] = []
    position = 1
    while position < len(path):
        found = STEP.match(path, position)
        if found is None:
            raise PathError(f"Invalid path '{path}'")
        if found["deep"]:
            steps.append(Step(_everything, is_single=False))
        steps.append(_step(found))
        position = found.end()
    return steps


def _step(found: re.Match[str]) -> Step:
    if found["star"]:
        return Step(_children, is_single=False)
    if found["name"] is not None or found["quoted"] is not None:
        name = (
            found["name"]
            if found["name"] is not None
            else re.sub(rf"\\([\\{found['quote']}])", r"\1", found["quoted"])
        )
        return Step(lambda value: _members(value, name), is_single=True, name=f"['{name}']")
    if found["indexes"]:
        indexes = [int(each) for each in found["indexes"].split(",")]
        return Step(
            lambda value: _elements(value, indexes), is_single=len(indexes) == 1, name=f"[{found['indexes']}]"
        )
    if found["slice"] is not None:
        bounds = slice(*(int(each) if each.strip() else None for each in found["slice"].split(":")))
        return Step(lambda value: iter(value[bounds] if isinstance(value, list) else ()), is_single=False)
    test = _test(found["filter"])
    return Step(lambda value: (each for each in _children(value) if test(each)), is_single=False)


def _members(value: Any, name: str) -> Iterator[Any]:
    if isinstance(value, dict) and name in value:
        yield value[name]


def _elements(value: Any, indexes: Sequence[int]) -> Iterator[Any]:
    if isinstance(value, list):
        yield from (value[index] for index in indexes if -len(value) <= index < len(value))


def _children(value: Any) -> Iterator[Any]:
    match value:
        case dict():
            yield from value.values()
        case list():
            yield from value


def _everything(value: Any) -> Iterator[Any]:
    yield value
    for child in _children(value):
        yield from _everything(child)


def _test(text: str) -> Callable[[Any], bool]:
    """Compile a filter: comparisons of `@` with a value, joined by && and ||."""
    if "||" in text:
        ways = [_test(each.strip()) for each in text.split("||")]
        return lambda value: any(way(value) for way in ways)
    if "&&" in text:
        needs = [_test(each.strip()) for each in text.split("&&")]
        return lambda value: all(need(value) for need in needs)
    found = CONDITION.fullmatch(text)
    if found is None:
        raise PathError(f"Invalid path filter '{text}'")
    path, compare = f"${found['path']}", SIGNS.get(found["sign"] or "")
    wanted = _literal(found["value"]) if compare else None

    def test(value: Any) -> bool:
        try:
            own = resolve(path, value)
            return compare is None or bool(compare(own, wanted))
        except (PathError, TypeError):
            return False

    return test


def _literal(text: str) -> Any:
    text = text.strip()
    quoted = re.fullmatch(r"'(.*)'", text, re.DOTALL)
    try:
        return quoted[1] if quoted else json.loads(text)
    except ValueError as error:
        raise PathError(f"Invalid path filter value {text}") from error
