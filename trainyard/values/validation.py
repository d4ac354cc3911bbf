"""Read one mapping of a file or of an execution's input, and collect a fault for every wrong value.

A `Section` holds the values of the keys that it may have; fields.py declares the allowed values. A value with a fault
is replaced by its default. The default has no effect, because a document with faults never becomes a job.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

from trainyard.values.lazy import dataclass
from trainyard.values.quantities import format_count
from trainyard.values.text import printable

MOST_SHOWN = 80
MOST_FAULTS_SHOWN = 40
NO_LOCATIONS: Mapping[str, str] = {}


class BareWord(str):
    """An unquoted yes, no, on or off."""

    __slots__ = ()


@dataclass(frozen=True)
class Fault:
    """One fault: its path, the value found and the allowed values."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}" if self.path else self.problem


@dataclass(frozen=True)
class InputFaults:
    """All faults of a job file, a recipe or an execution's input, in the order of the file."""

    source: str
    faults: tuple[Fault, ...]
    so: str = " and was not run; nothing was launched"
    """The consequence of the faults."""

    @property
    def reason(self) -> str:
        """Return the text for users."""
        count = "a fault" if len(self.faults) == 1 else format_count(len(self.faults), "fault")
        lines = [f"{self.source} has {count}{self.so}."]
        lines += [f"- {fault}" for fault in self.faults[:MOST_FAULTS_SHOWN]]
        if len(self.faults) > MOST_FAULTS_SHOWN:
            lines.append(f"- and {len(self.faults) - MOST_FAULTS_SHOWN} more")
        return printable("\n".join(lines))


class Section:
    """One mapping of a document. Each key that is not in `known` becomes a fault."""

    def __init__(
        self,
        value: object,
        path: str,
        known: Sequence[str],
        faults: list[Fault],
        bucket: str = "",
        locations: Mapping[str, str] = NO_LOCATIONS,
    ) -> None:
        self.path, self.faults, self.bucket, self.locations = path, faults, bucket, locations
        self.values: Mapping[str, Any] = {}
        if value is None:
            return
        if not isinstance(value, Mapping):
            problem = f"found {show_value(value)}; a mapping with the keys {any_of(known)} is allowed"
            faults.append(Fault(path, problem))
            return
        self.values = {key: item for key, item in value.items() if key in known}
        for key in value:
            if key not in known:
                hint = did_you_mean(key, known) or self._elsewhere(key)
                self.fault(key, f"unknown key; allowed are {any_of(known)}{hint}")

    def _elsewhere(self, key: object) -> str:
        location = self.locations.get(key.lower().replace("-", "_")) if isinstance(key, str) else None
        return f"; its place in a job file is {location}" if location else ""

    def path_of(self, key: object) -> str:
        name = key if isinstance(key, str) else json.dumps(key, default=str)
        name = name if len(name) <= MOST_SHOWN else f"{name[:MOST_SHOWN]}..."
        return f"{self.path}.{name}" if self.path else name

    def fault(self, key: object, problem: str) -> None:
        self.faults.append(Fault(self.path_of(key), problem))

    def has(self, key: str) -> bool:
        return self.values.get(key) is not None

    def section(self, key: str, known: Sequence[str]) -> "Section":
        """Return the mapping under a key. It is empty if the key is missing."""
        return Section(
            self.values.get(key), self.path_of(key), known, self.faults, self.bucket, self.locations
        )

    def require_one(self, names: Sequence[str], how: str) -> str:
        """Return the one name that is present. No name or several names are a fault, whose text ends with `how`."""
        given = [name for name in names if self.has(name)]
        if len(given) != 1:
            both = "both " if len(given) == 2 else ""
            found = f"{both}{' and '.join(given)}" if given else f"neither {' nor '.join(names)}"
            self.fault("", f"found {found}; give {how}")
        return given[0] if given else names[0]


def show_value(value: object) -> str:
    """Format a value briefly as the user wrote it, with its type if the type is the fault."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, float) and not math.isfinite(value):
        return f"the number {value}"
    if isinstance(value, date | bytes):
        return f"a {type(value).__name__}"
    text = json.dumps(value, ensure_ascii=False, default=str)
    text = text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
    return text if isinstance(value, str) else f"the number {text}"


def bare_word(word: str) -> str:
    return f'found the bare word {word}, text or boolean; write "{word}" in quotes, or true or false'


def any_of(names: Sequence[str]) -> str:
    return ", ".join(names)


def nearest(found: str, names: Iterable[str]) -> str:
    """Return the name that was probably meant, or nothing."""
    import difflib  # Imported here, because only a faulty file needs it.

    return next(iter(difflib.get_close_matches(found, list(names), n=1)), "")


def did_you_mean(found: object, names: Sequence[str]) -> str:
    """Return `; did you mean "x"?` if a name is similar to the key, otherwise an empty text."""
    close = nearest(found, names) if isinstance(found, str) else ""
    return f"; did you mean {json.dumps(close)}?" if close else ""
