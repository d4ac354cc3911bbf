"""Start a run of a job, and follow it."""

from __future__ import annotations

from typing import Annotated

import typer

from trainyard.cli.arguments import (
    Changes,
    File,
    Labels,
    Name,
    NoLogs,
    Parameters,
    Source,
    Types,
    pairs,
    read_options,
)
from trainyard.cli.command import command
from trainyard.cli.commands.check import uploads_of
from trainyard.cli.options import Options
from trainyard.core.model.schedule import When


@command(
    "trainyard submit job.yaml",
    "trainyard submit job.yaml --set args.lr=.5 --name sweep -d",
    "trainyard submit job.yaml --resume digits-1a2b3c4d",
    "trainyard submit evaluate.yaml --after @last --when end",
    "trainyard submit job.yaml --container nvcr.io/nvidia/tensorflow:25.02-tf2-py3",
    "trainyard submit train.ipynb -p epochs=3 --type g5.xlarge",
)
def submit(
    options: Options,
    job: File,
    changes: Changes = None,
    name: Name = None,
    label: Labels = None,
    parameter: Parameters = None,
    source: Source = None,
    type: Types = None,  # noqa: A002 - the name of the option
    container: Annotated[
        str | None,
        typer.Option("--container", metavar="IMAGE", help="Container image to run the program in."),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="RUN", help="Continue from this run's last checkpoint or outputs."),
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option("--after", metavar="RUN", help="Start after this run. Repeat it for more runs."),
    ] = None,
    when: Annotated[
        When | None,
        typer.Option("--when", help="The end of the --after runs that starts the run. Default: success."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Submit a job that is known to fail.")] = False,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return once the run has started.")] = False,
    no_logs: NoLogs = False,
) -> None:
    """Start a run of a job, or of a notebook, and follow it.

    Sends the job file's source folder and local data, unless the bucket already has them. Prints the run's ID at once,
    then the output of the program on the chief. Ctrl-C does not stop the run. A job with a schedule starts no run now,
    and the command prints the next times.
    """
    from trainyard.cli import following, runs
    from trainyard.cli.output import terminal
    from trainyard.client.jobs.source import read
    from trainyard.client.yard import changes as changed_keys

    if when and not after:
        raise typer.BadParameter(
            f"--when needs --after RUN; for start_after.runs in the job file: --set start_after.when={when}"
        )
    set_ = read_options(job, changes, parameter, source, type)
    if container is not None:
        set_["program.container"] = container
    yard = options.find()
    resumed = runs.find(yard, resume).id if resume else None
    awaited = [runs.find(yard, each).id for each in after or ()]
    labels = dict(pairs(label, "--label"))
    asked = changed_keys(set_, name, labels, resumed, awaited, when.value if when else None)
    local = read(job, changes=asked, to=yard.destination)
    if not force:
        local.check_known_failures()
    for each in local.job.start_after.runs if local.job.start_after and not after else ():
        runs.find(yard, each)  # Admit would wait a minute for a run that does not exist
    if from_run := local.job.checkpoints.resume:
        yard.check_ended(from_run)
    if not options.quiet:
        for line in (*uploads_of(local), *local.notes, *(f"Warning: {each}" for each in local.warnings)):
            terminal.hint(line)
    with terminal.transfers(options.quiet) as on_progress:
        uploaded = yard.upload(local, on_progress)
    if local.job.schedule:
        from trainyard.cli import schedules

        schedules.print_made(options, yard.await_schedule(local, uploaded))
        return
    run = yard.run(uploaded.run, local.workflow)
    following.follow_new(options, run, detach=detach, logs=not no_logs, sent=uploaded.sent)
