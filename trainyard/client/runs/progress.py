"""How far a program is, and the curves of what it measures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from trainyard.values import floats

Loss = tuple[int, float]
"""(step, loss)."""
MEASURES = ("accuracy", "steps_per_second")
"""What samples of metrics.json may have beside the loss."""


@dataclass(frozen=True)
class Progress:
    """How far the program is. `steps` is 0 if the program does not tell how many there are. A number that it does not
    report is None. `nan_since` is the step since which its loss has been NaN or infinite."""

    step: int
    steps: int
    epoch: float | None = None
    loss: float | None = None
    accuracy: float | None = None
    steps_per_second: float | None = None
    nan_since: int | None = None

    @property
    def warning(self) -> str:
        """One sentence about a loss that is no number; empty for any other."""
        if self.loss is None or self.nan_since is None:
            return ""
        return f"Its loss has been {floats.shown(self.loss, '.4g')} since step {self.nan_since}."

    def numbers(self, loss: str = ".4f") -> tuple[str, ...]:
        """Return what the program measures, in words. `loss` is the format of the loss."""
        since = f" since step {self.nan_since}" if self.nan_since is not None else ""
        return (
            *([f"loss {floats.shown(self.loss, loss)}{since}"] if self.loss is not None else []),
            *([f"accuracy {floats.shown(self.accuracy, '.3f')}"] if self.accuracy is not None else []),
            *([f"{self.steps_per_second:.1f} steps/s"] if self.steps_per_second else []),
        )

    def reached(self, of: str = "/") -> str:
        """The step, and of how many."""
        return f"{self.step}{of}{self.steps}" if self.steps else f"{self.step}"


def progress_in(reported: Mapping[str, Any] | None) -> Progress | None:
    """Return what the ledger or metrics.json has; None before the program has reported a step."""
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
    """The later of what the ledger was told and what metrics.json has: a short run tells of its last steps there alone.
    What a program writes at its end need not say all that it has told."""
    if told is None or written is None or written.step <= told.step:
        return told or written
    nan_since = written.nan_since
    if nan_since is None and written.loss is not None and not math.isfinite(written.loss):
        nan_since = written.step if told.nan_since is None else told.nan_since
    return replace(
        written, steps=written.steps or told.steps, epoch=written.epoch or told.epoch, nan_since=nan_since
    )


def losses_in(metrics: Mapping[str, Any]) -> Iterator[Loss]:
    """The samples of metrics.json, which the chief's agent keeps; a program need not report a loss."""
    for sample in metrics.get("samples", []):
        if sample.get("step") is not None and sample.get("loss") is not None:
            yield int(sample["step"]), float(sample["loss"])


def measures_in(metrics: Mapping[str, Any]) -> dict[str, tuple[Loss, ...]]:
    """Return (step, value) of each measure beside the loss that metrics.json has."""
    found = {}
    for name in MEASURES:
        samples = [each for each in metrics.get("samples", []) if each.get("step") is not None]
        if values := tuple(
            (int(each["step"]), float(each[name])) for each in samples if each.get(name) is not None
        ):
            found[name] = values
    return found


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
