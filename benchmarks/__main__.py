"""`make bench`: measure the budgets on a separate local cloud, print the table, and write build/bench.json."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.table import Table

from benchmarks import (
    budgets,
    harness,
    imports,
    models,
    page,
    patrol,
    runs,
    saving,
    scaling,
)
from benchmarks.budgets import Row
from benchmarks.simulated import growth, scale, study, week
from benchmarks.simulated.worlds import MANY
from scripts.local_yard import ROOT, Cloud, port_for
from tests.support import quick
from trainyard.cli.output.terminal import Phases, console, print_error, print_line
from trainyard.client import Yard, YardError

STATE = ROOT / "build" / "bench-cloud"
OUTPUT = ROOT / "build" / "bench.json"
SIZES = (2, 4, 8)


@dataclass(frozen=True)
class Part:
    """A group of measurements.

    `measure` gets the yard if it needs one, and `rows` compares the results with the budgets.
    """

    title: str
    measure: Callable[..., Any]
    rows: Callable[[Any], list[Row]]
    on_a_yard: bool = False


def _clean_runs(yard: Yard) -> list[runs.Clean]:
    runs.clean_run(yard, 1)  # warm the functions, because the budget excludes the first run
    return [runs.clean_run(yard, hosts) for hosts in SIZES]


PARTS: Mapping[str, Part] = {
    "imports": Part("Cold imports", imports.ratios, budgets.measure_imports),
    "compiled": Part(
        "Cold imports with the compiled layer", imports.compiled_ratios, budgets.measure_compiled_imports
    ),
    "runs": Part(
        f"Clean runs with {', '.join(map(str, SIZES))} hosts",
        _clean_runs,
        budgets.measure_runs,
        on_a_yard=True,
    ),
    "polling": Part("A running job, watched", runs.polling_calls, budgets.measure_polling, on_a_yard=True),
    "scaling": Part(
        "Two hosts with TensorFlow, by hand and under Trainyard",
        scaling.measure,
        budgets.measure_scaling,
        on_a_yard=True,
    ),
    "harness": Part("Collecting metrics and the use of a host", harness.measure, budgets.measure_harness),
    "models": Part(
        "A model's versions and predictions", models.measure, budgets.measure_models, on_a_yard=True
    ),
    "page": Part(
        f"The page with {page.RUNS:,} runs, and with a run of {page.SCALARS} scalars and {page.HOSTS} hosts",
        page.measure,
        budgets.measure_page,
    ),
    "saving": Part("Pause of a step for a checkpoint", saving.measure, budgets.measure_saving),
    "patrol": Part(
        f"Patrol over {', '.join(f'{size:,}' for size in patrol.SIZES)} hosts",
        patrol.measure,
        budgets.measure_patrol,
    ),
    "week": Part(
        f"A simulated week of {week.RUNS_A_DAY:,} runs a day, and yards of up to {growth.SIZES[-1]:,} hosts",
        scale.measure,
        budgets.measure_week,
    ),
    "study": Part(
        f"A simulated study of {study.TRIALS:,} trials with faults", study.measure, budgets.measure_study
    ),
    "worlds": Part(f"{MANY:,} clean simulated runs", scale.worlds, budgets.measure_worlds),
}


def _check_parts(names: list[str] | None) -> list[str]:
    wrong = [name for name in names or () if name not in PARTS]
    if wrong:
        raise typer.BadParameter(f"{', '.join(wrong)}: there are {', '.join(PARTS)}")
    return names or []


def main(
    parts: Annotated[
        list[str] | None,
        typer.Argument(callback=_check_parts, help=f"Parts to measure: {', '.join(PARTS)}. Default: all."),
    ] = None,
) -> None:
    """Measure the budgets.

    Print a table and write build/bench.json. Exit code 0 means that every measured budget holds.
    """
    chosen = {name: PARTS[name] for name in parts or PARTS}
    phases, measured = Phases(), {}
    try:
        with _yard(phases) if any(part.on_a_yard for part in chosen.values()) else nullcontext() as yard:
            for name, part in chosen.items():
                with phases.phase(name, part.title):
                    measured[name] = part.measure(yard) if part.on_a_yard else part.measure()
    except YardError as error:
        print_error(error)
        raise typer.Exit(1) from error
    rows = [row for name, part in chosen.items() for row in part.rows(measured[name])]
    show(rows)
    write(rows, measured)
    raise typer.Exit(0 if all(row.holds for row in rows) else 1)


@contextmanager
def _yard(phases: Phases) -> Iterator[Yard]:
    """Deploy and bake a yard once, and keep it for later measurements."""
    cloud = Cloud(STATE, port_for(0))
    try:
        with phases.phase("prepare", "Preparing a yard (deployed and baked once, then kept)"):
            STATE.mkdir(parents=True, exist_ok=True)
            cloud.down()
            cloud.up()
            yard = cloud.deploy()
            yard.bake(ROOT / "examples" / yard.recipe).result()
            quick.prepare(yard)
        yield yard
    finally:
        cloud.down()


def show(rows: Sequence[Row]) -> None:
    """Print the table."""
    shown = Table("what", "budget", "measured", "holds")
    for row in rows:
        shown.add_row(row.what, row.budget, row.measured, "yes" if row.holds else "[red]NO[/red]")
    console.print(shown)


def write(rows: Sequence[Row], measured: Mapping[str, Any]) -> None:
    """Write the JSON file."""
    report = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "kernel": platform.release(),
        },
        "budgets": [asdict(row) for row in rows],
        **measured,
    }
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(json.dumps(report, indent=2, default=asdict) + "\n")
    print_line(f"written to {OUTPUT.relative_to(ROOT)}")


if __name__ == "__main__":
    typer.run(main)
