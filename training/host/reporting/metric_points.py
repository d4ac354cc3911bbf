"""All points of a run's metrics, in compressed parts below `runs/<id>/metrics/`. `metrics.json` has only samples."""

import gzip
import json
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from queue import SimpleQueue
from typing import Any

from training.host.bucket import Bucket
from trainyard.values import floats

PART_BYTES = 2**20
"""A part of this size is complete. The next one begins."""
EVERY_SECONDS = 30.0
"""The shortest time between two writes of a part."""


@dataclass(slots=True)
class Column:
    """The new points of one metric."""

    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    epochs: list[int | None] = field(default_factory=list)

    def to_json(self, name: str) -> dict[str, Any]:
        """Return the line of a part. Steps and times (in milliseconds) are differences from the point before."""
        epochs = {"epoch": self.epochs} if any(each is not None for each in self.epochs) else {}
        return {
            "metric": name,
            "step": _differences(self.steps),
            "at": _differences([round(1000 * each) for each in self.times]),
            "value": floats.with_texts(self.values),
            **epochs,
        }


@dataclass(slots=True)
class MetricPoints:
    """The points that are not in the bucket yet, and the part that is being written. Threads may share it."""

    attempt: int = 1
    copies: SimpleQueue[dict[str, Any]] | None = None
    """Every new point as a line for trackers; None without trackers."""
    _columns: dict[str, Column] = field(default_factory=dict)
    _unsent: bytes = b""
    _part: bytes = b""
    _name: str = ""
    _sent_at: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, *, up_to: float) -> None:
        """Continue after this step of earlier attempts: their later points do not count."""
        if up_to != float("inf"):
            self._unsent += gzip.compress(json.dumps({"up_to": int(up_to)}).encode() + b"\n")

    def add(self, name: str, step: int, value: float, at: float, epoch: int | None = None) -> None:
        """Add a point. `at` is in seconds since 1970. A point replaces the points of its metric from its step on."""
        with self._lock:
            column = self._columns.setdefault(name, Column())
            column.steps.append(step)
            column.values.append(value)
            column.times.append(at)
            column.epochs.append(epoch)
        if self.copies is not None:
            self.copies.put({"metric": name, "step": step, "value": value, "at": round(1000 * at)})

    def take_copies(self) -> list[dict[str, Any]]:
        """Return the new lines for trackers, each once."""
        taken = []
        while self.copies is not None and not self.copies.empty():
            taken.append(self.copies.get())
        return taken

    def send(self, bucket: Bucket, folder: str, *, last: bool = False) -> None:
        """Write the new points into the bucket, at most every 30 seconds. They stay here if that fails."""
        if abs(time.time() - self._sent_at) < EVERY_SECONDS and not last:
            return
        with self._lock:
            columns, self._columns = self._columns, {}
        if columns:
            lines = "".join(json.dumps(column.to_json(name)) + "\n" for name, column in columns.items())
            self._unsent += gzip.compress(lines.encode())  # members of a gzip file may follow each other
        if not columns and not (last and self._unsent):
            return
        now = datetime.now(UTC)
        self._name = self._name or f"{self.attempt:04}-{now:%Y%m%dT%H%M%S%f}.jsonl.gz"
        part = self._part + self._unsent
        bucket.write(f"{folder}{self._name}", part)
        self._sent_at, self._unsent = now.timestamp(), b""
        self._part, self._name = (part, self._name) if len(part) < PART_BYTES else (b"", "")


def _differences(values: list[int]) -> list[int]:
    return [*values[:1], *(after - before for before, after in pairwise(values))]
