"""What came of one test of somebody else's."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Result:
    """`group`: the file or module that it is of. `said`: with what words it failed."""

    group: str
    name: str
    state: State
    said: str = ""
