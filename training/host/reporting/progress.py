"""The program's progress: from the JSON lines that it appends to the progress file, or, without these, from its output
and event files (observed.py, events.py)."""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

from training.host.reporting.scalars import RESERVED, Scalar, Scalars
from trainyard.protocol.signals import LARGEST, Resumed
from trainyard.values import floats
from trainyard.values.serialization import Measure

EVERY_SECONDS = 10.0
ALIVE_SECONDS = 60.0
COUNTS = ("step", "steps", "epoch")
NUMBERS = ("loss", "accuracy", "steps_per_second")
MAY_BE_NAN = ("loss", "accuracy")
"""A pace that is NaN or infinite is only a fault of the program's clock."""
RESUMED_COUNTS = ("step", "global_batch_size", "epoch", "batch")


class Source(IntEnum):
    """Sources of progress for programs without reports. A run uses one source: the highest with a number. Sources that
    count steps rank above sources that count epochs, so that the step never jumps between two ways of counting."""

    PRINTED_EPOCHS = 0
    EVENT_EPOCHS = 1
    PRINTED_STEPS = 2
    EVENT_STEPS = 3
    PATTERN = 4


@dataclass(slots=True)
class Progress:
    """The progress of one program."""

    path: Path
    started: float
    reported: dict[str, Any] = field(default_factory=dict)
    """The latest report."""
    resumed: Resumed | None = None
    """The state that the program has restored."""
    seen: dict[str, Any] = field(default_factory=dict)
    """The latest values from other sources."""
    nan_since: int | None = None
    scalars: Scalars = field(default_factory=Scalars)
    """The metrics besides these, and the objective."""
    observed: dict[str, Any] = field(default_factory=dict)
    """Findings about the use of the hosts: `limited`, `slow` and `degraded` of a signal."""
    _source: Source = Source.PRINTED_EPOCHS
    _sights: int = 0
    _offset: int = 0
    _fresh: bool = False
    _sent_at: float | None = None

    def update(self) -> list[dict[str, Any]]:
        """Read new whole lines and return their values. Lines that are not JSON objects are skipped."""
        try:
            # O_NONBLOCK: the program may have replaced the file by a pipe
            with os.fdopen(os.open(self.path, os.O_RDONLY | os.O_NONBLOCK), "rb") as lines:
                lines.seek(self._offset)
                text = lines.read()
        except OSError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        new = []
        for line in whole.splitlines():
            try:
                report = json.loads(line)
            except ValueError:
                continue
            if isinstance(report, dict):
                values = metrics_in(report)
                has_numbers = values.keys() & set(NUMBERS)
                self.reported = values if has_numbers else self.reported | values | self._later(report)
                self.scalars.take(report, values)
                self._watch_loss(values)
                self.resumed = resumed_in(report) or self.resumed
                self._fresh = True
                new.append(values)
        return new

    def _later(self, report: Mapping[str, Any]) -> dict[str, int]:
        """Return the present step if the report has only metrics of an earlier one, such as a late evaluation."""
        step, now = report.get("step"), self.reported.get("step", 0)
        is_late = report.keys() - RESERVED and is_number(step) and step is not None and step < now
        return {"step": now} if is_late else {}

    def see(self, report: Mapping[str, Any], source: Source = Source.PATTERN) -> dict[str, Any]:
        """Add values from another source, and return the new values: a number belongs to the last seen step. Return
        nothing if the program reports itself or has a better source."""
        values = metrics_in(report)
        if self.reports or source < self._source or not report:
            return {}
        if values and source > self._source:
            if "loss" in self.seen and "loss" not in values:
                return {}
            self._source, self.seen = source, {}
        self.scalars.take(report, values)
        self._sights += 1
        self._fresh = True
        if not values:
            return {}
        self.seen |= values
        self._watch_loss(self.seen)
        return self.seen if values.keys() & set(NUMBERS) else values

    def expect_steps(self) -> None:
        """Wait for a source that counts steps, as an earlier attempt of the run had one."""
        self._source = Source.PRINTED_STEPS

    @property
    def counts_steps(self) -> bool:
        """True once the program or an earlier attempt has counted steps."""
        return self.reports or self._source >= Source.PRINTED_STEPS

    def add_further(self, scalar: Scalar, *, is_printed: bool) -> None:
        """Add a value of another metric. The program's own reports of that metric count instead, and its printed lines
        instead of events that count epochs."""
        if scalar.name in RESERVED or (
            self.reports and is_printed
        ):  # Lightning writes `epoch` for TensorBoard
            return
        counts_epochs = scalar.step is None and not is_printed
        if (self.reports or counts_epochs) and self.scalars.is_reported(scalar.name):
            return
        self.scalars.add(scalar, is_printed=is_printed)
        self._sights += 1
        self._fresh = True

    def due(self, now: float) -> dict[str, Any] | None:
        """Return the values to send now, or None: new values at most every 10 s, the same values again after a minute.

        The signal is the run's heartbeat: it shows that this host lives, even if the program hangs (silence.py).
        """
        quiet = now - (self.started if self._sent_at is None else self._sent_at)
        new = self._fresh and (self._sent_at is None or quiet >= EVERY_SECONDS)
        if not new and quiet < ALIVE_SECONDS:
            return None
        self._fresh = False
        self._sent_at = now
        return self.all

    @property
    def all(self) -> dict[str, Any]:
        """The latest values and metrics, and the restored state if there is one."""
        return self.latest | self.not_finite | self.restored | self.scalars.in_signal | self.observed

    @property
    def latest(self) -> dict[str, Any]:
        """The latest values."""
        return self.reported or self.seen

    @property
    def not_finite(self) -> dict[str, Any]:
        """The step since which the loss has been NaN or infinite; empty while it is a number."""
        return {} if self.nan_since is None else {"nan_since": self.nan_since}

    def _watch_loss(self, values: Mapping[str, Any]) -> None:
        """Track since when the loss is not finite. A line without a loss changes nothing."""
        loss = values.get("loss")
        if loss is None:
            return
        if math.isfinite(loss):
            self.nan_since = None
        elif self.nan_since is None:
            self.nan_since = values.get("step", 0)

    @property
    def restored(self) -> dict[str, Any]:
        """The restored state, which every signal of such an attempt contains. The final signal does, too, because an
        earlier event may arrive only after the end of the attempt."""
        return {"resumed": self.resumed} if self.resumed else {}

    @property
    def reports(self) -> bool:
        """True if the program reports its progress itself."""
        return bool(self.reported)

    @property
    def is_at_its_end(self) -> bool:
        """True after the program's last step. It may export for a long time then."""
        step, steps = self.latest.get("step"), self.latest.get("steps")
        return step is not None and steps is not None and step >= steps

    @property
    def length(self) -> int:
        """A number that grows with each report and each value from another source."""
        return self._offset + self._sights

    @property
    def step(self) -> int | None:
        return self.latest.get("step")


def metrics_in(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the valid values of a report: whole counts and finite numbers, and losses that are NaN or infinite."""
    counts = {key: int(report[key]) for key in COUNTS if is_number(report.get(key))}
    numbers = {key: float(report[key]) for key in NUMBERS if is_number(report.get(key))}
    return (
        counts
        | numbers
        | {key: Measure(number) for key in MAY_BE_NAN if (number := not_finite(report.get(key))) is not None}
    )


def resumed_in(report: Mapping[str, Any]) -> Resumed | None:
    """Return the restored state in a report, or None."""
    resumed = report.get("resumed")
    if not isinstance(resumed, dict) or not is_number(resumed.get("step")):
        return None
    counts = {key: int(resumed[key]) for key in RESUMED_COUNTS if is_number(resumed.get(key))}
    return Resumed(**counts, verified=resumed.get("verified") is True)


def not_finite(value: object) -> float | None:
    """Return a number that is NaN or infinite, in any form that JSON writers use; None for any other value."""
    if value in floats.TEXTS:
        return float(str(value))
    return value if isinstance(value, float) and not math.isfinite(value) else None


def is_number(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) < LARGEST  # also False for NaN
    )
