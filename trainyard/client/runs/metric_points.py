"""All points of a run's metrics from the bucket (docs/contracts/bucket.md), or the samples of them in metrics.json."""

from __future__ import annotations

import gzip
import json
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from trainyard.protocol import keys
from trainyard.values import floats

if TYPE_CHECKING:
    from trainyard.client.bucket import Bucket

Loss = tuple[int, float]
"""A step and its loss."""
SAMPLED = ("loss", "accuracy", "steps_per_second")
"""The metrics in `samples` of metrics.json. The others are in `scalars`."""
AT_ONCE = 16


@dataclass(frozen=True)
class MetricPoints:
    """The points of a metric in the order of their steps, as columns of one length."""

    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    """May be NaN or infinite."""
    times: list[float | None] = field(default_factory=list)
    """In seconds since 1970."""
    epochs: list[int | None] = field(default_factory=list)
    """None if the program reported no epoch with the value."""

    @property
    def curve(self) -> tuple[Loss, ...]:
        """The steps with their values."""
        return tuple(zip(self.steps, self.values, strict=True))

    def add(self, step: int, value: float, at: float | None = None, epoch: int | None = None) -> None:
        """Add a point. It replaces the points from its step on, because an attempt may repeat steps."""
        self.end_before(step)
        self.steps.append(step)
        self.values.append(value)
        self.times.append(at)
        self.epochs.append(epoch)

    def end_before(self, step: int) -> None:
        """Remove the points from this step on."""
        if self.steps and self.steps[-1] >= step:
            first = bisect_left(self.steps, step)
            for column in (self.steps, self.values, self.times, self.epochs):
                del column[first:]

    def add_later(self, others: MetricPoints) -> None:
        """Add the points of the others after the last step."""
        last = self.steps[-1] if self.steps else -1
        for point in zip(others.steps, others.values, others.times, others.epochs, strict=True):
            if point[0] > last:
                self.add(*point)


def read(bucket: Bucket, run: str, names: Collection[str] = ()) -> dict[str, MetricPoints]:
    """Return all points that the run has sent of these metrics, or of all."""
    found: dict[str, MetricPoints] = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for part in pool.map(bucket.read, sorted(bucket.keys(keys.all_metrics(run)))):
            for line in gzip.decompress(part or gzip.compress(b"")).splitlines():
                _take(json.loads(line), names, found)
    return found


def _take(line: Mapping[str, Any], names: Collection[str], found: dict[str, MetricPoints]) -> None:
    if "up_to" in line:
        for points in found.values():
            points.end_before(line["up_to"] + 1)
        return
    if names and line["metric"] not in names:
        return
    points = found.setdefault(line["metric"], MetricPoints())
    steps, times = accumulate(line["step"]), (at / 1000 for at in accumulate(line["at"]))
    epochs = line.get("epoch") or [None] * len(line["value"])
    for point in zip(steps, floats.with_numbers(line["value"]), times, epochs, strict=True):
        points.add(*point)


def samples_in(metrics: Mapping[str, Any]) -> dict[str, MetricPoints]:
    """Return the samples of each metric in metrics.json, the loss first."""
    found: dict[str, MetricPoints] = {}
    samples = [each for each in metrics.get("samples", []) if each.get("step") is not None]
    for name in SAMPLED:
        points = MetricPoints()
        for each in samples:
            if each.get(name) is not None:
                points.add(int(each["step"]), float(each[name]), _time_in(each), each.get("epoch"))
        if points.steps:
            found[name] = points
    curves = metrics.get("scalars")
    for name, listed in curves.items() if isinstance(curves, Mapping) else ():
        points = MetricPoints()
        for step, value, at, epoch in _listed(listed):
            points.add(step, value, at, epoch)
        if points.steps:
            found[name] = points
    return found


def _time_in(sample: Mapping[str, Any]) -> float | None:
    return datetime.fromisoformat(sample["at"]).timestamp() if "at" in sample else None


def _listed(samples: object) -> Iterator[tuple[int, float, float | None, int | None]]:
    """Yield the samples of a curve. A program may have written something else under the key."""
    for sample in samples if isinstance(samples, list) else ():
        match sample:
            case [int() as step, int() | float() as value]:
                yield step, float(value), None, None
            case [int() as step, int() | float() as value, int() as at, int() | None as epoch]:
                yield step, float(value), at, epoch
