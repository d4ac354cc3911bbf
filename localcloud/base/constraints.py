"""Limits and patterns that a service's model sets for requests, and AWS's words for requests that violate them.

Pure. Needed because botocore checks less of the models than the services do.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from botocore.model import Shape


def refusal(shape: Shape, request: Mapping[str, Any], unchecked: Collection[str] = ()) -> str | None:
    """Return AWS's words for the violations in the request, or None. Fields in `unchecked` are skipped."""
    given = [name for name in unchecked if name in request]
    found = [each for each in _violations(shape, request, "") if not _is_of(each, given)]
    if not found:
        return None
    counted = f"{len(found)} validation error{'s' if len(found) > 1 else ''} detected"
    return f"{counted}: {'; '.join(found)}"


def _is_of(violation: str, fields: Collection[str]) -> bool:
    return any(f" at '{name}' " in violation for name in fields)


def _violations(shape: Any, value: Any, path: str) -> Iterator[str]:
    match shape.type_name:
        case "structure" if isinstance(value, Mapping):
            for name in shape.metadata.get("required", ()):
                if value.get(name) is None:
                    yield _violated(None, _join(path, name), "Member must not be null")
            for name, member in shape.members.items():
                if value.get(name) is not None:
                    yield from _violations(member, value[name], _join(path, name))
        case "list" if isinstance(value, list):
            yield from _bounded(shape, value, len(value), "length", path)
            for number, each in enumerate(value, 1):
                yield from _violations(shape.member, each, f"{path}.{number}.member")
        case "string" if isinstance(value, str):
            yield from _bounded(shape, value, len(value), "length", path)
            yield from _spelled(shape, value, path)
        case "integer" | "long" if isinstance(value, int) and not isinstance(value, bool):
            yield from _bounded(shape, value, value, "value", path)


def _bounded(shape: Any, value: Any, size: int, what: str, path: str) -> Iterator[str]:
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    if least is not None and size < least:
        yield _violated(value, path, f"Member must have {what} greater than or equal to {least}")
    if most is not None and size > most:
        yield _violated(value, path, f"Member must have {what} less than or equal to {most}")


def _spelled(shape: Any, value: str, path: str) -> Iterator[str]:
    pattern, allowed = shape.metadata.get("pattern"), shape.metadata.get("enum")
    if pattern is not None and (compiled := _compiled(pattern)) and not compiled.fullmatch(value):
        yield _violated(value, path, f"Member must satisfy regular expression pattern: {pattern}")
    if allowed is not None and value not in allowed:
        yield _violated(value, path, f"Member must satisfy enum value set: [{', '.join(allowed)}]")


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str] | None:
    r"""Compile a pattern. Return None for one that only Java supports (`\p{ASCII}`), which is not checked."""
    try:
        return re.compile(pattern, re.ASCII)
    except re.error:
        return None


def _join(path: str, name: str) -> str:
    name = name[0].lower() + name[1:]
    return f"{path}.{name}" if path else name


def _violated(value: Any, path: str, constraint: str) -> str:
    shown = "null" if value is None else f"'{value if isinstance(value, str) else json.dumps(value)}'"
    return f"Value {shown} at '{path}' failed to satisfy constraint: {constraint}"
