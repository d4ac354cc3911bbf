"""A run from its submission on: its id at once, then what it does, then how it ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer

from trainyard.cli.failures import Code
from trainyard.cli.output import report, screen, terminal
from trainyard.command_line import command_line

if TYPE_CHECKING:
    from trainyard.cli.options import Options
    from trainyard.client import Run

LOOK_SECONDS = 1.0


def begun(options: Options, run: Run, *, detach: bool, sent: tuple[str, ...] = ()) -> None:
    """Say the run's id; then follow it, unless one detaches."""
    if options.is_json:
        terminal.answer_line({"run": run.id, "sent": [*sent]})
    else:
        terminal.console.print(run.id, markup=False)
    try:
        run.started()
        if not detach:
            attached(options, run)
        elif not options.quiet:
            terminal.hint(f"Next: {command_line('show', run.id, '--watch')}")
    except KeyboardInterrupt:
        left_alone(run)


def attached(options: Options, run: Run) -> None:
    """The same of a run that there is; Ctrl-C leaves it alone."""
    try:
        follow(options, run)
    except KeyboardInterrupt:
        left_alone(run)


def follow(options: Options, run: Run) -> None:
    """Show it until it is over. Raises RunFailed unless it succeeded."""
    if options.is_json:
        for status in run.follow():
            terminal.answer_line(report.as_json(status))
        run.result()
        return
    if options.quiet:
        run.result()
        return
    status = screen.show(run.follow())
    run.result()
    report.ended(run, status)


def until_over(options: Options, run: Run) -> None:
    """Wait for the end of a run that was asked to stop. Ctrl-C leaves it to that."""
    try:
        if options.quiet or not terminal.beside.is_terminal:
            run.wait()
            return
        with terminal.beside.status(f"{run.id} saves and leaves ...") as spinner:
            while not run.execution.is_over:
                states = run.states
                spinner.update(f"{run.id} saves and leaves: {states[-1].name if states else 'Starting'}")
                time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:
        terminal.hint(f"\n{run.id} is asked to stop. How it ended: {command_line('why', run.id)}")
        raise typer.Exit(Code.INTERRUPTED) from None


def asked_to_stop(options: Options, run: Run) -> None:
    if options.is_json:
        terminal.answer({"run": run.id, "kind": "stopping", "says": []})
    else:
        terminal.console.print(f"{run.id} is asked to stop.", markup=False)


def left_alone(run: Run) -> None:
    """Ctrl-C ends the looking, not the run."""
    terminal.hint(f"\n{run.id} goes on.")
    terminal.hint(f"Come back: {command_line('show', run.id, '--watch')}")
    terminal.hint(f"Its log:   {command_line('logs', run.id, '-f')}")
    terminal.hint(f"End it:    {command_line('stop', run.id)}")
    raise typer.Exit(Code.INTERRUPTED)


def workflow(options: Options, run: Run, *, detach: bool = False) -> None:
    """A bake, a snapshot, a rollback: its id at once, its states as they come, what came of it. Raises RunFailed."""
    if options.is_json:
        terminal.answer_line({"run": run.id})
    else:
        terminal.console.print(run.id, markup=False)
    if detach:
        return
    try:
        screen.show_states(run, quiet=options.quiet or options.is_json)
    except KeyboardInterrupt:
        terminal.hint(f"\n{run.id} goes on; what came of it: {command_line('image', 'ls')}")
        raise typer.Exit(Code.INTERRUPTED) from None
    summary = run.result()
    if options.is_json:
        terminal.answer_line(summary)
    else:
        terminal.console.print(report.made(run.execution, summary), markup=False)
