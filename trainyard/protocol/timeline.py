"""The timeline: every transition and signal of a run with its time and reason, as rows and as JSON lines.

`sort_key` defines the order of the page, `show`, timeline.jsonl and `-o json`.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any

from trainyard.values import serialization
from trainyard.values.lazy import dataclass

CAUSES = (
    ("runs ended", "waits", "slot given"), ("planned",), ("resumed", "continued"), ("point added",), ("warm",),
    ("launched", "reached"),
    ("pulling",), ("ready",), ("gang_ready",), ("starting",), ("started",), ("progress",), ("slow host",),
    ("checkpointed",), ("spot warning",),
    ("stop asked", "stopping", "cap reached"), ("growing", "making room"), ("asked to leave",),
    ("stopped", "failed", "finished", "host lost"), ("quarantined",),
    ("interrupted", "resized", "hung", "capped", "preempted"),
    ("overdue",), ("imaged", "published", "discarded"), ("kept", "kept for the next run"), ("left the pool",),
    ("released", "undone"), ("warning",), ("refused", "succeeded"),
)  # fmt: skip
"""Events of the same millisecond are sorted in this order, cause before effect."""
RANKS = {event: rank for rank, events in enumerate(CAUSES) for event in events}


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
        """Return the sort key of the entry's row. An entry that is written twice is one row."""
        text = json.dumps(serialization.to_json(self), sort_keys=True)
        return f"{serialization.timestamp(self.at)}#{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def sort_entries(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return each entry once, sorted by `sort_key`."""
    once = {entry.key: entry for entry in entries}
    return tuple(sorted(once.values(), key=lambda entry: (*sort_key(entry.at, entry.event), entry.key)))


def sort_key(at: datetime, event: str) -> tuple[datetime, int]:
    """Return the sort key of an event: its time, then cause before effect."""
    return at, RANKS.get(event, RANKS["progress"])


def to_jsonl(entries: Iterable[Entry]) -> str:
    """Return the contents of timeline.jsonl: one entry a line, without empty keys."""
    return "".join(
        f"{json.dumps(_without_empty(entry), ensure_ascii=False)}\n" for entry in sort_entries(entries)
    )


def _without_empty(entry: Entry) -> dict[str, Any]:
    return {key: value for key, value in serialization.to_json(entry).items() if value not in (None, "", {})}
