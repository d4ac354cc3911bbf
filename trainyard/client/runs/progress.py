"""The progress of a program."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from trainyard.client.runs.metric_points import SAMPLED
from trainyard.protocol.objective import Point
from trainyard.values import floats


@dataclass(frozen=True)
class Progress:
    """The progress of a program. A number that the program does not report is None."""

    step: int
    steps: int
    """The number of planned steps; 0 if the program does not report it."""
    epoch: float | None = None
    loss: float | None = None
    accuracy: float | None = None
    steps_per_second: float | None = None
    nan_since: int | None = None
    """The step since which the loss has been NaN or infinite."""
    objective: tuple[str, float] | None = None
    """The metric in the job's `objective` with its last value, unless it is a number above."""

    @property
    def metrics(self) -> dict[str, float]:
        """Return the measures that the program reports, by their names."""
        found = {name: getattr(self, name) for name in SAMPLED}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def warning(self) -> str:
        """Return a sentence about a loss that is not finite, otherwise an empty text."""
        if self.loss is None or self.nan_since is None:
            return ""
        return f"Its loss has been {floats.format_float(self.loss, '.4g')} since step {self.nan_since}."

    def numbers(self, loss: str = ".4f") -> tuple[str, ...]:
        """Return the measures of the program in words. `loss` is the format of the loss."""
        since = f" since step {self.nan_since}" if self.nan_since is not None else ""
        return (
            *([f"loss {floats.format_float(self.loss, loss)}{since}"] if self.loss is not None else []),
            *([f"accuracy {floats.format_float(self.accuracy, '.3f')}"] if self.accuracy is not None else []),
            *(
                [f"{self.objective[0]} {floats.format_float(self.objective[1], '.4g')}"]
                if self.objective
                else []
            ),
            *([f"{self.steps_per_second:.1f} steps/s"] if self.steps_per_second else []),
        )

    def format_steps(self, of: str = "/") -> str:
        """Return the step and the number of steps."""
        return f"{self.step}{of}{self.steps}" if self.steps else f"{self.step}"


def progress_in(reported: Mapping[str, Any] | None) -> Progress | None:
    """Read the progress from the ledger or metrics.json. Return None before the program has reported a step."""
    reported = reported or {}
    if reported.get("step") is None:
        return None
    return Progress(
        step=int(reported["step"]),
        steps=int(reported.get("steps") or 0),
        epoch=_number(reported.get("epoch")),
        loss=_number(reported.get("loss")),
        accuracy=_number(reported.get("accuracy")),
        steps_per_second=_number(reported.get("steps_per_second")),
        nan_since=None if reported.get("nan_since") is None else int(reported["nan_since"]),
    )


def further(told: Progress | None, written: Progress | None) -> Progress | None:
    """Return the later progress of the ledger and metrics.json. Only metrics.json has the last steps of a short run.
    The last report of a program may lack values of earlier ones."""
    if told is None or written is None or written.step <= told.step:
        return told or written
    nan_since = written.nan_since
    if nan_since is None and written.loss is not None and not math.isfinite(written.loss):
        nan_since = written.step if told.nan_since is None else told.nan_since
    return replace(
        written, steps=written.steps or told.steps, epoch=written.epoch or told.epoch, nan_since=nan_since
    )


def objective_in(
    job: Mapping[str, Any], reported: Point | None, metrics: Mapping[str, Any]
) -> tuple[str, float] | None:
    """Return the metric in the job's `objective` with its last value; None if the job names no metric, or
    the program has not reported it. metrics.json is newer than the ledger."""
    name = (job.get("objective") or {}).get("metric")
    if name is None or name in SAMPLED:
        return None
    value = metrics.get(name, reported.value if reported else None)
    return (name, float(value)) if isinstance(value, int | float) else None


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
