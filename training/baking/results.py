"""The results of the tests: as a table, as the reason of a failed bake, and as tests.json. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one test. `reason` is one sentence: what was found, or why the test was skipped."""

    outcome: Outcome
    reason: str


def passed(reason: str) -> Finding:
    return Finding(Outcome.PASSED, reason)


def failed(reason: str) -> Finding:
    return Finding(Outcome.FAILED, reason)


def skipped(reason: str) -> Finding:
    return Finding(Outcome.SKIPPED, reason)


@dataclass(frozen=True, slots=True)
class Result:
    """One line of tests.json."""

    name: str
    outcome: Outcome
    reason: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The versions in the image's tags: `none` without a GPU driver, empty if unknown."""

    driver: str
    cuda: str
    tensorflow: str
    architecture: str


def to_json(results: Sequence[Result], versions: Versions) -> dict[str, Any]:
    return {"tests": [asdict(result) for result in results], **asdict(versions)}


def table(results: Sequence[Result]) -> list[str]:
    """Return the results as aligned lines."""
    widest = max((len(result.name) for result in results), default=0)
    return [
        f"{result.outcome:<7}  {result.name:<{widest}}  {result.seconds:7.1f} s  {result.reason}"
        for result in results
    ]


def failure(results: Sequence[Result]) -> str | None:
    """Return the failed tests with their reasons; None if none failed."""
    bad = [f"{result.name}: {result.reason}" for result in results if result.outcome is Outcome.FAILED]
    return f"{len(bad)} of {len(results)} tests failed: {'; '.join(bad)}" if bad else None


def count_results(results: Sequence[Result]) -> str:
    """Return the counts, as in `8 passed, 2 skipped`."""
    counts = {outcome: sum(result.outcome is outcome for result in results) for outcome in Outcome}
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
