"""How nouns travel: as JSON between states, in the ledger and in the bucket.

A frozen dataclass becomes a mapping and comes back equal; a field whose key is no Python name says it in its metadata
(`field(metadata={"wire_key": "instance-id"})`). Times are ISO-8601 UTC with milliseconds and Z.
(Written by hand because a library for it would cost a fifth of the import budget of every handler.)
"""

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

from trainyard.values import floats

Noun = TypeVar("Noun")
MOST_SHOWN = 80
PLAIN = frozenset({str, int, float, bool, types.NoneType})
"""Most values of a noun: what JSON has as it is."""


class Measure(float):
    """A number that a program measured. One that is NaN or infinite travels as a text (floats.py)."""


class Key(NamedTuple):
    """One field of a noun: its name, the key it travels under, its type, whether it must be there."""

    name: str
    key: str
    hint: Any
    required: bool


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
    kind: type = type(value)
    return value if kind in PLAIN else _writer(kind)(value)


def from_json(noun: type[Noun], data: Mapping[str, Any]) -> Noun:
    """The noun that `to_json` wrote; keys it does not know are ignored, missing ones take its defaults."""
    given: dict[str, Any] = {}
    for name, key, plain, read in _readers(cast(type, noun)):
        if key in data:
            value = data[key]
            given[name] = value if type(value) is plain else read(value)
    return noun(**given)


def read(noun: type[Noun], data: object) -> Noun:
    """Return the noun that `to_json` wrote. Raise ValueError with every key that is missing or has a wrong type."""
    if wrong := faults(noun, data):
        raise ValueError("; ".join(wrong))
    return from_json(noun, cast(Mapping[str, Any], data))


def faults(noun: type, data: object) -> list[str]:
    """Every key whose value does not fit the noun, with what was found and what is expected; none: it can be read."""
    return [f"{path or 'it'}: {problem}" for path, problem in _faults(noun, data, "")]


@cache
def keys(noun: type) -> tuple[Key, ...]:
    """The fields of a noun as they travel."""
    hints = typing.get_type_hints(noun)
    return tuple(
        Key(
            field.name,
            field.metadata.get("wire_key", field.name),
            hints[field.name],
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
        )
        for field in dataclasses.fields(noun)
        if field.init
    )


def _faults(hint: Any, value: object, path: str) -> Iterator[tuple[str, str]]:
    """Where the value is not of that type, and how."""
    if type(value) is hint:
        return
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None and types.NoneType in inside:
            return
        yield from _faults(_the_one(inside), value, path)
    elif origin is tuple and isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _faults(inside[0], item, f"{path}[{index}]")
    elif inside and isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, Mapping):
        for key, item in value.items():
            yield from _faults(inside[1], item, f"{path}.{key}")
    elif dataclasses.is_dataclass(hint) and isinstance(value, Mapping):
        for each in keys(cast(type, hint)):
            here = f"{path}.{each.key}" if path else each.key
            if each.key in value:
                yield from _faults(each.hint, value[each.key], here)
            elif each.required:
                yield here, f"is missing, expected {_expected(each.hint)}"
    elif not _fits(origin or hint, value):
        yield path, f"found {value!r:.{MOST_SHOWN}}, expected {_expected(hint)}"


def _fits(hint: Any, value: object) -> bool:
    """Whether a value that holds no others is of that type."""
    if hint is Any or not isinstance(hint, type):  # Any is a class
        return True
    if issubclass(hint, Enum):  # before int, which members of an IntEnum are
        return value in [member.value for member in hint] and not isinstance(value, bool)
    if issubclass(hint, bool) or issubclass(hint, Mapping):
        return isinstance(value, hint)
    if issubclass(hint, int):
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        return whole and not isinstance(value, bool)
    if issubclass(hint, Measure) and value in floats.TEXTS:
        return True
    if issubclass(hint, float):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if issubclass(hint, datetime):
        return _is_instant(value)
    return isinstance(value, hint)


def _is_instant(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(instant(value))
    except ValueError:
        return False


def _expected(hint: Any) -> str:
    if isinstance(hint, type) and issubclass(hint, Enum):
        return f"one of {', '.join(str(member.value) for member in hint)}"
    if dataclasses.is_dataclass(hint):
        return "a mapping"
    return getattr(hint, "__name__", str(hint)) if typing.get_origin(hint) is None else str(hint)


@cache
def _writer(kind: type) -> Callable[[Any], Any]:
    """What `to_json` does with values of that class."""
    if dataclasses.is_dataclass(kind):
        named = getattr(kind, "kind", None)
        head = {"kind": named} if isinstance(named, str) else {}
        fields = [
            (field.metadata.get("wire_key", field.name), field.name) for field in dataclasses.fields(kind)
        ]
        return lambda value: head | {key: to_json(getattr(value, name)) for key, name in fields}
    if issubclass(kind, Enum):
        return lambda value: value.value
    if issubclass(kind, datetime):
        return stamp
    if issubclass(kind, Measure):
        return lambda value: float(value) if math.isfinite(value) else floats.text_of(value)
    if issubclass(kind, Decimal):
        return lambda value: int(value) if value == value.to_integral_value() else float(value)
    if issubclass(kind, Mapping):
        return lambda value: {str(key): to_json(item) for key, item in value.items()}
    if issubclass(kind, set | frozenset):
        return lambda value: [to_json(item) for item in sorted(value)]
    if issubclass(kind, list | tuple):
        return lambda value: [to_json(item) for item in value]
    return lambda value: value


@cache
def _readers(noun: type) -> tuple[tuple[str, str, type | None, Callable[[Any], Any]], ...]:
    """Of each field its name, the key it travels under, the type of values that are what they say (most are), and how
    others are read."""
    return tuple((each.name, each.key, _plain(each.hint), _reader(each.hint)) for each in keys(noun))


def _plain(hint: Any) -> type | None:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        hint = _the_one(typing.get_args(hint))
    return hint if hint in PLAIN else None


@cache
def _reader(hint: Any) -> Callable[[Any], Any]:
    """What `from_json` does with values of that type."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        read = _reader(_the_one(inside))
        return lambda value: None if value is None else read(value)
    if origin is tuple:
        read = _reader(inside[0])
        return lambda value: tuple(read(item) for item in value)
    if origin is not None and issubclass(origin, Mapping):
        read = _reader(inside[1])
        return lambda value: {key: read(item) for key, item in value.items()}
    if hint is Any or not isinstance(hint, type):  # Any is a class
        return to_json
    if dataclasses.is_dataclass(hint):
        return lambda value: value if type(value) is hint else from_json(hint, value)
    if issubclass(hint, datetime):
        return lambda value: value if type(value) is hint else instant(value)
    if issubclass(hint, Enum | int | float | str):
        return lambda value: value if type(value) is hint else hint(value)
    return lambda value: value


def _the_one(members: tuple[Any, ...]) -> Any:
    """The member of an `X | None`; a wider union is a value JSON already knows."""
    others = [member for member in members if member is not types.NoneType]
    return others[0] if len(others) == 1 else Any
