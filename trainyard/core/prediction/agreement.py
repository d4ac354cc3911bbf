"""Compare the answers of two runtimes to one request. Values are nested lists, as JSON has them."""

from collections.abc import Iterator, Mapping
from typing import Any

from trainyard.values.quantities import format_count

RELATIVE = 1e-4
"""The largest difference, relative to the largest number of the row."""
SMALLEST = 1e-3
"""The largest number of a row counts as at least this, so that rows of zeros may differ by 1e-7."""


def find_difference(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> str | None:
    """Return a sentence about the first row whose answer differs; None if all answers agree.

    Floats agree if they differ by at most RELATIVE, and if the largest of a row is at the same place. All other values
    agree if they are equal. In a row with the same first value and the same values, the order does not matter, because
    classes with nearly equal scores may change places."""
    if expected.keys() != actual.keys():
        return f"found the outputs {', '.join(sorted(actual))}; expected {', '.join(sorted(expected))}"
    for name in sorted(expected):
        rows, others = _rows(expected[name]), _rows(actual[name])
        if len(rows) != len(others):
            return f"{name}: found {format_count(len(others), 'row')}, expected {len(rows)}"
        for index, (row, other) in enumerate(zip(rows, others, strict=True)):
            if difference := _compare(row, other):
                return f"row {index}, {name}: {difference}"
    return None


def _rows(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _compare(expected: Any, actual: Any) -> str | None:
    numbers, others = list(_flatten(expected)), list(_flatten(actual))
    if len(numbers) != len(others):
        return f"found {format_count(len(others), 'value')}, expected {len(numbers)}"
    if not any(isinstance(each, float) for each in numbers):
        is_ranking = numbers[:1] == others[:1] and sorted(numbers, key=str) == sorted(others, key=str)
        return None if is_ranking else _first_difference(numbers, others)
    tolerance = RELATIVE * max(SMALLEST, *map(abs, numbers))
    for number, other in zip(numbers, others, strict=True):
        if not abs(number - other) <= tolerance:  # NaN is different
            return f"found {other:.7g}, expected {number:.7g}"
    best, chosen = _best(numbers), _best(others)
    if best != chosen and numbers[best] - numbers[chosen] > tolerance:
        return f"the largest value is at {chosen}, expected at {best}"
    return None


def _best(numbers: list[float]) -> int:
    return max(range(len(numbers)), key=numbers.__getitem__)


def _first_difference(values: list[Any], others: list[Any]) -> str:
    return next(
        f"found {other!r}, expected {value!r}"
        for value, other in zip(values, others, strict=True)
        if value != other
    )


def _flatten(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for each in value:
            yield from _flatten(each)
    else:
        yield value
