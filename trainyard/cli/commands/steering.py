"""A run that there is, taken further: stopped, resumed, run again with other arguments."""

from __future__ import annotations

from typing import Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.commands.jobs import Changes, Labels, Name
from trainyard.cli.commands.looking import Run
from trainyard.cli.options import Options

Detach = Annotated[bool, typer.Option("--detach", "-d", help="Return once it has begun.")]


def register(app: typer.Typer) -> None:
    command(app, "stop", "trainyard stop digits", "trainyard stop @last --now")(stop)
    command(
        app, "resume", "trainyard resume digits-1a2b3c4d", "trainyard resume @last --set limits.hours=12"
    )(resume)
    command(
        app, "rerun", "trainyard rerun digits --set args.lr=0.01", "trainyard rerun @last --name wide -d"
    )(rerun)


def stop(
    options: Options,
    run: Run,
    now: Annotated[bool, typer.Option("--now", help="At once, without a checkpoint.")] = False,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return once it is asked to.")] = False,
) -> None:
    """Stop a run, which saves first.

    Its hosts save a checkpoint and leave; it ends as `stopped`, and resume goes on from there. Twice is fine.
    """
    from trainyard.cli import following, runs
    from trainyard.cli.output import terminal

    found = runs.find(options.find(), run)
    if not found.execution.is_over:
        found.stop(now=now)
        if detach:
            following.asked_to_stop(options, found)
            return
        following.until_over(options, found)
    reason = found.reason()
    if options.is_json:
        terminal.answer({"run": found.id, "kind": reason.kind, "says": [*reason.lines]})
        return
    terminal.console.print("\n".join(reason.lines), markup=False)
    if not options.quiet:
        for line in reason.advice:
            terminal.hint(f"Next: {line}")


def resume(options: Options, run: Run, changes: Changes = None, detach: Detach = False) -> None:
    """Go on from a run's last checkpoint.

    That is a new run of the same job, changed where --set says so.
    """
    again(options, run, changes, resumes=True, detach=detach)


def rerun(
    options: Options,
    run: Run,
    changes: Changes = None,
    name: Name = None,
    label: Labels = None,
    detach: Detach = False,
) -> None:
    """Run the job of a run again, from the beginning.

    With other arguments where --set says so.
    """
    again(options, run, changes, name=name, labels=label, resumes=False, detach=detach)


def again(
    options: Options,
    run: str,
    changes: list[str] | None,
    *,
    resumes: bool,
    detach: bool,
    name: str | None = None,
    labels: list[str] | None = None,
) -> None:
    from trainyard.cli import following, runs
    from trainyard.cli.commands.jobs import pairs, parsed

    yard = options.find()
    found = runs.find(yard, run)
    job = yard.job_of(
        found.id, set=parsed(changes), name=name, labels=dict(pairs(labels, "--label")), resume=resumes
    )
    following.begun(options, yard.run(yard.upload(job).run), detach=detach)
