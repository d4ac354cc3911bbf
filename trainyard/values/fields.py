"""The keys of a file, each declared in one place with its allowed values, its default and a description.

The reader, the JSON Schema for editors and the tables in the docs are made from these declarations. A section of a file
is a frozen dataclass whose fields are made with `key` (or, for a field without a default, with
`field(metadata=required(...))`). Other fields are not keys. `Record` reads a section.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Generic, TypeVar

from trainyard.values.lazy import dataclass
from trainyard.values.validation import BareWord, Section, any_of, bare_word, did_you_mean, show_value

Value = TypeVar("Value")
Default = TypeVar("Default")
Word = TypeVar("Word", bound=StrEnum)


class Kind(Generic[Value]):
    """The kind of values that a key allows. Kinds are made at import and never compared, so they are dataclasses whose
    only compiled method is the initializer: this takes a quarter of the time at every cold start."""

    @property
    def words(self) -> str:
        """Return a description of the allowed values for users."""
        raise NotImplementedError

    @property
    def missing(self) -> str:
        """Return the fault of a required key that is missing."""
        return f"is missing; {self.words} is required"

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the allowed values."""
        raise NotImplementedError

    def problem(self, value: object) -> str | None:
        """Return the fault of a value, or None if the value is allowed."""
        raise NotImplementedError

    def convert(self, value: Any) -> Any:
        """Convert an allowed value to the value of the field."""
        return value

    def read(self, section: Section, key: str, default: Any) -> Any:
        """Return the value of a key. Return the default if the key is missing or its value has a fault."""
        return self.read_present(section, key, default) if section.has(key) else default

    def read_present(self, section: Section, key: str, default: Any) -> Any:
        """Return the value of a key that is present. Return the default if the value has a fault."""
        value = section.values.get(key)
        problem = self.problem(value)
        if problem is None:
            return self.convert(value)
        section.fault(key, problem)
        return default


@dataclass(repr=False, eq=False)
class Key:
    """One key of a section."""

    kind: Kind[Any]
    meaning: str
    """The description, in one or more sentences."""
    default: Any = ""
    usual: str = ""
    """The default in words."""
    required: bool = False


def key(default: Default, kind: Kind[Value], meaning: str, *, usual: str = "") -> Default | Value:
    """Declare a field that is a key of the file."""
    metadata = {"key": Key(kind, meaning, default, usual)}
    if isinstance(default, Mapping):
        return dataclasses.field(default_factory=dict, metadata=metadata)  # type: ignore[return-value]
    return dataclasses.field(default=default, metadata=metadata)


def required(kind: Kind[Any], meaning: str) -> dict[str, Key]:
    """Return the metadata of a required field."""
    return {"key": Key(kind, meaning, required=True)}


def keys(section: type) -> Mapping[str, Key]:
    """Return the keys of a section in the order of its fields."""
    fields = dataclasses.fields(section)
    return {field.name: field.metadata["key"] for field in fields if "key" in field.metadata}


@dataclass(kw_only=True, repr=False, eq=False)
class Number(Kind[float]):
    """A number from `least`, or above 0, up to `most`. Booleans, NaN and infinity are not numbers."""

    most: float
    unit: str
    least: float = 0

    @property
    def words(self) -> str:
        limits = f"from {self.least:g} to {self.most:g}" if self.least else f"above 0 and up to {self.most:g}"
        return f"a number of {self.unit} {limits}"

    def schema(self) -> dict[str, Any]:
        least = {"minimum": self.least} if self.least else {"exclusiveMinimum": 0}
        return {"type": "number", **least, "maximum": plain(self.most)}

    def problem(self, value: object) -> str | None:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and 0 < value <= self.most and value >= self.least:  # type: ignore[operator]
            return None
        return f"found {show_value(value)}; {self.words} is allowed"

    def convert(self, value: Any) -> float:
        return float(value)


@dataclass(kw_only=True, repr=False, eq=False)
class Count(Kind[int]):
    """A whole number. 2.0 and true are not whole numbers."""

    least: int
    most: int
    because: str = ""
    """The reason for the limits."""

    @property
    def words(self) -> str:
        return f"a whole number from {self.least} to {self.most}"

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}

    def problem(self, value: object) -> str | None:
        if isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most:
            return None
        why = f": {self.because}" if self.because else ""
        return f"found {show_value(value)}; {self.words} is allowed{why}"


