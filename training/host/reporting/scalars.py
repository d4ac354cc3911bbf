"""The metrics of a program besides loss, accuracy and pace: their latest values and curves, and the values of the job's
objective by step."""

import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from training.host.reporting.metric_points import MetricPoints
from trainyard.protocol.objective import MOST_POINTS, MOST_SCALARS, SCALAR, Point
from trainyard.protocol.signals import LARGEST
from trainyard.values import floats
from trainyard.values.quantities import format_count
from trainyard.values.serialization import Measure

MOST_SAMPLES, FEWEST_SAMPLES = 200, 40
"""The most samples of one curve, and the same in a run with very many metrics."""
SAMPLES = 40_000
"""Samples of all curves together."""
MOST_NAMES = 1000
LONGEST_NAME = 500
MOST_NOTES = 8
"""The most lines in the log about metrics that are left out."""
RESERVED = frozenset(
    "at step steps epoch loss accuracy steps_per_second nan_since resumed samples scalars history".split()  # noqa: SIM905
)
"""Keys of reports and of metrics.json that have a meaning of their own."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value of one metric. `step` is None if the program does not report it with the value. If it is None and `epoch`
    is known, the value belongs to the end of that epoch."""

    name: str
    value: float
    step: int | None = None
    epoch: int | None = None
    at: float | None = None
    """In seconds since 1970. None: now."""


Sample = tuple[int, float, int, int | None]
"""A step, its value, the time in seconds since 1970, and the epoch."""


@dataclass(slots=True)
class Samples:
    """The curve of one metric. Beyond 200 samples every second one is removed, and the distance between new ones
    doubles. The newest one always stays."""

    points: list[Sample] = field(default_factory=list)
    _distance: int = 1

    def add(self, sample: Sample, most: int = MOST_SAMPLES) -> None:
        """Add a sample. It replaces the samples from its step on, because an attempt may repeat steps."""
        step = sample[0]
        while self.points and self.points[-1][0] >= step:
            self.points.pop()
        if len(self.points) > 1 and self.points[-1][0] - self.points[-2][0] < self._distance:
            self.points.pop()
        self.points.append(sample)
        while len(self.points) > most:
            self.points = [*self.points[:-1:2], self.points[-1]]
            self._distance = self.points[1][0] - self.points[0][0]


