"""The validation of documents by our schemas, as editors do it."""

import re
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator, ValidationError, validators


def as_ecma(_: Any, pattern: str, value: object, __: Any) -> Iterator[ValidationError]:
    """Match a pattern as ECMAScript does: the last `$` does not match before a final line feed, unlike Python's."""
    if isinstance(value, str) and not re.search(pattern.removesuffix("$") + r"\Z", value):
        yield ValidationError(f"{value!r} does not match {pattern}")


Validator = validators.extend(Draft202012Validator, {"pattern": as_ecma})  # type: ignore[no-untyped-call]


def accepts(schema: dict[str, Any], given: object) -> bool:
    return bool(Validator(schema).is_valid(given))
