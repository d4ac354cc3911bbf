"""Continue a study that has ended."""

from __future__ import annotations

from typing import Annotated

import typer

from trainyard.cli.arguments import Detach, StudyId
from trainyard.cli.command import command
from trainyard.cli.options import Options


@command("trainyard study more digits --trials 20 --dollars 10")
def more(
    options: Options,
    study: StudyId,
    trials: Annotated[int, typer.Option("--trials", metavar="N", help="Number of further trials.", min=1)],
    dollars: Annotated[
        float,
        typer.Option("--dollars", metavar="D", help="The most that the further trials may cost together."),
    ],
    hours: Annotated[
        float | None,
        typer.Option(
            "--hours", metavar="H", help="Longest duration. Default: study.limits.hours of the job file."
        ),
    ] = None,
    detach: Detach = False,
) -> None:
    """Continue a study that ended or was stopped.

    Numbers continue, and earlier trials count. Only the owner of the study and operators may continue it.
    """
    from trainyard.cli import following, runs

    continued = runs.find_study(options.find(), study).more(trials, dollars, hours)
    following.follow_new(options, continued, detach=detach, logs=False)
