"""Functions that Step Functions adds to JSONata. Pure: `$random` and `$uuid` are not here."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

ALGORITHMS = {"MD5": "md5", "SHA-1": "sha1", "SHA-256": "sha256", "SHA-384": "sha384", "SHA-512": "sha512"}


def register(parsed: Any) -> None:
    """Add the functions to a compiled expression of the library."""
    for name, function in FUNCTIONS.items():
        parsed.register_lambda(name, function)


def _partition(array: Sequence[Any], size: float) -> list[Any]:
    """Return parts of the array. A part is never longer than `size`."""
    length = math.floor(size)
    if length <= 0:
        raise ValueError("$partition chunk size must be a positive integer")
    return [array[start : start + length] for start in range(0, len(array), length)]


def _range(start: float, end: float, step: float) -> Any:
    """Return a JSONata sequence that includes `end`. A single element stands for itself."""
    first, last, by = map(math.floor, (start, end, step))
    if by == 0:
        raise ValueError("$range delta must not be zero")
    numbers = list(range(first, last + (1 if by > 0 else -1), by))
    return numbers[0] if len(numbers) == 1 else numbers


def _hash(text: Any, algorithm: Any) -> str:
    if algorithm not in ALGORITHMS or not isinstance(text, str):
        raise ValueError(f"$hash algorithm must be one of {', '.join(ALGORITHMS)}")
    return hashlib.new(ALGORITHMS[algorithm], text.encode()).hexdigest()


def _parse(text: str) -> Any:
    return json.loads(text)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "partition": _partition,
    "range": _range,
    "hash": _hash,
    "parse": _parse,
}
