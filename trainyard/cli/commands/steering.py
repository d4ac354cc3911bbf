"""A run that there is, taken further: stopped, resumed, run again with other arguments."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from trainyard.cli.command import command
from trainyard.cli.commands.jobs import Changes, Labels, Name, NoLogs
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


def resume(
    options: Options,
    run: Run,
    changes: Changes = None,
    force: Annotated[bool, typer.Option("--force", help="Resume a run that has finished.")] = False,
    detach: Detach = False,
    no_logs: NoLogs = False,
) -> None:
    """Continue from a run's last checkpoint, or with its outputs if it has none.

    This is a new run of the same job, changed by --set. A run that has not ended is refused, and so is a finished run
    unless --set changes its arguments.
    """
    again(options, run, changes, resumes=True, force=force, detach=detach, logs=not no_logs)


def rerun(
    options: Options,
    run: Run,
    changes: Changes = None,
    name: Name = None,
    label: Labels = None,
    detach: Detach = False,
    no_logs: NoLogs = False,
) -> None:
    """Run the job of a run again, from step 0.

    With other arguments if --set names them. A resumed run starts at step 0, too.
    """
    again(options, run, changes, name=name, labels=label, resumes=False, detach=detach, logs=not no_logs)


def again(
    options: Options,
    run: str,
    changes: list[str] | None,
    *,
    resumes: bool,
    detach: bool,
    logs: bool,
    name: str | None = None,
    labels: list[str] | None = None,
    force: bool = False,
) -> None:
    """Start a new run of the run's job, and follow it."""
    from trainyard.cli import following, runs
    from trainyard.cli.commands.jobs import pairs, parsed
    from trainyard.cli.output import terminal
    from trainyard.client.errors import RunFinished

    yard = options.find()
    found = runs.find(yard, run)
    asked: dict[str, Any] = {"set": parsed(changes), "name": name, "labels": dict(pairs(labels, "--label"))}
    try:
        job = yard.job_of(found.id, **asked, resume=resumes, force=force)
    except RunFinished as finished:
        if options.is_json or options.quiet or not sys.stdin.isatty():
            raise
        terminal.note(f"{finished.what}: {finished.means}.")
        typer.confirm("Resume it all the same?", abort=True)
        job = yard.job_of(found.id, **asked, resume=resumes, force=True)
    before = (found.json("job.json").get("checkpoints") or {}).get("resume")
    if before and not resumes and not options.quiet:
        terminal.note(f"{found.id} was resumed from {before}; this run starts at step 0.")
    following.begun(options, yard.run(yard.upload(job).run), detach=detach, logs=logs)
