"""Kinds of values that are mappings: a section with known keys, and a mapping whose names the user chooses."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from trainyard.values.fields import Key, Kind, Value, keys, plain, whole
from trainyard.values.lazy import dataclass
from trainyard.values.validation import NO_LOCATIONS, Section, any_of, show_value


@dataclass(repr=False, eq=False)
class Record(Kind[Value]):
    """A mapping with the keys of a section."""

    of: type[Value]

    @property
    def words(self) -> str:
        return f"a mapping with the keys {any_of(tuple(keys(self.of)))}"

    def schema(self) -> dict[str, Any]:
        known = keys(self.of)
        properties = {name: _schema_of(each) for name, each in known.items()}
        must = [name for name, each in known.items() if each.required]
        return {"type": "object", "properties": properties, "additionalProperties": False, "required": must}

    def read(self, section: Section, key: str, default: Any) -> Any:
        """Read the section even if it is missing, because it may have required keys."""
        return self.read_present(section, key, default)

    def read_present(self, section: Section, key: str, default: Any) -> Any:
        return self.build(section.section(key, tuple(keys(self.of))))

    def read_document(
        self, document: object, path: str = "", bucket: str = "", locations: Mapping[str, str] = NO_LOCATIONS
    ) -> tuple[Value, Section]:
        """Return the value of a whole document, and its section, which contains the faults."""
        section = Section(document, path, tuple(keys(self.of)), [], bucket, locations)
        return self.build(section), section

    def build(self, section: Section) -> Value:
        """Return the value of a section, with every default."""
        return self.of(**self.values(section))

    def values(self, section: Section) -> dict[str, Any]:
        """Return the values by key. The faults of a missing section are reported by the section itself."""
        for name, each in keys(self.of).items():
            if each.required and not section.has(name) and not isinstance(each.kind, Record):
                section.fault(name, each.kind.missing)
        return {name: each.kind.read(section, name, each.default) for name, each in keys(self.of).items()}


def section_key(of: type[Value], meaning: str) -> Value:
    """Declare a field that is a section of its own, with every default if the file does not have it."""
    return dataclasses.field(default_factory=of, metadata={"key": Key(Record(of), meaning)})


@dataclass(repr=False, eq=False)
class Optional(Record[Value]):
    """A mapping with the keys of a section, which may be missing as a whole."""

    def read(self, section: Section, key: str, default: Any) -> Any:
        return Kind.read(self, section, key, default)


@dataclass(repr=False, eq=False)
class Part(Record[Any]):
    """A mapping with some keys of a section. Another file or the yard has the other keys."""

    def schema(self) -> dict[str, Any]:
        schema = super().schema()
        for each in schema["properties"].values():
            each.pop("default", None)
        return schema

    def build(self, section: Section) -> dict[str, Any]:
        """Return the values that the section contains, without defaults."""
        return {name: value for name, value in self.values(section).items() if section.has(name)}


@dataclass(repr=False, eq=False)
class Short(Record[Value]):
    """A mapping with the keys of a section, or only the value of its key `by`."""

    by: str

    @property
    def words(self) -> str:
        return f"{keys(self.of)[self.by].kind.words}, or {super().words}"

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [keys(self.of)[self.by].kind.schema(), super().schema()]}

    def read(self, section: Section, key: str, default: Any) -> Any:
        return Kind.read(self, section, key, default)

    def read_present(self, section: Section, key: str, default: Any) -> Any:
        if isinstance(section.values.get(key), Mapping):
            return super().read_present(section, key, default)
        kind = keys(self.of)[self.by].kind
        if not section.has(key):
            section.fault(key, kind.missing)
        return self.of(**{self.by: kind.read(section, key, "")})


@dataclass(kw_only=True, repr=False, eq=False)
class Entries(Kind[Mapping[str, Value]]):
    """A mapping of names that the user chooses to values of one kind."""

    name: str
    """The pattern of a name."""
    named: str
    """The pattern in words."""
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
        return f"found {show_value(value)}; a mapping of names to values is allowed"

    def name_problem(self, name: object) -> str | None:
        if isinstance(name, str) and re.fullmatch(self.name, name, re.ASCII):
            return None
        return f"the name {show_value(name)} is not {self.named}"

    def read_present(self, section: Section, key: str, default: Any) -> Any:
        values = super().read_present(section, key, {})
        if len(values) > self.most:
            section.fault(key, f"has {len(values)} entries; up to {self.most} are allowed")
        problems = {name: self.name_problem(name) for name in values}
        sound = {name: values[name] for name in values if problems[name] is None}
        inside = Section(sound, section.path_of(key), tuple(sound), section.faults, section.bucket)
        for name, problem in problems.items():
            if problem:
                inside.fault(name, problem)
        found = {name: self.each.read_present(inside, name, None) for name in sound}
        return {name: value for name, value in found.items() if value is not None}


class Anything(Kind[Mapping[str, Any]]):
    """A mapping whose keys another reader checks."""

    words = "a mapping"

    def schema(self) -> dict[str, Any]:
        return {"type": "object"}

    def problem(self, value: object) -> str | None:
        return None if isinstance(value, Mapping) else f"found {show_value(value)}; {self.words} is allowed"


def _schema_of(each: Key) -> dict[str, Any]:
    """Return the schema of a key. A key that is not required may also be present without a value."""
    schema = each.kind.schema()
    if each.required:
        return {"description": each.meaning, **schema}
    types = schema.get("type", ())
    types = [types] if isinstance(types, str) else types
    nothing: dict[str, Any] = {"type": [*types, "null"]}
    if "enum" in schema:
        nothing = {"enum": [*schema["enum"], None]}
    elif "anyOf" in schema:
        nothing = {"anyOf": [*schema["anyOf"], {"type": "null"}]}
    default = {} if each.usual or isinstance(each.kind, Record) else {"default": plain(each.default)}
    return {"description": each.meaning, **schema, **nothing, **default}
