"""Follow a run: print its ID at once, then its progress, then how it ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer

from trainyard.cli.output import report, screen, study, terminal
from trainyard.client.errors import RunFailed
from trainyard.client.runs.reasons import Reason
from trainyard.command_line import command_line
from trainyard.core.model import states as state_words
from trainyard.exit_codes import ExitCode

if TYPE_CHECKING:
    from trainyard.cli.options import Options
    from trainyard.client import Run

LOOK_SECONDS = 1.0


def follow_new(options: Options, run: Run, *, detach: bool, logs: bool, sent: tuple[str, ...] = ()) -> None:
    """Print the run's ID, then follow the run unless the user detaches. With `logs`, show its program's output."""
    if options.is_json:
        terminal.answer_line({"run": run.id, "sent": [*sent]})
    else:
        terminal.console.print(run.id, markup=False)
    try:
        run.wait_for_start()
        if not detach:
            attach(options, run, logs=logs)
        elif not options.quiet:
            terminal.hint(f"Next: {command_line('show', run.id, '--watch')}")
    except KeyboardInterrupt:
        print_how_to_return(run)


def attach(options: Options, run: Run, *, logs: bool) -> None:
    """Follow an existing run. Ctrl-C does not stop the run."""
    try:
        if run.workflow == "study":
            study.follow(options, run.yard, run)
        else:
            follow(options, run, logs=logs)
    except KeyboardInterrupt:
        print_how_to_return(run)


def follow(options: Options, run: Run, *, logs: bool) -> None:
    """Show the run until it ends. Raises RunFailed unless it succeeded."""
    if options.is_json:
        for status in run.follow():
            terminal.answer_line(report.as_json(status))
        run.result()
        return
    if options.quiet:
        run.result()
        return
    has_printed = False
    if logs:
        status, has_printed = screen.watch(run.watch())
    else:
        status = screen.show(run.follow())
    try:
        run.result()
    except RunFailed as failed:
        if status.hosts:
            report.print_report(run, status, with_last_lines=False)
        if not has_printed:
            raise
        raise _without_log(failed, run.reason()) from None
    report.print_report(run, status, with_last_lines=not has_printed)
    for line in run.reason().advice:
        terminal.hint(f"Next: {line}")


def _without_log(failed: RunFailed, reason: Reason) -> RunFailed:
    """Return the error for a user who has seen the whole output of the program."""
    step = "; ".join(reason.beyond_logs) or "correct the program, and submit it again"
    return type(failed)(failed.what.partition("\n")[0], failed.means, step)


def wait_for_end(options: Options, run: Run) -> None:
    """Wait for the end of a run that is stopping. Ctrl-C ends only the wait."""
    try:
        if options.quiet or not terminal.beside.is_terminal:
            run.wait()
            return
        with terminal.beside.status(f"{run.id}: Saving ...") as spinner:
            while not run.execution.is_over:
                states = run.states
                spinner.update(f"{run.id}: {state_words.word_for(states[-1].name) if states else 'Starting'}")
                time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:
        terminal.hint(f"\n{run.id} is stopping. Result: {command_line('why', run.id)}")
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def request_stop(options: Options, run: Run) -> None:
    if options.is_json:
        terminal.answer({"run": run.id, "kind": "stopping", "says": []})
    else:
        terminal.console.print(f"{run.id} is stopping.", markup=False)


def print_how_to_return(run: Run) -> None:
    """Print how to return to a run that continues after Ctrl-C."""
    terminal.hint(f"\n{run.id} continues.")
    terminal.hint(f"Watch it: {command_line('show', run.id, '--watch')}")
    terminal.hint(f"Its log:  {command_line('logs', run.id, '-f')}")
    terminal.hint(f"Stop it:  {command_line('stop', run.id)}")
    raise typer.Exit(ExitCode.INTERRUPTED)


def workflow(options: Options, run: Run, *, detach: bool = False) -> None:
    """Follow a bake, snapshot or rollback: print its ID, its states and its result. Raises RunFailed."""
    if options.is_json:
        terminal.answer_line({"run": run.id})
    else:
        terminal.console.print(run.id, markup=False)
    if detach:
        return
    try:
        screen.show_states(run, quiet=options.quiet or options.is_json)
    except KeyboardInterrupt:
        terminal.hint(f"\n{run.id} continues. Result: {command_line('image', 'ls')}")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    summary = run.result()
    if options.is_json:
        terminal.answer_line(summary)
    else:
        terminal.console.print(report.describe_image(run.execution, summary), markup=False)
