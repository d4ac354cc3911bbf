"""Parallel coordinates of a study: an axis for each parameter and for the metric, a line for each ended trial. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from trainyard.core.model.program import Scalar
from trainyard.core.model.study import Parameter, Study
from trainyard.protocol.ledger.study import DrawnBy, TrialRow, TrialState

MOST_LINES = 500
HEIGHT = 1000
"""The height and the width of the drawing in its own units. The page stretches it."""
UNUSED = -0.12
"""The position of a trial that leaves the parameter out, below the axis."""
SPAN = 20
"""Positive values whose highest is at least this many times the lowest are drawn by order of magnitude."""
GOOD_PARTS = 4
"""The best quarter of the complete trials is drawn as good."""


@dataclass(frozen=True)
class Tick:
    """A value beside an axis."""

    text: str
    height: float
    """The position in percent from the top."""


@dataclass(frozen=True)
class Axis:
    """A parameter, or the metric."""

    name: str
    left: float
    """The position in percent from the left."""
    ticks: tuple[Tick, ...]


@dataclass(frozen=True)
class Line:
    """A trial. `kind` is `best`, `good`, `rest`, `stopped` or `failed`."""

    number: int
    kind: str
    points: str
    title: str


@dataclass(frozen=True)
class Drawing:
    """The axes, and the lines from the worst trial to the best one, which lies above the others."""

    axes: tuple[Axis, ...]
    lines: tuple[Line, ...]
    left_out: int
    """The number of trials without a line."""


def draw(section: Study, trials: Sequence[TrialRow]) -> Drawing | None:
    """Return the drawing, or None before the first trial has ended with an answer."""
    ranked = _ranked(section, trials)
    if not ranked:
        return None
    shown = ranked[:MOST_LINES]
    complete = [each for each in shown if each.state is TrialState.COMPLETE]
    values = [each.value for each in complete if each.value is not None]
    ends = (min(values), max(values)) if values else (0.0, 0.0)
    metric = Axis(section.objective.metric, 100.0, _ticks_of_metric(ends))
    width = len(section.parameters)
    axes = tuple(
        Axis(path.partition(".")[2], 100 * index / width, _ticks(parameter))
        for index, (path, parameter) in enumerate(section.parameters.items())
    )
    lines = [
        Line(
            number=each.number,
            kind=_kind(each, index, len(complete)),
            points=_points(section, each, ends),
            title=_title(section, each),
        )
        for index, each in enumerate(shown)
    ]
    return Drawing((*axes, metric), tuple(reversed(lines)), len(ranked) - len(shown))


def position(parameter: Parameter, value: Scalar | None) -> float:
    """Return the position of a value on its axis, from 0 (below) to 1."""
    if value is None:
        return UNUSED
    if parameter.choice:
        values = list(parameter.choice)
        return values.index(value) / (len(values) - 1) if value in values else UNUSED
    assert parameter.interval, "a parameter has a choice or an interval"
    low, high = parameter.interval
    found = min(max(float(value), low), high)
    return log(found / low) / log(high / low) if parameter.log else (found - low) / (high - low)


def _ranked(section: Study, trials: Sequence[TrialRow]) -> list[TrialRow]:
    """Return the trials that are answers, the best first: complete, stopped, and failed ones. The retraining has other
    arguments than the trials."""
    order = [TrialState.COMPLETE, TrialState.STOPPED, TrialState.FAILED]
    sign = -1.0 if section.objective.is_better(1.0, 0.0) else 1.0

    def key(row: TrialRow) -> tuple[int, int, float, int]:
        is_complete = row.state is TrialState.COMPLETE
        reached = 0 if is_complete else -(row.step or 0)
        return order.index(row.state), reached, sign * (row.value or 0.0), row.number

    return sorted(
        (row for row in trials if row.state.is_answer and row.drawn_by is not DrawnBy.RETRAIN), key=key
    )


def _kind(row: TrialRow, index: int, complete: int) -> str:
    if row.state is not TrialState.COMPLETE:
        return row.state.value
    return "best" if index == 0 else "good" if index < complete / GOOD_PARTS else "rest"


def _points(section: Study, row: TrialRow, ends: tuple[float, float]) -> str:
    """Return the points of the line. A trial that is not complete ends before the axis of the metric."""
    width = len(section.parameters)
    heights = [position(each, row.values.get(path)) for path, each in section.parameters.items()]
    if row.state is TrialState.COMPLETE and row.value is not None:
        heights.append(_on_metric(row.value, ends))
    points = [f"{HEIGHT * index / width:.0f},{_down(height):.0f}" for index, height in enumerate(heights)]
    if len(points) == 1:  # a line has two points
        points.append(f"{HEIGHT / 10:.0f},{_down(heights[0]):.0f}")
    return " ".join(points)


def spans_magnitudes(values: Sequence[float]) -> bool:
    """Return True if the values need an axis by order of magnitude."""
    return bool(values) and min(values) > 0 and max(values) >= SPAN * min(values)


def _on_metric(value: float, ends: tuple[float, float]) -> float:
    low, high = ends
    if spans_magnitudes(ends):
        return log(value / low) / log(high / low)
    return (value - low) / (high - low) if high > low else 0.5


def _down(height: float) -> float:
    return HEIGHT * (1 - height)


def _ticks(parameter: Parameter) -> tuple[Tick, ...]:
    values = parameter.choice or parameter.interval or ()
    return tuple(Tick(_short(value), 100 * (1 - position(parameter, value))) for value in values)


def _ticks_of_metric(ends: tuple[float, float]) -> tuple[Tick, ...]:
    return tuple(Tick(_short(value), 100 * (1 - _on_metric(value, ends))) for value in dict.fromkeys(ends))


def _title(section: Study, row: TrialRow) -> str:
    values = ", ".join(f"{path.partition('.')[2]} {_short(value)}" for path, value in row.values.items())
    value = "" if row.value is None else f" {section.objective.metric} {_short(row.value)}"
    return f"Trial {row.number}, {row.state}:{value} {values}"


def _short(value: Scalar) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
