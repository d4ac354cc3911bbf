"""Models as JSON: between states of a workflow, in the ledger and in the bucket.

A frozen dataclass becomes a mapping and comes back equal. A field whose key is not a valid Python name has its key in
its metadata (`field(metadata={"json_key": "instance-id"})`). A field whose key changed is read under its former key,
too (`field(metadata={"formerly": "offer"})`). Times are ISO 8601 in UTC with milliseconds and Z.
(Written by hand because a library would cost a fifth of the import budget of every handler.)
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

Model = TypeVar("Model")
MOST_SHOWN = 80
PLAIN = frozenset({str, int, float, bool, types.NoneType})
"""Types that JSON has. Most values of a model have one of them."""


class Measure(float):
    """A number that a program measured. NaN and infinity are written as texts (floats.py)."""


class Key(NamedTuple):
    """One field of a model."""

    name: str
    key: str
    """The field's key in JSON."""
    hint: Any
    required: bool
    formerly: str | None
    """The field's key in JSON of the last version, if it was another."""


def timestamp(at: datetime) -> str:
    """Format a time as the ledger and the signals contain it: 2026-11-20T00:00:00.000Z."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_timestamp(text: str) -> datetime:
    """Parse an ISO 8601 text into an aware time. A text without a zone is UTC. Raise ValueError for any other text."""
    at = datetime.fromisoformat(text)
    try:
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text} lies beyond the years 1 to 9999") from error


def to_json(value: Any) -> Any:
    """Return the value in JSON's types. The mapping of a union's member contains its `kind`."""
    kind: type = type(value)
    return value if kind in PLAIN else _writer(kind)(value)


def from_json(model: type[Model], data: Mapping[str, Any]) -> Model:
    """Return the model that `to_json` wrote. Unknown keys are ignored, and missing keys get the field's default."""
    given = _empty(model) if typing.is_typeddict(model) else {}
    for name, key, plain, read in _readers(cast(type, model)):
        if key in data:
            value = data[key]
            given[name] = value if type(value) is plain else read(value)
    return model(**given)


def read(model: type[Model], data: object) -> Model:
    """Return the model that `to_json` wrote. Raise ValueError with every key that is missing or has a wrong type."""
    if wrong := faults(model, data):
        raise ValueError("; ".join(wrong))
    return from_json(model, cast(Mapping[str, Any], data))


def faults(model: type, data: object) -> list[str]:
    """Return each key whose value does not fit the model, with the value and the expected type."""
    return [f"{path or 'it'}: {problem}" for path, problem in _faults(model, data, "")]


@cache
def keys(model: type) -> tuple[Key, ...]:
    """Return the fields of a model as JSON contains them."""
    hints = typing.get_type_hints(model)
    if typing.is_typeddict(model):
        required = model.__required_keys__ - _empty(model).keys()  # type: ignore[attr-defined]
        return tuple(Key(name, name, hint, name in required, None) for name, hint in hints.items())
    return tuple(
        Key(
            field.name,
            field.metadata.get("json_key", field.name),
            hints[field.name],
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
            field.metadata.get("formerly"),
        )
        for field in dataclasses.fields(model)
        if field.init
    )


