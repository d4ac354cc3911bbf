"""Show a run: states, hosts, curves and cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.cli.arguments import Run
from trainyard.cli.command import command
from trainyard.cli.options import Options

if TYPE_CHECKING:
    from trainyard.client import Run as FoundRun


@command(
    "trainyard show @last",
    "trainyard show digits --watch",
    "trainyard show @last --metric val_loss --metric val_accuracy",
)
def show(
    options: Options,
    run: Run,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Keep the view current until the run ends.")
    ] = False,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Draw only the curve of this metric (several times for several)."),
    ] = None,
) -> None:
    """Show a run: states, hosts, curve and cost. Show a study with its trials."""
    from trainyard.cli import following, runs
    from trainyard.cli.output import report, screen, study, terminal

    yard = options.find()
    found = runs.find(yard, run)
    if metric and watch:
        raise typer.BadParameter("--watch draws no metrics: leave out --metric or --watch")
    if metric:
        _draw(options, found, metric)
    elif watch:
        following.attach(options, found, logs=False)
    elif found.workflow == "study":
        study.show(options, yard, found)
    elif options.is_json:
        terminal.answer({**report.as_json(found.status()), "summary": found.summary or None})
    else:
        screen.show_once(found.status())
        if not options.quiet:
            report.outcome(found)


def _draw(options: Options, run: FoundRun, metrics: list[str]) -> None:
    """Draw the curves of metrics, or print their points."""
    from trainyard.cli.output import screen, terminal

    curves = run.curves(*metrics)
    if options.is_json:
        terminal.answer({"run": run.id, "metrics": curves})
    else:
        for name, points in curves.items():
            screen.draw_metric(name, points)
