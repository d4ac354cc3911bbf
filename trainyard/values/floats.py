"""Floats that are not finite, such as a loss that became NaN. JSON and DynamoDB cannot represent them.

They are written as the texts of protobuf's JSON mapping, which Python's `float` and JavaScript's `Number` read.
"""

import math
from typing import Any

NUMBERS = (int, float)
TEXTS = ("NaN", "Infinity", "-Infinity")


def text_of(value: float) -> str:
    """Return the text that represents a number that is not finite."""
    return TEXTS[0] if math.isnan(value) else TEXTS[1] if value > 0 else TEXTS[2]


def with_texts(value: Any) -> Any:
    """Replace the numbers of a JSON document that are not finite with texts."""
    if isinstance(value, dict):
        return {key: with_texts(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [with_texts(item) for item in value]
    return text_of(value) if isinstance(value, float) and not math.isfinite(value) else value


def with_numbers(value: Any) -> Any:
    """Replace the texts of such numbers in a JSON document with the numbers."""
    if isinstance(value, dict):
        return {key: with_numbers(item) for key, item in value.items()}
    if isinstance(value, list):  # curves are long lists of numbers, which need no call
        return [item if type(item) in NUMBERS else with_numbers(item) for item in value]
    return float(value) if value in TEXTS else value


def format_float(value: float, spec: str) -> str:
    """Format a number for users: by `spec` if it is finite, otherwise as its text."""
    return format(value, spec) if math.isfinite(value) else text_of(value)
