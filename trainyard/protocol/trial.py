"""A trial: a training run of a study. Its execution's input names the study, and so does the row of its run."""

import re
from dataclasses import field

from trainyard.values.fields import Count, Text, required
from trainyard.values.lazy import dataclass
from trainyard.values.serialization import Measure

MOST_TRIALS = 1000
ENDING = "-trial"
NAME = re.compile(rf"(?P<study>.+)-(?P<number>\d{{4}}){ENDING}")
"""The id of a trial's run, which begins with its study."""
PART = re.compile(r"(?P<study>.+)-part-(?P<part>\d{4})")
"""The name of an execution that continues a study. The first execution of a study is named as the study."""
MOST_PARTS = 9999


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The place of a run in its study."""

    study: str = field(
        metadata=required(Text(r"[a-z][a-z0-9-]{0,63}", "the id of a study"), "The id of the study.")
    )
    number: int = field(
        metadata=required(Count(least=1, most=MOST_TRIALS), "The number of the trial in its study.")
    )
    submitter: str = field(
        metadata=required(Text(r"\S{1,128}", "the name of a user"), "The user who submitted the study.")
    )

    @property
    def run(self) -> str:
        """Return the id of the run, which is the name of its execution."""
        return f"{self.study}-{self.number:04}{ENDING}"


def study_of(run: str) -> str | None:
    """Return the study in the id of a run, or None for the id of another run."""
    found = NAME.fullmatch(run)
    return found["study"] if found else None


def part_name(study: str, part: int) -> str:
    """Return the name of the nth execution of a study."""
    return study if part == 1 else f"{study}-part-{part:04}"


def part_of(execution: str) -> tuple[str, int]:
    """Return the run that an execution belongs to, and the number of its execution: 1, unless it continues a study."""
    found = PART.fullmatch(execution)
    return (found["study"], int(found["part"])) if found else (execution, 1)


STUDY = "the study"
"""The user of a stop that a study asks for, in the row of its trial's run."""


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """The comparison at a rung that stopped a trial."""

    rung: int
    """The rung: an epoch or a step."""
    value: Measure
    """The value of the objective at the rung."""
    reason: str
