"""Reading one mapping of a file or an execution's input: every wrong value becomes a fault, and reading goes on.

A `Section` holds the values of the keys it may have; fields.py says what each may be. After a fault the default counts,
which nobody sees: a document with faults never becomes a job.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

from trainyard.values.lazy import dataclass
from trainyard.values.quantities import counted
from trainyard.values.text import printable

MOST_SHOWN = 80
MOST_FAULTS_SHOWN = 40
NO_PLACES: Mapping[str, str] = {}


class BareWord(str):
    """An unquoted yes, no, on or off."""

    __slots__ = ()


@dataclass(frozen=True)
class Fault:
    """One fault: where it is, what was found, what is allowed."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}" if self.path else self.problem


@dataclass(frozen=True)
class InputFaults:
    """Every fault of a job file, a recipe or an execution's input, in its order.

    `reason` is the text for people, `so` what did not happen because of the faults.
    """

    source: str
    faults: tuple[Fault, ...]
    so: str = " and was not run; nothing was launched"

    @property
    def reason(self) -> str:
        count = "a fault" if len(self.faults) == 1 else counted(len(self.faults), "fault")
        lines = [f"{self.source} has {count}{self.so}."]
        lines += [f"- {fault}" for fault in self.faults[:MOST_FAULTS_SHOWN]]
        if len(self.faults) > MOST_FAULTS_SHOWN:
            lines.append(f"- and {len(self.faults) - MOST_FAULTS_SHOWN} more")
        return printable("\n".join(lines))


class Section:
    """One mapping of the document. `known` are the keys it may have; every other key is a fault at once. `faults` are
    the whole document's, in the order of reading; `bucket` is the yard's, the only one that its URIs may name; `places`
    says where a key belongs that stands in the wrong section, or that is another tool's."""

    def __init__(
        self,
        value: object,
        path: str,
        known: Sequence[str],
        faults: list[Fault],
        bucket: str = "",
        places: Mapping[str, str] = NO_PLACES,
    ) -> None:
        self.path, self.faults, self.bucket, self.places = path, faults, bucket, places
        self.values: Mapping[str, Any] = {}
        if value is None:
            return
        if not isinstance(value, Mapping):
            problem = f"found {shown(value)}; a mapping with the keys {any_of(known)} is allowed"
            faults.append(Fault(path, problem))
            return
        self.values = {key: item for key, item in value.items() if key in known}
        for key in value:
            if key not in known:
                hint = did_you_mean(key, known) or self._elsewhere(key)
                self.fault(key, f"unknown key; allowed are {any_of(known)}{hint}")

    def _elsewhere(self, key: object) -> str:
        place = self.places.get(key.lower().replace("-", "_")) if isinstance(key, str) else None
        return f"; its place in a job file is {place}" if place else ""

    def at(self, key: object) -> str:
        name = key if isinstance(key, str) else json.dumps(key, default=str)
        name = name if len(name) <= MOST_SHOWN else f"{name[:MOST_SHOWN]}..."
        return f"{self.path}.{name}" if self.path else name

    def fault(self, key: object, problem: str) -> None:
        self.faults.append(Fault(self.at(key), problem))

    def given(self, key: str) -> bool:
        return self.values.get(key) is not None

    def section(self, key: str, known: Sequence[str]) -> "Section":
        """The mapping under this key; an empty one when it is omitted."""
        return Section(self.values.get(key), self.at(key), known, self.faults, self.bucket, self.places)

    def one_of(self, names: Sequence[str], how: str) -> str:
        """Which of these keys is there; none and several are a fault, and `how` says what to write."""
        given = [name for name in names if self.given(name)]
        if len(given) != 1:
            both = "both " if len(given) == 2 else ""
            found = f"{both}{' and '.join(given)}" if given else f"neither {' nor '.join(names)}"
            self.fault("", f"found {found}; give {how}")
        return given[0] if given else names[0]


def shown(value: object) -> str:
    """The value as a person wrote it, short, with the name of its type where that is the trouble."""
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
    import difflib  # only a faulty file pays for it

    return next(iter(difflib.get_close_matches(found, list(names), n=1)), "")


def did_you_mean(found: object, names: Sequence[str]) -> str:
    """`; did you mean "x"?` where something is close, else nothing."""
    close = nearest(found, names) if isinstance(found, str) else ""
    return f"; did you mean {json.dumps(close)}?" if close else ""