@dataclass(slots=True)
class Scalars:
    """The metrics of a run by name. Only a program's first 1,000 metrics count; the objective always does."""

    objective: str | None = None
    points: MetricPoints = field(default_factory=MetricPoints)
    """All points, for the bucket."""
    latest: dict[str, Measure] = field(default_factory=dict)
    steps_per_epoch: float = 0.0
    """The most steps by epoch in a report: exact after the first end of an epoch. 0 if unknown."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Names that do not count, each with a line for the log."""
    _samples: dict[str, Samples] = field(default_factory=dict)
    _points: dict[int, Point] = field(default_factory=dict)
    _step: int = 0
    _epoch: int | None = None
    _reported: set[str] = field(default_factory=set)
    """Names in the program's own reports."""
    _is_reported: bool = False
    """True once the objective came from a better source than printed lines."""

    def begin(self, curves: object, *, up_to: float) -> None:
        """Continue the curves in an earlier metrics.json, up to this step."""
        self.points.begin(up_to=up_to)
        for name, samples in curves.items() if isinstance(curves, Mapping) else ():
            if not self._is_allowed(str(name)) or not isinstance(samples, list):
                continue
            for sample in samples:
                match sample:
                    case [int() as step, value, int() as at, int() | None as epoch] if step <= up_to:
                        if (number := number_in(value)) is not None:
                            self._samples.setdefault(name, Samples()).add((step, number, at, epoch))

    def take(self, report: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Add the metrics of a report. `values` are its step, epoch, loss and accuracy, as far as it has them."""
        self._step, self._epoch = values.get("step", self._step), values.get("epoch", self._epoch)
        self.note_steps(values.get("step"), values.get("epoch"))
        for name, found in report.items():
            if name not in RESERVED and (value := number_in(found)) is not None:
                self._reported.add(name)
                self.add(Scalar(name, value))
        if self.objective and self.objective in values:
            self._add_point(values[self.objective], self._position(), self._epoch)

    def note_steps(self, step: int | None, epoch: int | None) -> None:
        """Learn from a position how many steps an epoch has."""
        if step and epoch:
            self.steps_per_epoch = max(self.steps_per_epoch, step / epoch)

    def _end_of(self, epoch: int) -> int:
        """Return the last step of an epoch, or its number if the program counts only epochs."""
        return round(epoch * max(1.0, self.steps_per_epoch))

    def is_reported(self, name: str) -> bool:
        """Return True if the program reports this metric itself."""
        return name in self._reported

    def add(self, scalar: Scalar, *, is_printed: bool = False) -> None:
        """Add a value, by default at the last reported step. A printed value does not count once a better source has
        reported the objective, and its line gives its position only if the program reports none."""
        if not self._is_allowed(scalar.name) or (is_printed and self._is_reported):
            return
        self._is_reported |= scalar.name == self.objective and not is_printed
        samples = self._samples.setdefault(scalar.name, Samples())
        has_position = bool(self._step) or self._epoch is not None
        step, epoch = (None, None) if is_printed and has_position else (scalar.step, scalar.epoch)
        if step is None:
            step = self._end_of(epoch) if epoch else self._position()
            epoch = self._epoch if epoch is None else epoch
        if step == 0 and samples.points:
            step = samples.points[-1][0] + 1  # the program counts nothing
        self._put(scalar.name, step, scalar.value, scalar.at, epoch)
        if scalar.name == self.objective:
            self._add_point(scalar.value, step, epoch)

    def _put(self, name: str, step: int, value: float, at: float | None, epoch: int | None) -> None:
        at = time.time() if at is None else at
        self.points.add(name, step, value, at, epoch)
        self.latest[name] = Measure(value)
        most = max(FEWEST_SAMPLES, min(MOST_SAMPLES, SAMPLES // max(1, len(self._samples))))
        self._samples.setdefault(name, Samples()).add((step, value, round(at), epoch), most)

    def conclude(self, written: Mapping[str, Any], step: int | None) -> None:
        """Take the last values from the metrics.json that the program has written."""
        for name, found in written.items():
            if name not in RESERVED and (value := number_in(found)) is not None and self._is_allowed(name):
                if name in self._samples or isinstance(
                    found, float
                ):  # other whole numbers are settings: epochs, workers
                    self._end(name, value, step)
                else:
                    self.latest[name] = Measure(value)
        if self.objective and (value := number_in(written.get(self.objective))) is not None:
            self._add_point(value, max(self._points, default=0) if step is None else step, None)

    def _end(self, name: str, value: float, step: int | None) -> None:
        """Take the last value of a metric: at this step, or after its last point if the step is unknown."""
        samples = self._samples.get(name, Samples()).points
        before, known, *_ = samples[-1] if samples else (0, None)
        if value != known:
            self._put(name, max(before, self._position() if step is None else step), value, None, None)

    @property
    def in_signal(self) -> dict[str, Any]:
        """The values for a signal, if there are any, of the first 32 metrics that fit into the ledger."""
        latest, points = self._fitting(), dict(self._points)  # another thread may add values
        scalars = {"scalars": latest} if latest else {}
        return scalars | ({"objective": tuple(points[step] for step in sorted(points))} if points else {})

    @property
    def in_metrics(self) -> dict[str, Any]:
        """The keys of metrics.json: each latest value under its name, and all curves under `scalars`."""
        curves = {name: samples.points for name, samples in self._samples.items()}
        return {**self.latest, **({"scalars": curves} if curves else {})}

    def _fitting(self) -> dict[str, Measure]:
        found = {
            name: value
            for name, value in dict(self.latest).items()
            if re.fullmatch(SCALAR, name, re.ASCII) and (abs(value) < LARGEST or not math.isfinite(value))
        }
        first = {self.objective: found[self.objective]} if self.objective in found else {}
        return dict(islice({**first, **found}.items(), MOST_SCALARS))

    def take_notes(self) -> list[str]:
        """Return the lines about metrics that are left out, each once."""
        new = [line for line in self.left_out.values() if line][:MOST_NOTES]
        self.left_out = dict.fromkeys(self.left_out, "")
        return new

    def _position(self) -> int:
        """Return the last reported step, or the epoch of a program that counts only epochs."""
        return self._step or self._epoch or 0

    def _add_point(self, value: float, step: int, epoch: int | None) -> None:
        known = self._points.pop(step, None)
        epoch = known.epoch if known and epoch is None else epoch
        self._points[step] = Point(step=step, epoch=epoch, value=Measure(value))
        self._points = dict(list(self._points.items())[-MOST_POINTS:])

    def _is_allowed(self, name: str) -> bool:
        if name in self.latest or name in self._samples or name == self.objective:
            return True
        others = {*self.latest, *self._samples} - {self.objective}
        if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
            why = f"the metric {name!r:.80} is left out: a name has 1 to {LONGEST_NAME} characters that can be printed"
        elif len(others) >= MOST_NAMES - bool(self.objective):
            why = (
                f"the metric {name!r:.80} is left out: a run has at most {format_count(MOST_NAMES, 'metric')}"
            )
        else:
            return True
        if len(self.left_out) < MOST_NOTES:
            self.left_out.setdefault(name, why)
        return False


def number_in(value: object) -> float | None:
    """Return a number, which may be NaN or infinite, in any form that JSON writers use; None for every other value."""
    if value in floats.TEXTS:
        return float(str(value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None
