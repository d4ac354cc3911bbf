"""A study on the terminal: its best trial, its limits, and a line for each trial."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from trainyard.cli.output import terminal
from trainyard.client.trials import STATES, Trials
from trainyard.command_line import command_line
from trainyard.core.jobfile import study_requests
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.ledger.study import Search, TrialRow
from trainyard.values import serialization
from trainyard.values.quantities import dollars, span

if TYPE_CHECKING:
    from trainyard.cli.options import Options
    from trainyard.client import ListedRun, Run, StudyTrial
    from trainyard.client.deployment import Deployment

LOOK_SECONDS = 2.0


def show(options: Options, yard: Deployment, run: Run) -> None:
    """Show a study once."""
    row, trials = yard.row(run.id), yard.trials(run.id)
    search = row.search if row else None
    if options.is_json:
        terminal.answer(as_json(run, trials, row))
        return
    word = row.outcome or row.state if row else run.execution.status
    warnings = [f"Warning: {each}" for each in row.warnings] if row else []
    reason = [row.reason] if row and row.reason else []
    for line in (f"{run.id}: {word}", *summary(search), *reason, *warnings):
        terminal.console.print(line, markup=False)
    if trials and search:
        terminal.table(columns(search.metric), [line_of(each, trials.study) for each in trials.trials])
    if not options.quiet:
        terminal.hint(f"Next: {_next(run, trials)}")


def follow(options: Options, yard: Deployment, run: Run) -> None:
    """Print a line for each trial that ends, until the study is over. Trials before a continuation are left out. Raises
    RunFailed unless the study succeeded."""
    printed = set[int]()
    while True:
        is_over, trials = run.execution.is_over, yard.trials(run.id)
        begun = trials.row.since if trials else 0
        for each in trials.ended if trials else ():
            if each.number > begun and each.number not in printed:
                printed.add(each.number)
                _print_end(options, each, run.id)
        if is_over:
            break
        time.sleep(LOOK_SECONDS)
    summary = run.result()
    if options.is_json:
        terminal.answer_line(summary)
    else:
        terminal.console.print(str(summary["reason"]), markup=False)


def summary(search: Search | None) -> list[str]:
    """Return the best trial and the use of the limits, in lines."""
    if search is None:
        return []
    done = f"{search.reported} of {search.trials} trials, {search.running} running"
    best = (
        f"best: trial {search.best} with {search.metric} {search.value:.6g}"
        if search.best
        else "no result yet"
    )
    return [f"{done}; {best}", f"{dollars(search.dollars)} of {dollars(search.most_dollars)}"]


def columns(metric: str) -> tuple[Any, ...]:
    from trainyard.cli.output.terminal import Column

    return (
        Column("TRIAL", 1),
        Column("STATE", 1),
        Column(metric.upper(), 1, right=True),
        Column("$", 2, right=True),
        Column("VALUES", 3),
        Column("WHY", 4),
    )


def line_of(trial: TrialRow, study: str) -> tuple[str, ...]:
    return (
        trial.run_of(study),
        STATES[trial.state],
        "" if trial.value is None else f"{trial.value:.6g}",
        dollars(trial.dollars) if trial.dollars is not None else "",
        study_requests.describe(trial.values),
        (trial.reason or "").partition("\n")[0],
    )


def best_in_lines(best: StudyTrial, retrained: StudyTrial | None, metric: str) -> list[str]:
    """Return the best trial, and the trial that retrained it, in lines."""
    row = best.row
    values = [f"  {path}: {value}" for path, value in row.values.items()]
    cost = f" for {dollars(row.dollars)}" if row.dollars is not None else ""
    lines = [f"Trial {row.number}: {metric} {row.value:.6g}{cost}", *values, f"Run: {best.run.id}"]
    if retrained:
        lines.append(f"Retrained: {metric} {retrained.row.value:.6g}, run {retrained.run.id}")
    return lines


def best_as_json(best: StudyTrial, retrained: StudyTrial | None, metric: str) -> dict[str, Any]:
    row = best.row
    return {
        "study": best.study.id,
        "trial": row.number,
        "run": best.run.id,
        "metric": metric,
        "value": row.value,
        "values": dict(row.values),
        "dollars": row.dollars,
        "retrained": retrained.run.id if retrained else None,
    }


def list_columns() -> tuple[Any, ...]:
    from trainyard.cli.output.terminal import Column

    return (
        Column("STUDY"),
        Column("STATE"),
        Column("TRIALS", 1, right=True),
        Column("METRIC", 3),
        Column("BEST", 1, right=True),
        Column("$", 2, right=True),
        Column("AGE", 4, right=True),
        Column("USER", 5),
    )


def list_row(run: ListedRun, now: datetime) -> tuple[str, ...]:
    """Return a study in a list."""
    search = run.search
    return (
        run.id,
        run.word,
        f"{search.reported}/{search.trials}" if search else "",
        search.metric if search else "",
        f"{search.value:.6g}" if search and search.value is not None else "",
        f"{dollars(search.dollars)} of {dollars(search.most_dollars)}" if search else "",
        span((now - run.created).total_seconds()),
        run.submitter or "",
    )


def as_json(run: Run, trials: Trials | None, row: RunRow | None) -> dict[str, Any]:
    known = [serialization.to_json(each) for each in trials.trials] if trials else []
    shown = [{name: value for name, value in each.items() if name != "attributes"} for each in known]
    search, warnings = (row.search, [*row.warnings]) if row else (None, [])
    return {
        "study": run.id,
        "search": serialization.to_json(search),
        "warnings": warnings,
        "trials": shown,
    }


def _print_end(options: Options, trial: TrialRow, study: str) -> None:
    if options.is_json:
        terminal.answer_line({"trial": trial.number, "state": trial.state, "value": trial.value})
    elif not options.quiet:
        run, state, value, cost, values, why = line_of(trial, study)
        terminal.console.print(
            "  ".join(each for each in (run, state, value, cost, values, why) if each), markup=False
        )


def _next(run: Run, trials: Trials | None) -> str:
    if run.execution.is_over:
        best = trials.best if trials else None
        return command_line("get", best.run_of(run.id)) if best else command_line("why", run.id)
    return command_line("stop", run.id)
