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
from trainyard.values.validation import (
    NO_PLACES,
    BareWord,
    Section,
    any_of,
    bare_word,
    did_you_mean,
    shown,
)

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


@dataclass(frozen=True)
class Record(Kind[Value]):
    """A mapping with the keys of a section."""

    of: type[Value]

    @property
    def words(self) -> str:
        return f"a mapping with the keys {any_of(tuple(keys(self.of)))}"

    def schema(self) -> dict[str, Any]:
        known = keys(self.of)
        properties = {name: _described(each) for name, each in known.items()}
        must = [name for name, each in known.items() if each.required]
        return {"type": "object", "properties": properties, "additionalProperties": False, "required": must}

    def read(self, section: Section, key: str, default: Any) -> Any:
        """One that is omitted may lack what it must say."""
        return self.found(section, key, default)

    def found(self, section: Section, key: str, default: Any) -> Any:
        return self.take(section.section(key, tuple(keys(self.of))))

    def whole(
        self, document: object, path: str = "", bucket: str = "", places: Mapping[str, str] = NO_PLACES
    ) -> tuple[Value, Section]:
        """What a whole document says, and the section that it is, which has its faults."""
        section = Section(document, path, tuple(keys(self.of)), [], bucket, places)
        return self.take(section), section

    def take(self, section: Section) -> Value:
        """What the section says, with every default."""
        return self.of(**self.values(section))

    def values(self, section: Section) -> dict[str, Any]:
        """By key. A section that is not there says itself what it lacks."""
        for name, each in keys(self.of).items():
            if each.required and not section.given(name) and not isinstance(each.kind, Record):
                section.fault(name, each.kind.missing)
        return {name: each.kind.read(section, name, each.default) for name, each in keys(self.of).items()}


@dataclass(frozen=True)
class Part(Record[Any]):
    """A mapping with some keys of a section; those that it leaves out are somebody else's to say."""

    def schema(self) -> dict[str, Any]:
        schema = super().schema()
        for each in schema["properties"].values():
            each.pop("default", None)
        return schema

    def take(self, section: Section) -> dict[str, Any]:
        """What the section says, and no default."""
        return {name: value for name, value in self.values(section).items() if section.given(name)}


@dataclass(frozen=True)
class Short(Record[Value]):
    """A mapping with the keys of a section, or the value of its key `by` alone."""

    by: str

    @property
    def words(self) -> str:
        return f"{keys(self.of)[self.by].kind.words}, or {super().words}"

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [keys(self.of)[self.by].kind.schema(), super().schema()]}

    def found(self, section: Section, key: str, default: Any) -> Any:
        if isinstance(section.values.get(key), Mapping):
            return super().found(section, key, default)
        kind = keys(self.of)[self.by].kind
        if not section.given(key):
            section.fault(key, kind.missing)
        return self.of(**{self.by: kind.read(section, key, "")})


@dataclass(frozen=True, kw_only=True)
class Entries(Kind[Mapping[str, Value]]):
    """A mapping of names, which the user chooses and `named` describes, to values of one kind."""

    name: str
    named: str
    most: int
    each: Kind[Value]

    @property
    def words(self) -> str:
        return f"a mapping of up to {self.most} names ({self.named}) to values: {self.each.words}"

    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "propertyNames": {"pattern": whole(self.name)},
            "additionalProperties": self.each.schema(),
            "maxProperties": self.most,
        }

    def problem(self, value: object) -> str | None:
        if isinstance(value, Mapping):
            return None
        return f"found {shown(value)}; a mapping of names to values is allowed"

    def name_problem(self, name: object) -> str | None:
        if isinstance(name, str) and re.fullmatch(self.name, name, re.ASCII):
            return None
        return f"the name {shown(name)} is not {self.named}"

    def found(self, section: Section, key: str, default: Any) -> Any:
        values = super().found(section, key, {})
        if len(values) > self.most:
            section.fault(key, f"has {len(values)} entries; up to {self.most} are allowed")
        problems = {name: self.name_problem(name) for name in values}
        sound = {name: values[name] for name in values if problems[name] is None}
        inside = Section(sound, section.at(key), tuple(sound), section.faults, section.bucket)
        for name, problem in problems.items():
            if problem:
                inside.fault(name, problem)
        found = {name: self.each.found(inside, name, None) for name in sound}
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True)
class Anything(Kind[Mapping[str, Any]]):
    """A mapping whose keys somebody else knows."""

    words = "a mapping"

    def schema(self) -> dict[str, Any]:
        return {"type": "object"}

    def problem(self, value: object) -> str | None:
        return None if isinstance(value, Mapping) else f"found {shown(value)}; {self.words} is allowed"


def whole(pattern: str) -> str:
    """The pattern for JSON Schema, which is content with a part."""
    return f"^(?:{pattern})$"


def _described(each: Key) -> dict[str, Any]:
    """A key that may be omitted may also be there without content."""
    schema = each.kind.schema()
    if each.required:
        return {"description": each.meaning, **schema}
    types = schema.get("type", ())
    types = [types] if isinstance(types, str) else types
    nothing = {"enum": [*schema["enum"], None]} if "enum" in schema else {"type": [*types, "null"]}
    default = {} if each.usual or isinstance(each.kind, Record) else {"default": plain(each.default)}
    return {"description": each.meaning, **schema, **nothing, **default}


def plain(value: Any) -> Any:
    """A default as a file would say it."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    return [str(item) for item in value] if isinstance(value, tuple) else value
