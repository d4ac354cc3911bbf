"""Event patterns: matching of events, and patterns that EventBridge refuses.

Pure, because the local cloud and the simulator both use this module. As in AWS's matcher, patterns and events become
flat paths (`detail.state`). Dots join keys, and values from one array must come from the same element.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from localcloud.base import json_errors
from localcloud.services.eventbridge.comparisons import OPERATORS, InvalidPatternError, Values, values_of

__all__ = ["InvalidPatternError", "Pattern", "compile_pattern", "parse_pattern"]

MOST_ALTERNATIVES = 1000
RESERVED = frozenset(OPERATORS) | {
    *("=", "<", "<=", ">", ">=", "regex", "not-wildcard", "not-equals-ignore-case"),
    *("date-after", "date-on-or-after", "date-before", "date-on-or-before", "in-date-range"),
    *("ip-address-in-range", "ip-address-not-in-range"),
}
"""Names that no field inside `$or` may have."""

Alternative = dict[str, Values]
"""The values that each path must have."""
Place = frozenset[tuple[int, int]]
"""The elements that a value is in: (number of the array, index)."""
Leaves = dict[str, list[tuple[Any, Place]]]
NOWHERE: Place = frozenset()


@dataclass(frozen=True)
class Pattern:
    """A compiled pattern. It matches an event that fits one of its alternatives."""

    alternatives: Sequence[Alternative]
    prefixes: frozenset[str]
    """Every path that leads to a value that the pattern names."""

    def matches(self, event: Mapping[str, Any]) -> bool:
        """Return True if the event fits."""
        leaves: Leaves = {}
        for path, value, place in _leaves(event, "", NOWHERE, self.prefixes, iter(range(1 << 31))):
            leaves.setdefault(path, []).append((value, place))
        return any(_fits([*each.items()], leaves, NOWHERE) for each in self.alternatives)


@functools.lru_cache(maxsize=1024)
def parse_pattern(text: str) -> Pattern:
    """Compile the JSON text of a pattern. Raise InvalidPatternError with AWS's reason if EventBridge refuses it."""
    if not text.strip():
        raise InvalidPatternError("Filter is not an object")
    try:
        pattern = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise InvalidPatternError(json_errors.describe(text, error)) from error
    except (ValueError, RecursionError) as error:
        raise InvalidPatternError("Invalid JSON") from error
    if isinstance(pattern, list):
        raise InvalidPatternError(f"Filter is not an object{json_errors.at(text, text.index('[') + 1)}")
    return compile_pattern(pattern)


def compile_pattern(pattern: Any) -> Pattern:
    """Compile a pattern. EventBridge reads `$or` as a field's name if it cannot be the operator."""
    try:
        alternatives = _extend([{}], "", pattern, expand=True)
    except InvalidPatternError:
        alternatives = _extend([{}], "", pattern, expand=False)
    if len(alternatives) > MOST_ALTERNATIVES:
        raise InvalidPatternError(f"Event pattern contains more than {MOST_ALTERNATIVES} rule combinations")
    paths = {path for each in alternatives for path in each}
    prefixes = {
        path[:end] for path in paths for end in range(1, len(path) + 1) if path[end : end + 1] in ("", ".")
    }
    return Pattern(alternatives, frozenset(prefixes))


def _extend(
    alternatives: list[Alternative], path: str, pattern: Any, *, expand: bool, in_or: bool = False
) -> list[Alternative]:
    """Add the fields in the order of the text. For two conditions on one path, the last one counts."""
    if not isinstance(pattern, Mapping):
        raise InvalidPatternError("Filter is not an object")
    if not pattern:
        raise InvalidPatternError("Empty objects are not allowed")
    for key, wanted in pattern.items():
        here = f"{path}{key}"
        if key == "$or" and expand:
            alternatives = _branches(alternatives, path, wanted)
        elif in_or and key in RESERVED:
            raise InvalidPatternError(f"{key} is Ruler reserved fieldName which cannot be used inside $or.")
        elif isinstance(wanted, Mapping):
            alternatives = _extend(alternatives, f"{here}.", wanted, expand=expand, in_or=in_or)
        elif isinstance(wanted, list | tuple):
            values = values_of(wanted)
            alternatives = [{**each, here: values} for each in alternatives]
        else:
            raise InvalidPatternError(f'"{key}" must be an object or an array')
    return alternatives


def _branches(alternatives: list[Alternative], path: str, branches: Any) -> list[Alternative]:
    if not isinstance(branches, list | tuple):
        raise InvalidPatternError("It must be an Array followed with $or.")
    if len(branches) < 2:
        raise InvalidPatternError("There must have at least 2 Objects in $or relationship.")
    extended = []
    for branch in branches:
        extended += _extend(alternatives, path, branch, expand=True, in_or=True)
        if len(extended) > MOST_ALTERNATIVES:
            break  # `compiled` refuses it
    return extended


def _leaves(
    value: Any, path: str, place: Place, prefixes: frozenset[str], arrays: Iterator[int]
) -> Iterator[tuple[str, Any, Place]]:
    """Yield the plain values at relevant paths. Empty arrays and objects count as missing fields."""
    match value:
        case Mapping():
            for key, each in value.items():
                here = f"{path}.{key}" if path else str(key)
                if here in prefixes:
                    yield from _leaves(each, here, place, prefixes, arrays)
        case list() | tuple():
            number = next(arrays)
            for index, each in enumerate(value):
                is_nested = isinstance(each, Mapping | list | tuple)
                yield from _leaves(
                    each, path, place | {(number, index)} if is_nested else place, prefixes, arrays
                )
        case _:
            yield path, value, place


def _fits(fields: Sequence[tuple[str, Values]], leaves: Leaves, chosen: Place) -> bool:
    """Return True if each field has an accepted value and all values from one array are in the same element."""
    if not fields:
        return True
    (path, values), *others = fields
    found = leaves.get(path)
    if not found:
        return values.accept_absence and _fits(others, leaves, chosen)
    places = dict.fromkeys(place for value, place in found if values.accept(value))
    return any(_fits(others, leaves, chosen | each) for each in places if _agree(chosen, each))


def _agree(one: Place, other: Place) -> bool:
    chosen = dict(one)
    return all(chosen.get(array, index) == index for array, index in other)


def _refuse_constant(literal: str) -> Any:
    raise ValueError(literal)
