"""The reports of a run: lines in the log, progress for the host agent, TensorBoard events, metrics.json."""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import tensorflow as tf

from trainyard.runtime.environment import Environment
from trainyard.runtime.plan import Plan, Resumed, Step

EVERY_SECONDS = 1.0
SHARE_OF_TIME = 1 / 20
"""Pause between reports as a share of the run's duration, so that the curve of a short run has enough points."""


@dataclass(slots=True)
class History:
    """The sums of the current epoch and the means of earlier epochs. Checkpoints contain it."""

    epochs: list[dict[str, float]] = field(default_factory=list)
    loss: float = 0.0
    right: float = 0.0
    steps: int = 0

    def add(self, loss: float, accuracy: float) -> None:
        self.loss += loss
        self.right += accuracy
        self.steps += 1

    def close_epoch(self, epoch: int) -> dict[str, float]:
        steps = max(self.steps, 1)
        closed = {"epoch": epoch, "loss": self.loss / steps, "accuracy": self.right / steps}
        self.epochs.append(closed)
        self.loss, self.right, self.steps = 0.0, 0.0, 0
        return closed

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Reporter:
    """Report the first step after a start, then a step each second (in the first 20 s more often), and the last step.
    `plan.each_step` is called for every step.

    Every worker has a progress file and a log; only the chief writes to TensorBoard and calls `each_step`.
    """

    def __init__(
        self,
        environment: Environment,
        plan: Plan,
        *,
        steps: int,
        per_epoch: int,
        is_chief: bool,
        resumed: Resumed | None,
    ) -> None:
        self._environment = environment
        self._events = tf.summary.create_file_writer(str(environment.tensorboard)) if is_chief else None
        self._each_step = plan.each_step
        self._is_chief = is_chief
        self._steps = steps
        self._per_epoch = per_epoch
        self._resumed = resumed
        self._began: float | None = None
        self._reported_at = 0.0
        self._reported_step: int | None = None
        self._names: set[str] = set()
        """The metrics that are reported by step."""

    def say(self, step: int, loss: float, accuracy: float, **further: float) -> None:
        """Report a step of a loop. `further` metrics are reported like loss and accuracy."""
        if self._each_step and self._is_chief:
            epoch, batch = divmod(step - 1, self._per_epoch)
            self._each_step(
                Step(step, self._steps, epoch + 1, batch + 1, self._per_epoch, loss=loss, accuracy=accuracy)
            )
        self.report(step, {"loss": loss, "accuracy": accuracy, **further})

    def report(self, step: int, scalars: Mapping[str, float]) -> None:
        """Report the metrics of a step by name."""
        now = time.monotonic()
        if self._began is None:
            self._began = now
        pause = min(EVERY_SECONDS, SHARE_OF_TIME * (now - self._began))
        if self._reported_step is not None and now - self._reported_at < pause and step != self._steps:
            return
        if self._reported_step is not None:
            pace = (step - self._reported_step) / (now - self._reported_at)
            scalars = {**scalars, "steps_per_second": round(pace, 2)}
        self._reported_at, self._reported_step = now, step
        epoch = (step - 1) // self._per_epoch + 1
        if not self._each_step:
            metrics = "".join(f" {name} {value:.6g}" for name, value in scalars.items())
            print(f"step {step}/{self._steps} epoch {epoch}{metrics}", flush=True)
        rounded = {name: round(value, 6) for name, value in scalars.items()}
        self._write({"step": step, "steps": self._steps, "epoch": epoch, **rounded})
        self._names |= scalars.keys()
        self.add_scalars(step, **{f"train/{name}": value for name, value in scalars.items()})

    def report_epoch(self, step: int, epoch: int, means: Mapping[str, float]) -> None:
        """Report the metrics of an epoch that its steps do not have, such as metrics of its validation."""
        further = {name: value for name, value in means.items() if name not in self._names}
        if further:
            self._write({"step": step, "epoch": epoch, **further})
        self.add_scalars(step, **{f"epoch/{name}": value for name, value in means.items()})

    def _write(self, values: Mapping[str, Any]) -> None:
        resumed = {"resumed": self._resumed.to_json()} if self._resumed else {}
        report_progress(self._environment, {**values, **resumed})

    def add_scalars(self, step: int, **values: float) -> None:
        """Write scalars to TensorBoard, on the chief."""
        if self._events:
            with self._events.as_default(step):
                for name, value in values.items():
                    tf.summary.scalar(name, value)
            self._events.flush()


def report_progress(environment: Environment, values: Mapping[str, Any]) -> None:
    """Append a line to the progress file, which the host agent reads."""
    environment.progress.parent.mkdir(parents=True, exist_ok=True)
    with environment.progress.open("a") as lines:
        lines.write(json.dumps(values) + "\n")


def write_metrics(path: Path, values: Mapping[str, Any]) -> None:
    """Write metrics.json atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.{os.getpid()}")
    half.write_text(json.dumps(values, indent=1))
    half.replace(path)
