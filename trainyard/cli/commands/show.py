"""Show a run: states, hosts, curve and cost."""

from __future__ import annotations

from typing import Annotated

import typer

from trainyard.cli.arguments import Run
from trainyard.cli.command import command
from trainyard.cli.options import Options


@command("trainyard show @last", "trainyard show digits --watch")
def show(
    options: Options,
    run: Run,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Keep the view current until the run ends.")
    ] = False,
) -> None:
    """Show a run: states, hosts, curve and cost. Show a study with its trials."""
    from trainyard.cli import following, runs
    from trainyard.cli.output import report, screen, study, terminal

    yard = options.find()
    found = runs.find(yard, run)
    if watch:
        following.attach(options, found, logs=False)
    elif found.workflow == "study":
        study.show(options, yard, found)
    elif options.is_json:
        terminal.answer({**report.as_json(found.status()), "summary": found.summary or None})
    else:
        screen.show_once(found.status())
        if not options.quiet:
            report.outcome(found)
