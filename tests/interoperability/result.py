"""The result of a test of another project."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Result:
    """The result of one test."""

    group: str
    """The file or module of the test."""
    name: str
    state: State
    message: str = ""
    """The message of a failure."""
