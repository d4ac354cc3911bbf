"""A fast check that botocore would accept parameters. True is certain; False means that botocore must check.

tests/unit/simulation/test_shapes.py compares it with botocore's validator.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from botocore.model import Shape
from botocore.utils import is_json_value_header

Fits = Callable[[Any], bool]
NUMBERS = (float, decimal.Decimal, int)
SCALARS: Mapping[str, Any] = {
    "string": str,
    "integer": int,
    "long": int,
    "float": NUMBERS,
    "double": NUMBERS,
    "boolean": bool,
    "timestamp": datetime,
    "blob": (bytes, bytearray, str),
}
"""Types that botocore accepts. It accepts more for timestamps and blobs."""

_FOUND: dict[int, tuple[Shape, Fits]] = {}
"""Compiled checks by the identity of a shape. The shape is kept so that its identity stays unique."""


def fits(shape: Shape, value: Any) -> bool:
    """Return True if the value certainly passes botocore's validator."""
    return _of(shape)(value)


def _of(shape: Shape) -> Fits:
    found = _FOUND.get(id(shape))
    if found is None:
        found = _FOUND[id(shape)] = (shape, _made(shape))
    return found[1]


def _made(shape: Shape) -> Fits:
    kind, least = shape.type_name, shape.metadata.get("min")
    if least is None and getattr(shape, "serialization", {}).get("hostLabel"):
        least = 1
    if is_json_value_header(shape):
        return _never
    if kind == "structure":
        return _never if shape.is_document_type or shape.is_tagged_union else _structure(shape)
    if kind == "list":
        return _list(shape.member, least or 0)
    if kind == "map":
        return _map(shape.key, shape.value)
    if kind not in SCALARS:
        return _never
    return _scalar(SCALARS[kind], kind, least)


def _never(_: Any) -> bool:
    return False


def _scalar(kinds: Any, kind: str, least: Any) -> Fits:
    if least is None or kind in ("boolean", "timestamp", "blob"):
        return lambda value: isinstance(value, kinds)
    if kind == "string":
        return lambda value: isinstance(value, str) and len(value) >= least
    return lambda value: isinstance(value, kinds) and value >= least


def _structure(shape: Any) -> Fits:
    required, members = frozenset(shape.metadata.get("required", ())), shape.members
    known: dict[Any, Fits] = {}

    def fits_structure(value: Any) -> bool:
        if not isinstance(value, dict) or not required <= value.keys():
            return False
        for name, each in value.items():
            check = known.get(name)
            if check is None:
                if name not in members:
                    return False
                check = known[name] = _of(
                    members[name]
                )  # compiled on first use, because some shapes contain themselves
            if not check(each):
                return False
        return True

    return fits_structure


def _list(member: Shape, least: int) -> Fits:
    check: Fits | None = None

    def fits_list(value: Any) -> bool:
        nonlocal check
        if not isinstance(value, list | tuple) or len(value) < least:
            return False
        check = check or _of(member)
        return all(map(check, value))

    return fits_list


def _map(key: Shape, inner: Shape) -> Fits:
    checks: tuple[Fits, Fits] | None = None

    def fits_map(value: Any) -> bool:
        nonlocal checks
        if not isinstance(value, dict):
            return False
        checks = checks or (_of(key), _of(inner))
        return all(map(checks[0], value)) and all(map(checks[1], value.values()))

    return fits_map