class Flag(Kind[bool]):
    words = "true or false"

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}

    def problem(self, value: object) -> str | None:
        if isinstance(value, BareWord):
            return bare_word(value)
        return None if isinstance(value, bool) else f"found {show_value(value)}; {self.words} is allowed"


@dataclass(repr=False, eq=False)
class Text(Kind[str]):
    """A text that matches a pattern as a whole."""

    pattern: str
    allowed: str
    """The pattern in words."""

    @property
    def words(self) -> str:
        return self.allowed

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": whole(self.pattern)}

    def problem(self, value: object) -> str | None:
        if isinstance(value, BareWord):
            return bare_word(value)
        if not isinstance(value, str):
            return f"found {show_value(value)}; {self.words} is allowed"
        return (
            None
            if re.fullmatch(self.pattern, value, re.ASCII)
            else f"{show_value(value)} is not {self.words}"
        )


@dataclass(repr=False, eq=False)
class Choice(Kind[Word]):
    """One word of an enumeration."""

    among: Iterable[Word]

    @property
    def words(self) -> str:
        return any_of(tuple(self.among))

    def schema(self) -> dict[str, Any]:
        return {"enum": [str(word) for word in self.among]}

    def problem(self, value: object) -> str | None:
        if isinstance(value, BareWord):
            return bare_word(value)
        known = [str(word) for word in self.among]
        if isinstance(value, str) and value in known:
            return None
        return f"found {show_value(value)}; allowed are {self.words}{did_you_mean(value, known)}"

    def convert(self, value: Any) -> Any:
        return next(word for word in self.among if word == value)


@dataclass(kw_only=True, repr=False, eq=False)
class Several(Kind[tuple[Value, ...]]):
    """A list of values of one kind."""

    each: Kind[Value]
    named: str
    """The items in words."""
    least: int = 0
    most: int | None = None
    distinct: bool = True

    @property
    def words(self) -> str:
        return f"a list of {self.named}"

    def schema(self) -> dict[str, Any]:
        least = {"minItems": self.least} if self.least else {}
        most = {"maxItems": self.most} if self.most else {}
        return {"type": "array", "items": self.each.schema(), **least, **most, "uniqueItems": self.distinct}

    def problem(self, value: object) -> str | None:
        """Check the list itself. Faults of its items have paths of their own."""
        if not isinstance(value, list | tuple):
            return f"found {show_value(value)}; {self.words} is allowed"
        if self.least <= len(value) <= (self.most or len(value)):
            return None
        return f"found a list of {len(value)}; {self.words} is allowed"

    def read_present(self, section: Section, key: str, default: Any) -> Any:
        items = super().read_present(section, key, default)
        if items is default:
            return default
        sound: list[Any] = []
        for index, item in enumerate(items):
            problem = self.each.problem(item)
            if problem is None and self.distinct and item in items[:index]:
                problem = f"{show_value(item)} is in the list twice"
            if problem is None:
                sound.append(self.each.convert(item))
            else:
                section.fault(f"{key}[{index}]", problem)
        return tuple(sound)


@dataclass(kw_only=True, repr=False, eq=False)
class OneOrSeveral(Several[Value]):
    """A list of values of one kind, or one value."""

    @property
    def words(self) -> str:
        return f"{self.each.words}, or a list of them,"

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self.each.schema(), super().schema()]}

    def problem(self, value: object) -> str | None:
        return self.each.problem(value) if isinstance(value, str) else super().problem(value)

    def read_present(self, section: Section, key: str, default: Any) -> Any:
        value = section.values.get(key)
        if not isinstance(value, str):
            return super().read_present(section, key, default)
        return default if (found := Kind.read_present(self.each, section, key, None)) is None else (found,)


def choices(among: Iterable[Word]) -> Several[Word]:
    """Return the kind of a list of different words. The list may be empty."""
    return Several(each=Choice(among), named=any_of(tuple(among)))


def texts(pattern: str, allowed: str, *, most: int, distinct: bool = False) -> Several[str]:
    """Return the kind of a list of texts that each match a pattern as a whole."""
    return Several(each=Text(pattern, allowed), named=f"up to {most} texts", most=most, distinct=distinct)


def whole(pattern: str) -> str:
    """Return a pattern that matches only the whole text, for JSON Schema, which also accepts a matching part."""
    return f"^(?:{pattern})$"


def plain(value: Any) -> Any:
    """Return a default as a file contains it."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    return [str(item) for item in value] if isinstance(value, tuple) else value
