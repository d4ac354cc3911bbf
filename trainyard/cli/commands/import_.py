"""Convert a job of another launcher into a job file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.options import Options
from trainyard.command_line import command_line

STDOUT = Path("-")


@command(
    "trainyard import task.yaml",
    "trainyard import train.sbatch --to train.yaml",
    "trainyard import create-training-job.json --to -",
    "trainyard import search.py --to study.yaml",
)
def import_(
    options: Options,
    file: Annotated[Path, typer.Argument(metavar="FILE", readable=False, help="File of the other launcher.")],
    to: Annotated[
        Path | None,
        typer.Option(
            "--to", metavar="JOB", readable=False, help="Job file to write; - prints it. Default: NAME.yaml."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing job file.")] = False,
) -> None:
    """Convert a job of another launcher into a job file.

    Reads a SkyPilot task, a dstack task, a SageMaker CreateTrainingJob request or estimator call (in a Python file or a
    notebook), a Slurm batch script, an AWS Batch job definition, and an Azure Batch AI job. A SageMaker
    CreateHyperParameterTuningJob request or tuner, and the search space of a script for Optuna or Ray Tune, become a
    study. Each item without a counterpart becomes a comment in the job file. Sends nothing.
    """
    from trainyard.cli.output import terminal
    from trainyard.client.importing import kinds

    draft = kinds.import_file(file)
    text = draft.text(
        f"Imported from {file.name} ({draft.launcher}). Items that differ or have no counterpart:"
    )
    target = to or Path(f"{draft.job['name']}.yaml")
    if target == STDOUT:
        typer.echo(text, nl=False)
        return
    kinds.write(text, target, force=force)
    faults = kinds.faults_of(target)
    if options.is_json:
        notes = [{"line": note.line, "item": note.item, "reason": note.reason} for note in draft.notes]
        terminal.answer({"job": str(target), "launcher": draft.launcher, "notes": notes, "faults": faults})
        return
    terminal.console.print(f"{target}: imported from {file} ({draft.launcher})", markup=False)
    for note in draft.notes:
        terminal.console.print(f"  {note}", markup=False)
    for fault in faults:
        terminal.console.print(f"  to correct: {fault}", markup=False)
    if not options.quiet:
        terminal.hint(f"Next: {command_line('check' if faults else 'plan', target)}")
