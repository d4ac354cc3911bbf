"""The keys of a file, each in one place: what it may hold, its default and a sentence. The reader, the JSON Schema for
editors and the table of the documentation come from that.

A section of a file is a frozen dataclass whose fields are made with `key` (or, where there is no default, with
`field(metadata=required(...))`); a field made otherwise is no key. `Record` reads it.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Generic, TypeVar

from lambdas.core.model.lazy import dataclass
from lambdas.core.model.validation import Section, any_of, number_of

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

    def read(self, section: Section, key: str, default: Any) -> Any:
        """The value of this key; the default where it is omitted, and after a fault."""
        raise NotImplementedError


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
        return number_of(self.unit, self.least, self.most)

    def schema(self) -> dict[str, Any]:
        least = {"minimum": self.least} if self.least else {"exclusiveMinimum": 0}
        return {"type": "number", **least, "maximum": plain(self.most)}

    def read(self, section: Section, key: str, default: Any) -> Any:
        return section.number(key, default, least=self.least, most=self.most, unit=self.unit)


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

    def read(self, section: Section, key: str, default: Any) -> Any:
        return section.count(key, default, least=self.least, most=self.most, because=self.because)


@dataclass(frozen=True)
class Flag(Kind[bool]):
    @property
    def words(self) -> str:
        return "true or false"

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}

    def read(self, section: Section, key: str, default: Any) -> Any:
        return section.flag(key, default)


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

    def read(self, section: Section, key: str, default: Any) -> Any:
        value = section.text(key, pattern=self.pattern, allowed=self.allowed)
        return default if value is None else value


@dataclass(frozen=True)
class Choice(Kind[Word]):
    """One of these words."""

    among: Iterable[Word]

    @property
    def words(self) -> str:
        return any_of(tuple(self.among))

    def schema(self) -> dict[str, Any]:
        return {"enum": [str(word) for word in self.among]}

    def read(self, section: Section, key: str, default: Any) -> Any:
        known = {str(word): word for word in self.among}
        return known[section.choice(key, str(default), known)]


@dataclass(frozen=True)
class Choices(Kind[tuple[Word, ...]]):
    """A list, maybe an empty one, of different words of these."""

    among: Iterable[Word]

    @property
    def words(self) -> str:
        return f"a list of {any_of(tuple(self.among))}"

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {"enum": [str(word) for word in self.among]}, "uniqueItems": True}

    def read(self, section: Section, key: str, default: Any) -> Any:
        known = {str(word): word for word in self.among}
        return tuple(known[word] for word in section.choices(key, default, known))


@dataclass(frozen=True, kw_only=True)
class Texts(Kind[tuple[str, ...]]):
    """A list of texts, each of which matches the whole pattern; `allowed` says in words what one is."""

    pattern: str
    allowed: str
    most: int
    distinct: bool = False

    @property
    def words(self) -> str:
        return f"a list of up to {self.most} texts, each {self.allowed}"

    def schema(self) -> dict[str, Any]:
        items = {"type": "string", "pattern": whole(self.pattern)}
        return {"type": "array", "items": items, "maxItems": self.most, "uniqueItems": self.distinct}

    def read(self, section: Section, key: str, default: Any) -> Any:
        return section.texts(
            key, default, pattern=self.pattern, allowed=self.allowed, most=self.most, distinct=self.distinct
        )


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
        return self.take(section.section(key, tuple(keys(self.of))))

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

    def read(self, section: Section, key: str, default: Any) -> Any:
        return self.given(section.section(key, tuple(keys(self.of))))

    def given(self, section: Section) -> dict[str, Any]:
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

    def read(self, section: Section, key: str, default: Any) -> Any:
        if isinstance(section.values.get(key), Mapping):
            return super().read(section, key, default)
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

    def read(self, section: Section, key: str, default: Any) -> Any:
        inside = section.entries(key, name=self.name, named=self.named, most=self.most)
        found = {name: self.each.read(inside, name, None) for name in inside.values}
        return {name: value for name, value in found.items() if value is not None}


def whole(pattern: str) -> str:
    """The pattern for JSON Schema, which is content with a part."""
    return f"^(?:{pattern})$"


def _described(each: Key) -> dict[str, Any]:
    """A key that may be omitted may also be there without content."""
    schema = each.kind.schema()
    if each.required:
        return {"description": each.meaning, **schema}
    nothing = {"enum": [*schema["enum"], None]} if "enum" in schema else {"type": [schema["type"], "null"]}
    default = {} if each.usual or isinstance(each.kind, Record) else {"default": plain(each.default)}
    return {"description": each.meaning, **schema, **nothing, **default}


def plain(value: Any) -> Any:
    """A default as a file would say it."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    return [str(item) for item in value] if isinstance(value, tuple) else value
