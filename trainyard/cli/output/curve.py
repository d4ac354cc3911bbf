"""Draw a metric over the steps with characters, in a few lines and without colours."""

import math
from collections.abc import Mapping, Sequence

import plotille

from trainyard.client.runs.metric_points import Loss

HEIGHT = 8
WIDTHS = range(10, 101)
MARGIN = 24
"""Characters that the axis and its labels take."""
LETTERS = "abcdefghij"


def draw_curve(samples: Sequence[Loss], *, room: int, height: int = HEIGHT, metric: str = "loss") -> str:
    """Draw the curve in lines of at most `room` characters. Return an empty text for fewer than two steps."""
    curve = passed_once(samples)
    if len(curve) < 2:
        return ""
    figure = _figure([curve], room, height, metric)
    figure.plot([float(step) for step, _ in curve], [loss for _, loss in curve])
    return _lines(figure)


def overlaid(
    runs: Mapping[str, Sequence[Loss]], *, room: int, height: int = HEIGHT, metric: str = "loss"
) -> str:
    """Draw the curves of several runs in one figure, each with a letter of its own. The letters take turns along the
    steps, so that no curve hides another. Return an empty text if no curve has two points."""
    curves = {run: curve for run, samples in runs.items() if len(curve := passed_once(samples)) > 1}
    if not curves:
        return ""
    figure = _figure([*curves.values()], room, height, metric)
    begin, end = min(curve[0][0] for curve in curves.values()), max(curve[-1][0] for curve in curves.values())
    grid = [begin + (end - begin) * (place + 0.5) / figure.width for place in range(figure.width)]
    for turn, (letter, curve) in enumerate(zip(LETTERS, curves.values(), strict=False)):
        steps = [step for step in grid[turn :: len(curves)] if curve[0][0] <= step <= curve[-1][0]]
        figure.scatter(
            steps or [curve[0][0]],
            [interpolate(curve, step) for step in steps or [curve[0][0]]],
            marker=letter,
        )
    names = "  ".join(f"{letter}: {run}" for letter, run in zip(LETTERS, curves, strict=False))
    return f"{_lines(figure)}\n{names}"


def passed_once(samples: Sequence[Loss]) -> list[Loss]:
    """Return the finite samples by step. If an attempt repeats a step, its sample replaces the earlier one."""
    kept: list[Loss] = []
    for sample in samples:
        if not math.isfinite(sample[1]):
            continue
        while kept and kept[-1][0] >= sample[0]:
            kept.pop()
        kept.append(sample)
    return kept


def interpolate(curve: Sequence[Loss], step: float) -> float:
    """Interpolate the value at a step linearly."""
    after = next((index for index, sample in enumerate(curve) if sample[0] >= step), len(curve) - 1)
    (left, before), (right, then) = curve[max(after - 1, 0)], curve[after]
    return then if right == left else before + (then - before) * (step - left) / (right - left)


def _figure(curves: Sequence[Sequence[Loss]], room: int, height: int, metric: str) -> plotille.Figure:
    values = [value for curve in curves for _, value in curve]
    lowest, highest = min(0.0, *values), max(0.0, *values)
    figure = plotille.Figure()
    figure.width = min(max(room - MARGIN, WIDTHS.start), WIDTHS.stop - 1)
    figure.height = height
    figure.x_label, figure.y_label = "step", metric
    figure.with_colors = figure.origin = False
    figure.x_ticks_fkt = lambda mark, _: f"{mark:.0f}"
    figure.y_ticks_fkt = lambda mark, _: f"{mark:.3g}"
    figure.set_x_limits(min_=min(curve[0][0] for curve in curves), max_=max(curve[-1][0] for curve in curves))
    figure.set_y_limits(min_=lowest, max_=highest if highest > lowest else 1.0)
    return figure


def _lines(figure: plotille.Figure) -> str:
    return "\n".join(line.rstrip(" ⠀") for line in figure.show().splitlines())
