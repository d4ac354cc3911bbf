"""metrics.json of a running program: its reports, and a curve of the whole run with at most 500 samples."""

import json
import math
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from training.host.bucket import Bucket
from training.host.disk import is_readable
from training.host.reporting.progress import NUMBERS
from training.host.reporting.scalars import Scalars
from trainyard.protocol import keys
from trainyard.values import floats
from trainyard.values.serialization import timestamp

MOST_SAMPLES = 500
SAMPLED = ("step", "epoch", "loss", "accuracy", "steps_per_second")


@dataclass(slots=True)
class Curve:
    """Samples in the order of their steps. A run keeps its first 500 samples. The next one removes every second sample,
    and doubles the distance between new ones. The newest sample is always kept."""

    samples: list[dict[str, Any]] = field(default_factory=list)
    _newest: dict[str, Any] | None = None
    _distance: int = 1
    _begins: bool = False
    _has_steps: bool = False
    _counted_from: int | None = None
    """The first step that was counted here, because the program did not name its steps."""

    @staticmethod
    def after(samples: list[dict[str, Any]], *, begins: bool = False) -> "Curve":
        """Continue the curve of an earlier attempt or agent. With `begins`, the first step of this attempt is unknown,
        and replaces the samples from there on."""
        distance = 1
        if len(samples) >= MOST_SAMPLES // 2:
            steps = [sample["step"] for sample in samples]
            distance = max(1, min(after - before for before, after in pairwise(steps[:-1])))
        return Curve(list(samples), samples[-1] if samples else None, distance, begins)

    def add(self, values: dict[str, Any], at: datetime) -> int | None:
        """Add a sample and return its step. Return None if it has no number or an old step. Reports without steps are
        counted, until the program's first step replaces these samples."""
        step = values.get("step")
        if step is not None:
            self._forget(step if self._begins else self._counted_from)
            self._has_steps, self._begins, self._counted_from = True, False, None
        if not values.keys() & set(NUMBERS):
            return None
        if step is None and not self._has_steps:
            step = self._newest["step"] + 1 if self._newest else 1
            self._counted_from = step if self._counted_from is None else self._counted_from
        if step is None or (self._newest and step <= self._newest["step"]):
            return None
        self._newest = {"at": timestamp(at)} | {key: values.get(key) for key in SAMPLED} | {"step": step}
        if len(self.samples) == MOST_SAMPLES:
            self.samples = self.samples[::2]
            steps = self.samples[-1]["step"] - self.samples[0]["step"]
            self._distance = max(2 * self._distance, steps // (len(self.samples) - 1))
        if not self.samples or step >= self.samples[-1]["step"] + self._distance:
            self.samples.append(self._newest)
        return int(step)

    def _forget(self, step: int | None) -> None:
        """Remove the samples from this step on."""
        if step is None:
            return
        self.samples = [sample for sample in self.samples if sample["step"] < step]
        self._newest = self.samples[-1] if self.samples else None

    def to_json(self) -> list[dict[str, Any]]:
        samples = list(self.samples)
        if self._newest and (not samples or samples[-1]["step"] < self._newest["step"]):
            samples.append(self._newest)
        return samples


@dataclass(slots=True)
class Metrics:
    """The run's metrics.json and all points. It continues the run's earlier curves, and is sent when it has changed."""

    bucket: Bucket
    run: str
    scalars: Scalars = field(default_factory=Scalars)
    values: dict[str, Any] = field(default_factory=dict)
    curve: Curve = field(default_factory=Curve)
    _own: dict[str, Any] = field(default_factory=dict)
    _sent: bytes = b""

    def begin(self, *, up_to: float = math.inf, begins: bool = False) -> None:
        """Continue with the bucket's curves up to this step. `begins`: see Curve.after."""
        document = as_object(self.bucket.read_if_there(keys.metrics(self.run))) or {}
        samples = document.get("samples")
        known = [
            sample
            for sample in (samples if isinstance(samples, list) else [])
            if isinstance(sample, dict) and isinstance(sample.get("step"), int) and sample["step"] <= up_to
        ]
        self.curve = Curve.after(known, begins=begins)
        for sample in known:
            if isinstance(epoch := sample.get("epoch"), int):
                self.scalars.note_steps(sample["step"], epoch)
        self.scalars.begin(document.get("scalars"), up_to=up_to)

    def add(self, values: dict[str, Any], at: datetime) -> None:
        self.values = self.values | values
        step = self.curve.add(values, at)
        if step is None:
            return
        for name in values.keys() & set(NUMBERS):
            self.scalars.points.add(name, step, values[name], at.timestamp(), values.get("epoch"))

    def send(self, *, last: bool = False) -> None:
        """Write it to the bucket if it has changed."""
        self._send_document()
        self.scalars.points.send(self.bucket, keys.all_metrics(self.run), last=last)

    def _send_document(self) -> None:
        if not self.values and not self._own and not self.scalars.latest:
            return
        text = json.dumps(floats.with_texts(self._document())).encode()
        if text != self._sent:
            self.bucket.write(keys.metrics(self.run), text)
            self._sent = text

    def conclude(self, path: Path, found: dict[str, Any]) -> dict[str, Any] | None:
        """Merge the program's own metrics.json over its reports, and return it. Without the file, `found` has
        the metrics from elsewhere. Return None if the program has written no JSON object."""
        own = as_object(path.read_bytes()) if is_readable(path) else found or None
        self._own = own or {}
        return None if own is None else self._document()

    def _document(self) -> dict[str, Any]:
        return self.values | self.scalars.in_metrics | {"samples": self.curve.to_json()} | self._own


def as_object(text: bytes | None) -> dict[str, Any] | None:
    """Return the JSON object in a text; None if it is not one."""
    try:
        document = json.loads(text or b"")
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
