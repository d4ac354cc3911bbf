"""The timeline: every transition and signal of a run with its time and reason, as rows and as JSON lines."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any

from trainyard.core.values import wire
from trainyard.core.values.lazy import dataclass


class Source(StrEnum):
    WORKFLOW = "workflow"
    HOST = "host"
    AWS = "aws"


@dataclass(frozen=True, kw_only=True)
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
        """Its sort key: the same entry written twice is one row."""
        text = json.dumps(wire.to_json(self), sort_keys=True)
        return f"{wire.stamp(self.at)}#{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def ordered(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """By time; entries of the same millisecond in a fixed order; each once."""
    return tuple(by_key for _, by_key in sorted({entry.key: entry for entry in entries}.items()))


def to_jsonl(entries: Iterable[Entry]) -> str:
    """timeline.jsonl: one ordered entry a line, without empty keys."""
    return "".join(f"{json.dumps(_filled(entry), ensure_ascii=False)}\n" for entry in ordered(entries))


def _filled(entry: Entry) -> dict[str, Any]:
    return {key: value for key, value in wire.to_json(entry).items() if value not in (None, "", {})}
