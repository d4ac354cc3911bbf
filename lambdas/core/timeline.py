"""The timeline: every transition and signal of a run with its time and reason, as rows and as JSON lines."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class Source(StrEnum):
    WORKFLOW = "workflow"
    HOST = "host"
    AWS = "aws"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    at: datetime
    source: Source
    event: str
    attempt: int | None = None
    instance: str | None = None
    reason: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The sort key `event#<time>#<hash>`: the same entry written twice is one row."""
        raise NotImplementedError


def ordered(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """By time; entries of the same millisecond in a fixed order; each once."""
    raise NotImplementedError


def to_jsonl(entries: Iterable[Entry]) -> str:
    """timeline.jsonl: one ordered entry a line, without empty keys."""
    raise NotImplementedError