def _faults(hint: Any, value: object, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the fault of each value that does not have the type."""
    if type(value) is hint:
        return
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None and types.NoneType in inside:
            return
        yield from _faults(_without_none(inside), value, path)
    elif origin in (tuple, list) and isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _faults(inside[0], item, f"{path}[{index}]")
    elif inside and isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, Mapping):
        for key, item in value.items():
            yield from _faults(inside[1], item, f"{path}.{key}")
    elif _has_keys(hint) and isinstance(value, Mapping):
        for each in keys(cast(type, hint)):
            here = f"{path}.{each.key}" if path else each.key
            if each.key in value:
                yield from _faults(each.hint, value[each.key], here)
            elif each.formerly in value:
                yield from _faults(each.hint, value[each.formerly], here)
            elif each.required:
                yield here, f"is missing, expected {_describe_type(each.hint)}"
    elif _has_keys(hint) or not _fits(origin or hint, value):
        yield path, f"found {value!r:.{MOST_SHOWN}}, expected {_describe_type(hint)}"


def _empty(model: type) -> dict[str, Any]:
    """Return the required keys of a TypedDict that a document of another version may lack, with the value for it: empty
    for lists and mappings, None for keys that may be null."""
    empty: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(model).items():
        origin = typing.get_origin(hint)
        if types.NoneType in typing.get_args(hint):
            empty[name] = None
        elif origin in (list, dict):
            empty[name] = origin()
    return {name: value for name, value in empty.items() if name in model.__required_keys__}  # type: ignore[attr-defined]


def _has_keys(hint: Any) -> bool:
    return dataclasses.is_dataclass(hint) or typing.is_typeddict(hint)


def _fits(hint: Any, value: object) -> bool:
    """Return True if a value without members has the type."""
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
        return _is_timestamp(value)
    return isinstance(value, hint)


def _is_timestamp(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(parse_timestamp(value))
    except ValueError:
        return False


def _describe_type(hint: Any) -> str:
    if isinstance(hint, type) and issubclass(hint, Enum):
        return f"one of {', '.join(str(member.value) for member in hint)}"
    if _has_keys(hint):
        return "a mapping"
    return getattr(hint, "__name__", str(hint)) if typing.get_origin(hint) is None else str(hint)


@cache
def _writer(kind: type) -> Callable[[Any], Any]:
    """Return the function that converts values of the class for `to_json`."""
    if dataclasses.is_dataclass(kind):
        named = getattr(kind, "kind", None)
        head = {"kind": named} if isinstance(named, str) else {}
        fields = [
            (field.metadata.get("json_key", field.name), field.name) for field in dataclasses.fields(kind)
        ]
        return lambda value: head | {key: to_json(getattr(value, name)) for key, name in fields}
    if issubclass(kind, Enum):
        return lambda value: value.value
    if issubclass(kind, datetime):
        return timestamp
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
def _readers(model: type) -> tuple[tuple[str, str, type | None, Callable[[Any], Any]], ...]:
    """Return for each field its name, its key, the type of values that need no conversion, and the conversion."""
    return tuple(
        (each.name, key, _plain(each.hint), _reader(each.hint))
        for each in keys(model)
        for key in (each.formerly, each.key)
        if key is not None
    )


def _plain(hint: Any) -> type | None:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        hint = _without_none(typing.get_args(hint))
    return hint if hint in PLAIN else None


@cache
def _reader(hint: Any) -> Callable[[Any], Any]:
    """Return the function that converts values of the type for `from_json`."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        read = _reader(_without_none(inside))
        return lambda value: None if value is None else read(value)
    if origin is tuple:
        read = _reader(inside[0])
        return lambda value: tuple(read(item) for item in value)
    if origin is not None and issubclass(origin, Mapping):
        read = _reader(inside[1])
        return lambda value: {key: read(item) for key, item in value.items()}
    if hint is Any or not isinstance(hint, type):  # Any is a class
        return to_json
    if typing.is_typeddict(hint):
        return lambda value: from_json(hint, value)
    if dataclasses.is_dataclass(hint):
        return lambda value: value if type(value) is hint else from_json(hint, value)
    if issubclass(hint, datetime):
        return lambda value: value if type(value) is hint else parse_timestamp(value)
    if issubclass(hint, Enum | int | float | str):
        return lambda value: value if type(value) is hint else hint(value)
    return lambda value: value


def _without_none(members: tuple[Any, ...]) -> Any:
    """Return X of `X | None`. Values of a wider union are JSON's own and are not converted."""
    others = [member for member in members if member is not types.NoneType]
    return others[0] if len(others) == 1 else Any
