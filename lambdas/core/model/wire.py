"""How nouns travel: as JSON between states, in the ledger and in the bucket.

A frozen dataclass becomes a mapping and comes back equal. Times are ISO-8601 UTC with milliseconds and Z.
(Written by hand because a library for it would cost a fifth of the import budget of every handler.)
"""

import dataclasses
import types
import typing
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any, TypeVar, cast

Noun = TypeVar("Noun")


def stamp(at: datetime) -> str:
    """The time as the ledger and the signals write it: 2026-11-20T00:00:00.000Z."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def instant(text: str) -> datetime:
    """The aware time that an ISO-8601 text says; a text without a zone is UTC. Raises ValueError for any other text."""
    at = datetime.fromisoformat(text)
    try:
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text} lies beyond the years 1 to 9999") from error


def to_json(value: Any) -> Any:
    """Only what JSON knows. A class with a `kind` (an answer of a union) carries it along."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = getattr(type(value), "kind", None)
        head = {"kind": kind} if isinstance(kind, str) else {}
        return head | {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return stamp(value)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(item) for item in (sorted(value) if isinstance(value, set | frozenset) else value)]
    return value


def from_json(noun: type[Noun], data: Mapping[str, Any]) -> Noun:
    """The noun that `to_json` wrote; keys it does not know are ignored, missing ones take its defaults."""
    hints = _hints(cast(type, noun))
    return noun(**{name: _read(hint, data[name]) for name, hint in hints.items() if name in data})


@cache
def _hints(noun: type) -> dict[str, Any]:
    hints = typing.get_type_hints(noun)
    return {field.name: hints[field.name] for field in dataclasses.fields(noun) if field.init}


def _read(hint: Any, value: Any) -> Any:
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return None if value is None else _read(_the_one(inside), value)
    if origin is tuple:
        return tuple(_read(inside[0], item) for item in value)
    if origin is not None and issubclass(origin, Mapping):
        return {key: _read(inside[1], item) for key, item in value.items()}
    if hint is Any or not isinstance(hint, type):  # Any is a class
        return to_json(value)
    if dataclasses.is_dataclass(hint):
        return from_json(hint, value)
    if issubclass(hint, datetime):
        return instant(value)
    if issubclass(hint, Enum | int | float | str):
        return hint(value)
    return value


def _the_one(members: tuple[Any, ...]) -> Any:
    """The member of an `X | None`; a wider union is a value JSON already knows."""
    others = [member for member in members if member is not types.NoneType]
    return others[0] if len(others) == 1 else Any
