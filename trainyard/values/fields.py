"""The keys of a file, each in one place: what it may hold, its default and a sentence. The reader, the JSON Schema for
editors and the table of the documentation come from that.

A section of a file is a frozen dataclass whose fields are made with `key` (or, where there is no default, with
`field(metadata=required(...))`); a field made otherwise is no key. `Record` reads it.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Generic, TypeVar

from trainyard.values.lazy import dataclass
from trainyard.values.validation import BareWord, Section, any_of, bare_word, did_you_mean, shown

Value = TypeVar("Value")
Default = TypeVar("Default")
Word = TypeVar("Word", bound=StrEnum)


class Kind(Generic[Value]):
    """What a key may hold."""

    @property
    def words(self) -> str:
        """The same for people."""
        raise NotImplementedError

    @property
    def missing(self) -> str:
        """The fault of a required key that is not there."""
        return f"is missing; {self.words} is required"

    def schema(self) -> dict[str, Any]:
        """The same as a JSON Schema."""
        raise NotImplementedError

    def problem(self, value: object) -> str | None:
        """Why it may not be this; None where it may."""
        raise NotImplementedError

    def taken(self, value: Any) -> Any:
        """What such a value, without a problem, means."""
        return value

    def read(self, section: Section, key: str, default: Any) -> Any:
        """The value of this key; the default where it is omitted, and after a fault."""
        return self.found(section, key, default) if section.given(key) else default

    def found(self, section: Section, key: str, default: Any) -> Any:
        """The same of a key that is there."""
        value = section.values.get(key)
        problem = self.problem(value)
        if problem is None:
            return self.taken(value)
        section.fault(key, problem)
        return default


@dataclass(frozen=True)
class Key:
    """One key of a section: its kind, a sentence, and what counts where it is omitted (`usual`: in words)."""

    kind: Kind[Any]
    meaning: str
    default: Any = ""
    usual: str = ""
    required: bool = False


def key(default: Default, kind: Kind[Value], meaning: str, *, usual: str = "") -> Default | Value:
    """A field that is a key of the file."""
    metadata = {"key": Key(kind, meaning, default, usual)}
    if isinstance(default, Mapping):
        return dataclasses.field(default_factory=dict, metadata=metadata)  # type: ignore[return-value]
    return dataclasses.field(default=default, metadata=metadata)


def required(kind: Kind[Any], meaning: str) -> dict[str, Key]:
    """The metadata of a field that every file must say."""
    return {"key": Key(kind, meaning, required=True)}


def keys(section: type) -> Mapping[str, Key]:
    """The keys of a section, in the order of its fields."""
    fields = dataclasses.fields(section)
    return {field.name: field.metadata["key"] for field in fields if "key" in field.metadata}


@dataclass(frozen=True, kw_only=True)
class Number(Kind[float]):
    """From `least`, or above 0, up to `most`. Booleans are not numbers, and neither are nan and infinity."""

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
        return f"found {shown(value)}; {self.words} is allowed"

    def taken(self, value: Any) -> float:
        return float(value)


@dataclass(frozen=True, kw_only=True)
class Count(Kind[int]):
    """A whole number. 2.0 is not one, and neither is true. `because` says why it has these limits."""

    least: int
    most: int
    because: str = ""

    @property
    def words(self) -> str:
        return f"a whole number from {self.least} to {self.most}"

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}

    def problem(self, value: object) -> str | None:
        if isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most:
            return None
        why = f": {self.because}" if self.because else ""
        return f"found {shown(value)}; {self.words} is allowed{why}"


@dataclass(frozen=True)
class Flag(Kind[bool]):
    words = "true or false"

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}

    def problem(self, value: object) -> str | None:
        if isinstance(value, BareWord):
            return bare_word(value)
        return None if isinstance(value, bool) else f"found {shown(value)}; {self.words} is allowed"


@dataclass(frozen=True)
class Text(Kind[str]):
    """A text that matches the whole pattern, which `allowed` says in words."""

    pattern: str
    allowed: str

    @property
    def words(self) -> str:
        return self.allowed

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": whole(self.pattern)}

    def problem(self, value: object) -> str | None:
        if isinstance(value, BareWord):
            return bare_word(value)
        if not isinstance(value, str):
            return f"found {shown(value)}; {self.words} is allowed"
        return None if re.fullmatch(self.pattern, value, re.ASCII) else f"{shown(value)} is not {self.words}"


@dataclass(frozen=True)
class Choice(Kind[Word]):
    """One of these words."""

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
        return f"found {shown(value)}; allowed are {self.words}{did_you_mean(value, known)}"

    def taken(self, value: Any) -> Any:
        return next(word for word in self.among if word == value)


@dataclass(frozen=True, kw_only=True)
class Several(Kind[tuple[Value, ...]]):
    """A list of values of one kind; `named` says in words how many of what."""

    each: Kind[Value]
    named: str
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
        """Of the list alone: those of its items have a path of their own."""
        if not isinstance(value, list | tuple):
            return f"found {shown(value)}; {self.words} is allowed"
        if self.least <= len(value) <= (self.most or len(value)):
            return None
        return f"found a list of {len(value)}; {self.words} is allowed"

    def found(self, section: Section, key: str, default: Any) -> Any:
        items = super().found(section, key, default)
        sound: list[Any] = []
        for index, item in enumerate(items):
            problem = self.each.problem(item)
            if problem is None and self.distinct and item in items[:index]:
                problem = f"{shown(item)} stands in the list twice"
            if problem is None:
                sound.append(self.each.taken(item))
            else:
                section.fault(f"{key}[{index}]", problem)
        return tuple(sound)


def choices(among: Iterable[Word]) -> Several[Word]:
    """A list, maybe an empty one, of different words of these."""
    return Several(each=Choice(among), named=any_of(tuple(among)))


def texts(pattern: str, allowed: str, *, most: int, distinct: bool = False) -> Several[str]:
    """A list of texts, each of which matches the whole pattern; `allowed` says in words what one is."""
    return Several(each=Text(pattern, allowed), named=f"up to {most} texts", most=most, distinct=distinct)


def whole(pattern: str) -> str:
    """The pattern for JSON Schema, which is content with a part."""
    return f"^(?:{pattern})$"


def plain(value: Any) -> Any:
    """A default as a file would say it."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    return [str(item) for item in value] if isinstance(value, tuple) else value
