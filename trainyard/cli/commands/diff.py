"""Compare runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from trainyard.cli.arguments import MetricName, Runs
from trainyard.cli.command import command
from trainyard.cli.options import Options

if TYPE_CHECKING:
    from trainyard.client.comparison import Comparison


@command(
    "trainyard diff digits-1a2b3c4d digits-5e6f7a8b",
    "trainyard diff @last wide --metric val_accuracy",
    "trainyard diff @last wide -o json",
)
def diff(options: Options, runs: Runs, metric: MetricName = "loss") -> None:
    """Compare runs: arguments, metrics, cost.

    Show only the differences between their jobs, and their curves of a metric in one plot.
    """
    from trainyard.cli import runs as known
    from trainyard.cli.output import terminal
    from trainyard.client.comparison import Comparison, side_of
    from trainyard.client.errors import MetricNotFound

    if len(runs) < 2:
        raise typer.BadParameter("name at least two runs")
    yard = options.find()
    found = Comparison.of([side_of(known.find(yard, each)) for each in runs])
    curves = found.curves(metric)
    if not curves and metric != "loss":
        raise MetricNotFound.of(metric, found.metrics, *(side.run for side in found.sides))
    if options.is_json:
        sides = {"runs": [side.run for side in found.sides], "metric": metric}
        terminal.answer(
            {**sides, "curves": curves, "differences": found.differences, "figures": found.figures}
        )
    else:
        _show(found, metric)


def _show(found: Comparison, metric: str) -> None:
    from trainyard.cli.output import curve, terminal
    from trainyard.cli.output.terminal import Column
    from trainyard.core.model import ends

    columns = [Column(""), *(Column(side.run, right=True) for side in found.sides)]
    different = [(key, *map(_value, values)) for key, values in found.differences.items()]
    figures = [
        (key, *map(ends.word_for if key == "outcome" else _value, values))
        for key, values in found.figures.items()
        if any(v is not None for v in values)
    ]
    rows = [*different, *figures]
    terminal.table(columns, rows, [*["bold"] * len(different), *[""] * len(figures)])
    drawn = curve.overlaid(found.curves(metric), room=terminal.console.width, metric=metric)
    if drawn:
        terminal.console.print(drawn, markup=False, soft_wrap=True)


def _value(value: Any) -> str:
    from trainyard.values import floats

    if value is None:
        return "-"
    if isinstance(value, float):
        return floats.format_float(value, ".4g")
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
