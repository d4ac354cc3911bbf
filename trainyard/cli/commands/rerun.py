"""Run the job of a run again."""

from __future__ import annotations

import sys
from typing import Any

import typer

from trainyard.cli.arguments import Changes, Detach, Labels, Name, NoLogs, Run, pairs, parse_changes
from trainyard.cli.command import command
from trainyard.cli.options import Options


@command("trainyard rerun digits --set args.lr=0.01", "trainyard rerun @last --name wide -d")
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

    --set changes its arguments. A resumed run starts at step 0, too.
    """
    start_again(
        options, run, changes, name=name, labels=label, resumes=False, detach=detach, logs=not no_logs
    )


def start_again(
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
    """Start a new run of an earlier run's job, and follow it."""
    from trainyard.cli import following, runs
    from trainyard.cli.output import terminal
    from trainyard.client.errors import RunFinished

    yard = options.find()
    found = runs.find(yard, run)
    changed: dict[str, Any] = {
        "set": parse_changes(changes),
        "name": name,
        "labels": dict(pairs(labels, "--label")),
    }
    try:
        job = yard.job_of(found.id, **changed, resume=resumes, force=force)
    except RunFinished as finished:
        if options.is_json or options.quiet or not sys.stdin.isatty():
            raise
        terminal.note(f"{finished.what}: {finished.means}.")
        typer.confirm("Resume it anyway?", abort=True)
        job = yard.job_of(found.id, **changed, resume=resumes, force=True)
    before = (found.json("job.json").get("checkpoints") or {}).get("resume")
    if before and not resumes and not options.quiet:
        terminal.note(f"{found.id} was resumed from {before}; this run starts at step 0.")
    following.follow_new(options, yard.run(yard.upload(job).run), detach=detach, logs=logs)
