"""Errors of malformed JSON in the words of Jackson, the parser of EventBridge, SNS and Step Functions."""

from __future__ import annotations

import json
import re

TOKEN = re.compile(r"\w+")
VALUES = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')"
HIDDEN = "REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled)"
"""The place of the text in messages of SNS."""


def describe(text: str, error: json.JSONDecodeError, *, hide: bool = False) -> str:
    """Return Jackson's message with the line and the column."""
    words, end = fault(text, error)
    return words + at(text, end, hide=hide)


def fault(text: str, error: json.JSONDecodeError) -> tuple[str, int]:
    """Return Jackson's message, and the index that it names."""
    start = error.pos
    name = "property name" in error.msg
    token = None if name else TOKEN.match(text, start)
    if token:
        return f"Unrecognized token '{token[0]}': was expecting {VALUES}", token.end()
    if start >= len(text):
        return "Unexpected end-of-input", start
    wanted = "double-quote to start field name" if name else f"a valid value {VALUES}"
    found = f"'{text[start]}' (code {ord(text[start])})"
    return f"Unexpected character ({found}): was expecting {wanted}", start


def at(text: str, end: int, *, hide: bool = False) -> str:
    """Return the place in front of the character at `end`."""
    line, column = text.count("\n", 0, end) + 1, end - text.rfind("\n", 0, end)
    source = HIDDEN if hide else f'(String)"{text}"'
    return f"\n at [Source: {source}; line: {line}, column: {column}]"
