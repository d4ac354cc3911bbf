"""Limits and patterns that a service's model sets for requests, and AWS's words for requests that violate them.

Pure. Needed because botocore checks less of the models than the services do.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from botocore.model import Shape

SCALARS = ("string", "integer", "long", "double", "float")
UNMODELED = {"PutEventsRequestEntry": ("kmsKeyIdentifier", "internalMetadata")}
"""Members that AWS shows and the models lack."""


def refusal(shape: Shape, request: Mapping[str, Any], unchecked: Collection[str] = ()) -> str | None:
    """Return AWS's words for the violations in the request, or None. Fields in `unchecked` are skipped."""
    found = [each for each in _violations(shape, request, "") if not _is_of(each, unchecked)]
    if not found:
        return None
    counted = f"{len(found)} validation error{'s' if len(found) > 1 else ''} detected"
    return f"{counted}: {'; '.join(found)}"


def _is_of(violation: str, fields: Collection[str]) -> bool:
    return any(f" at '{name}' " in violation for name in fields)


def _violations(shape: Any, value: Any, path: str) -> Iterator[str]:
    if _is_free(shape):
        return
    match shape.type_name:
        case "structure" if isinstance(value, Mapping):
            for name in shape.metadata.get("required", ()):
                if value.get(name) is None:
                    yield _describe_violation(shape, None, _join(path, name), "Member must not be null")
            for name, member in shape.members.items():
                if value.get(name) is not None:
                    yield from _violations(member, value[name], _join(path, name))
        case "list" if isinstance(value, list):
            yield from (_describe_violation(shape, value, path, each) for each in broken(shape, value))
            yield from _of_items(shape, value, path)
        case "map" if isinstance(value, Mapping):
            for what, part, parts in (
                ("Map keys", shape.key, value.keys()),
                ("Map value", shape.value, value.values()),
            ):
                if any(broken(part, each) for each in parts):
                    bounds = [bound for bound, _ in _bounds(part)]
                    bounds += [] if what == "Map keys" else ["Member must not be null"]
                    yield _describe_violation(
                        shape, value, path, f"{what} must satisfy constraint: [{', '.join(bounds)}]"
                    )
        case _ if shape.type_name in (*SCALARS, "blob"):
            yield from (_describe_violation(shape, value, path, each) for each in broken(shape, value))


def _of_items(shape: Any, value: list[Any], path: str) -> Iterator[str]:
    """Yield one violation for all scalars of a list, and each violation of its structures."""
    if shape.member.type_name not in SCALARS:
        for number, each in enumerate(value, 1):
            yield from _violations(shape.member, each, f"{path}.{number}.member")
    elif any(broken(shape.member, each) for each in value):
        bounds = [bound for bound, _ in _bounds(shape.member)]
        bounds += ["Member must not be null"] if shape.member.metadata.get("enum") else []
        yield _describe_violation(
            shape, value, path, f"Member must satisfy constraint: [{', '.join(bounds)}]"
        )


def broken(shape: Any, value: Any) -> list[str]:
    """Return the constraints that a value violates: its spelling first, then its bounds."""
    found = [bound for bound, is_kept in _bounds(shape) if not is_kept(value)]
    return sorted(found, key=lambda bound: "regular expression" not in bound)


@functools.cache
def _is_free(shape: Any) -> bool:
    """Return True if neither the shape nor any part of it has constraints."""
    return not _is_bound(shape, frozenset())


def _is_bound(shape: Any, above: frozenset[str]) -> bool:
    if shape.name in above:
        return False
    if shape.metadata.get("required") or _bounds(shape):
        return True
    parts = [*getattr(shape, "members", {}).values()]
    parts += [getattr(shape, name) for name in ("member", "key", "value") if hasattr(shape, name)]
    return any(_is_bound(part, above | {shape.name}) for part in parts)


@functools.cache
def _bounds(shape: Any) -> list[tuple[str, Any]]:
    """Return the constraints of a shape in AWS's words, each with its check."""
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    pattern, allowed = shape.metadata.get("pattern"), shape.metadata.get("enum")
    what = "value" if shape.type_name in SCALARS and shape.type_name != "string" else "length"
    found: list[tuple[str, Any]] = []
    if most is not None:
        text = f"Member must have {what} less than or equal to {most}"
        found.append((text, lambda value: _size(value) <= most))
    if least is not None:
        text = f"Member must have {what} greater than or equal to {least}"
        found.append((text, lambda value: _size(value) >= least))
    if pattern is not None and (compiled := _compile(pattern)):
        text = f"Member must satisfy regular expression pattern: {pattern}"
        found.append((text, lambda value: not isinstance(value, str) or compiled.fullmatch(value)))
    if allowed:
        text = f"Member must satisfy enum value set: [{', '.join(allowed)}]"
        found.append((text, lambda value: value in allowed))
    return found


def _size(value: Any) -> float:
    return value if isinstance(value, int | float) else len(value)


@functools.cache
def _compile(pattern: str) -> re.Pattern[str] | None:
    r"""Compile a pattern. Return None for one that only Java supports (`\p{ASCII}`), which is not checked."""
    try:
        return re.compile(pattern, re.ASCII)
    except re.error:
        return None


def _join(path: str, name: str) -> str:
    name = lowered(name)
    return f"{path}.{name}" if path else name


def lowered(name: str) -> str:
    return name[0].lower() + name[1:]


def _describe_violation(shape: Any, value: Any, path: str, constraint: str) -> str:
    shown = f" {_quoted(shape, value)}" if not shape.metadata.get("sensitive") else ""
    return f"Value{shown} at '{path}' failed to satisfy constraint: {constraint}"


def _quoted(shape: Any, value: Any) -> str:
    return "null" if value is None else f"'{_shown(shape, value)}'"


def _shown(shape: Any, value: Any) -> str:
    """Write a value as AWS's Java code does."""
    match value:
        case None:
            return "null"
        case list():
            return f"[{', '.join(_shown(shape.member, each) for each in value)}]"
        case Mapping() if shape.type_name == "structure":
            members = [
                f"{lowered(name)}={_shown(member, value.get(name))}" for name, member in shape.members.items()
            ]
            members += [f"{name}=null" for name in UNMODELED.get(shape.name, ())]
            return f"{shape.name}({', '.join(members)})"
        case Mapping():
            return "{" + ", ".join(f"{key}={_shown(shape.value, each)}" for key, each in value.items()) + "}"
        case _:
            return str(value)
