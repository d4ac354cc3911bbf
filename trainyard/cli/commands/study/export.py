"""Write the trials of a study into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainyard.cli.arguments import StudyId
from trainyard.cli.command import command
from trainyard.cli.options import Options


@command("trainyard study export digits --csv digits.csv", "trainyard study export digits --optuna digits.db")
def export(
    options: Options,
    study: StudyId,
    csv: Annotated[
        Path | None,
        typer.Option("--csv", metavar="FILE", readable=False, help="Write a table, a row for each trial."),
    ] = None,
    optuna: Annotated[
        Path | None,
        typer.Option(
            "--optuna",
            metavar="FILE",
            readable=False,
            help="Write a SQLite database that optuna.load_study and optuna-dashboard read.",
        ),
    ] = None,
) -> None:
    """Write the trials of a study into a file, as a table or for Optuna.

    --optuna needs Optuna on this computer: pip install 'trainyard[optuna]'.
    """
    from trainyard.cli import runs
    from trainyard.cli.output import terminal
    from trainyard.client import study_export
    from trainyard.values.quantities import format_count

    if (csv is None) == (optuna is None):
        raise typer.BadParameter("give either --csv FILE or --optuna FILE")
    found = runs.find_study(options.find(), study)
    file = csv or optuna
    assert file
    count = study_export.write_csv(found, file) if csv else study_export.write_optuna(found, file)
    if options.is_json:
        terminal.answer({"study": found.id, "file": str(file), "trials": count})
    elif not options.quiet:
        terminal.console.print(f"{file} has {format_count(count, 'trial')} of {found.id}.", markup=False)
