"""Reading one mapping of a job file: every wrong value becomes a fault, and reading goes on.

A `Section` hands out values that have the type asked for. After a fault it hands out the default (or None),
which nobody sees: a document with faults never becomes a job.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

MOST_SHOWN = 80


class BareWord(str):
    """An unquoted yes, no, on or off."""

    __slots__ = ()


class Faults:
    """The faults so far, in the order of reading."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []

    def add(self, path: str, problem: str) -> None:
        self.found.append((path, problem))


class Section:
    """One mapping of the document. `known` are the keys it may have; every other key is a fault at once. `bucket` is
    the yard's, the only one that its URIs may name."""

    def __init__(
        self, value: object, path: str, known: Sequence[str], faults: Faults, bucket: str = ""
    ) -> None:
        self.path, self.faults, self.bucket = path, faults, bucket
        self.values: Mapping[str, Any] = {}
        if value is None:
            return
        if not isinstance(value, Mapping):
            faults.add(path, f"found {shown(value)}; a mapping with the keys {any_of(known)} is allowed")
            return
        self.values = {key: item for key, item in value.items() if key in known}
        for key in value:
            if key not in known:
                faults.add(
                    self.at(key), f"unknown key; allowed are {any_of(known)}{did_you_mean(key, known)}"
                )

    def at(self, key: object) -> str:
        name = key if isinstance(key, str) else json.dumps(key, default=str)
        name = name if len(name) <= MOST_SHOWN else f"{name[:MOST_SHOWN]}..."
        return f"{self.path}.{name}" if self.path else name

    def fault(self, key: object, problem: str) -> None:
        self.faults.add(self.at(key), problem)

    def given(self, key: str) -> bool:
        return self.values.get(key) is not None

    def section(self, key: str, known: Sequence[str]) -> "Section":
        """The mapping under this key; an empty one when it is omitted."""
        return Section(self.values.get(key), self.at(key), known, self.faults, self.bucket)

    def text(self, key: str, *, pattern: str, allowed: str) -> str | None:
        """A text that matches the whole pattern; `allowed` says the pattern in words."""
        value = self.values.get(key)
        return None if value is None else self._text(key, value, pattern, allowed)

    def _text(self, key: str, value: object, pattern: str, allowed: str) -> str | None:
        if isinstance(value, BareWord):
            self.fault(key, bare_word(value))
        elif not isinstance(value, str):
            self.fault(key, f"found {shown(value)}; {allowed} is allowed")
        elif not re.fullmatch(pattern, value, re.ASCII):
            self.fault(key, f"{shown(value)} is not {allowed}")
        else:
            return value
        return None

    def texts(
        self, key: str, default: Sequence[str], *, pattern: str, allowed: str, most: int, distinct: bool
    ) -> tuple[str, ...]:
        """A list, maybe an empty one, of such texts."""
        value = self.values.get(key)
        if value is None:
            return tuple(default)
        if not isinstance(value, list | tuple) or len(value) > most:
            found = f"a list of {len(value)}" if isinstance(value, list | tuple) else shown(value)
            self.fault(key, f"found {found}; a list of up to {most} texts is allowed")
            return tuple(default)
        found_texts = []
        for index, item in enumerate(value):
            text = self._text(f"{key}[{index}]", item, pattern, allowed)
            if text is not None and distinct and text in found_texts:
                self.fault(f"{key}[{index}]", f"{shown(text)} stands in the list twice")
            elif text is not None:
                found_texts.append(text)
        return tuple(found_texts)

    def number(self, key: str, default: float, *, most: float, unit: str, least: float = 0) -> float:
        """A number above zero and not below `least`. Booleans are not numbers, and neither are nan and infinity."""
        value = self.values.get(key)
        if value is None:
            return default
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not (0 < value <= most and value >= least)
        ):
            self.fault(key, f"found {shown(value)}; {number_of(unit, least, most)} is allowed")
            return default
        return float(value)

    def count(self, key: str, default: int, *, least: int, most: int, because: str = "") -> int:
        """A whole number. 2.0 is not one, and neither is true. `because` says why it has these limits."""
        value = self.values.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            why = f": {because}" if because else ""
            self.fault(key, f"found {shown(value)}; a whole number from {least} to {most} is allowed{why}")
            return default
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.values.get(key)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        if isinstance(value, BareWord):
            self.fault(key, bare_word(value))
        else:
            self.fault(key, f"found {shown(value)}; true or false is allowed")
        return default

    def choice(self, key: str, default: str, choices: Iterable[str]) -> str:
        value = self.values.get(key)
        names = [str(choice) for choice in choices]
        if value is None or (isinstance(value, str) and value in names):
            return default if value is None else str(value)
        if isinstance(value, BareWord):
            self.fault(key, bare_word(value))
        else:
            self.fault(key, f"found {shown(value)}; allowed are {any_of(names)}{did_you_mean(value, names)}")
        return default

    def choices(self, key: str, default: Sequence[str], choices: Iterable[str]) -> tuple[str, ...]:
        """A list, maybe an empty one, of different words of these."""
        value = self.values.get(key)
        names = [str(choice) for choice in choices]
        if value is None:
            return tuple(default)
        if not isinstance(value, list | tuple):
            self.fault(key, f"found {shown(value)}; a list of {any_of(names)} is allowed")
            return tuple(default)
        for index, item in enumerate(value):
            at = f"{key}[{index}]"
            if not isinstance(item, str) or item not in names:
                hint = did_you_mean(item, names)
                self.fault(at, f"found {shown(item)}; allowed are {any_of(names)}{hint}")
            elif item in value[:index]:
                self.fault(at, f"{shown(item)} stands in the list twice")
        return tuple(item for item in value if isinstance(item, str) and item in names)

    def entries(self, key: str, *, name: str, named: str, most: int) -> "Section":
        """The mapping under this key, whose keys the user chooses; wrong names are faults and left out."""
        value = self.values.get(key)
        inside = Section({}, self.at(key), (), self.faults, self.bucket)
        if value is None:
            return inside
        if not isinstance(value, Mapping):
            self.fault(key, f"found {shown(value)}; a mapping of names to values is allowed")
            return inside
        if len(value) > most:
            self.fault(key, f"has {len(value)} entries; up to {most} are allowed")
        wrong = [
            item for item in value if not isinstance(item, str) or not re.fullmatch(name, item, re.ASCII)
        ]
        for item in wrong:
            inside.fault(item, f"the name {shown(item)} is not {named}")
        inside.values = {item: value[item] for item in value if item not in wrong}
        return inside


def number_of(unit: str, least: float, most: float) -> str:
    limits = f"from {least:g} to {most:g}" if least else f"above 0 and up to {most:g}"
    return f"a number of {unit} {limits}"


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


def did_you_mean(found: object, names: Sequence[str]) -> str:
    """`; did you mean "x"?` where something is close, else nothing."""
    import difflib  # only a faulty file pays for it

    close = difflib.get_close_matches(found, names, n=1) if isinstance(found, str) else []
    return f"; did you mean {json.dumps(close[0])}?" if close else ""
