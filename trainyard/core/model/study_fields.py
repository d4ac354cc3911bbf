"""Kinds of values for the section `study` of a job file: intervals, choices, points and paths of parameters."""

import math
import re
from collections.abc import Mapping
from typing import Any

from trainyard.core.model.program import Scalar
from trainyard.core.model.program_fields import LARGEST_ARG, Argument
from trainyard.values.fields import Kind, Several
from trainyard.values.lazy import dataclass
from trainyard.values.mappings import Entries
from trainyard.values.validation import Section, nearest, show_value

MOST_PARAMETERS = 30
MOST_CHOICES = 30
MOST_POINTS = 100
PATH_HEADS = ("args.", "environment.")
PATH = r"args\.[A-Za-z][A-Za-z0-9_-]{0,63}|environment\.[A-Z_][A-Z0-9_]{0,63}"
PATH_IN_WORDS = "args.NAME or environment.NAME, as in args.lr"
Point = Mapping[str, Scalar]
"""The value of each parameter, by its path. A point of the job file may leave parameters out."""


@dataclass(kw_only=True, repr=False, eq=False)
class Interval(Kind[Any]):
    """A list of the lowest and the highest value: `[0.1, 0.9]`."""

    is_whole: bool = False
    is_positive: bool = False

    @property
    def words(self) -> str:
        numbers = "whole numbers" if self.is_whole else "numbers"
        positive = " above 0" if self.is_positive else ""
        return f"a list of two {numbers}{positive}, the lowest and the highest value"

    def schema(self) -> dict[str, Any]:
        kind = "integer" if self.is_whole else "number"
        least: dict[str, Any] = (
            {"exclusiveMinimum": 0} if self.is_positive else {"minimum": int(-LARGEST_ARG)}
        )
        number = {"type": kind, "maximum": int(LARGEST_ARG), **least}
        return {"type": "array", "items": number, "minItems": 2, "maxItems": 2, "uniqueItems": True}

    def problem(self, value: object) -> str | None:
        if not isinstance(value, list | tuple) or len(value) != 2:
            found = f"a list of {len(value)}" if isinstance(value, list | tuple) else show_value(value)
            return f"found {found}; {self.words} is allowed"
        for number in value:
            if not self._is_allowed(number):
                return f"found {show_value(number)}; {self.words} is allowed"
        low, high = value
        if low == high:
            return f"has one value, {low:g}; write it into the job, or give a highest value above it"
        if low > high:
            return f"begins with {low:g}, which is above {high:g}; write [{high:g}, {low:g}]"
        return None

    def _is_allowed(self, number: object) -> bool:
        kinds = int if self.is_whole else int | float
        if isinstance(number, bool) or not isinstance(number, kinds):
            return False
        return math.isfinite(number) and abs(number) <= LARGEST_ARG and (number > 0 or not self.is_positive)

    def convert(self, value: Any) -> tuple[float, float]:
        low, high = value
        return (low, high) if self.is_whole else (float(low), float(high))


def choices(least: int) -> Several[str | int | float | bool]:
    """Return the kind of a list of different values."""
    return Several(
        each=Argument(),
        named=f"{least} to {MOST_CHOICES} different values: {Argument.words}",
        least=least,
        most=MOST_CHOICES,
    )


@dataclass(kw_only=True, repr=False, eq=False)
class ByPath(Entries[Any]):
    """A mapping of parameter paths to values."""

    name: str = PATH
    named: str = PATH_IN_WORDS
    most: int = MOST_PARAMETERS

    def name_problem(self, name: object) -> str | None:
        problem = super().name_problem(name)
        if problem is None or not isinstance(name, str):
            return problem
        if re.match(r"args\[|args\.\d+$", name):
            return "points into a list; the program needs args by name, as in {lr: 0.1}, and the path args.lr"
        head, _, rest = name.removeprefix("program.").partition(".")
        close = "environment." if head.startswith("env") else nearest(f"{head}.", PATH_HEADS)
        if head == "secrets":
            return f"names a secret, whose value a study cannot draw; a path is {PATH_IN_WORDS}"
        meant = f"{close}{rest}" if rest and close else f"args.{name}"
        hint = f'; did you mean "{meant}"?' if re.fullmatch(PATH, meant, re.ASCII) else ""
        return f"{problem}{hint}"


class Points(Kind[tuple[Point, ...]]):
    """A list of points."""

    each = ByPath(each=Argument())

    words = f"a list of up to {MOST_POINTS} points, each a mapping of parameter paths to values"

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": self.each.schema() | {"minProperties": 1}, "maxItems": MOST_POINTS}

    def problem(self, value: object) -> str | None:
        if not isinstance(value, list | tuple):
            return f"found {show_value(value)}; {self.words} is allowed"
        if len(value) > MOST_POINTS:
            return f"found a list of {len(value)}; {self.words} is allowed"
        return None

    def read_present(self, section: Section, key: str, default: Any) -> Any:
        before = len(section.faults)
        items = super().read_present(section, key, ())
        points = []
        for index, item in enumerate(items):
            place = f"{key}[{index}]"
            if not isinstance(item, Mapping) or not item:
                section.fault(
                    place, f"found {show_value(item) if item else 'an empty mapping'}; {self.each.words}"
                )
                continue
            inside = Section({place: item}, section.path, (place,), section.faults, section.bucket)
            points.append(self.each.read_present(inside, place, {}))
        return tuple(points) if len(section.faults) == before else default
