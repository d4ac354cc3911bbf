"""`make bench`: measure the budgets on a local cloud of its own; print the table, write build/bench.json."""

from __future__ import annotations

import json
import os
import platform
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks import harness, imports, patrol, quick, runs, saving, scaling, transfer
from demo import bake, deployment
from demo.cloud import ROOT, Cloud, port_for
from demo.phases import Phases
from demo.say import DemoError, console, say

STATE = ROOT / "build" / "bench-cloud"
OUTPUT = ROOT / "build" / "bench.json"
SIZES = (2, 4, 8)


@dataclass(frozen=True)
class Row:
    """One budget and what was measured."""

    what: str
    budget: str
    measured: str
    holds: bool


def main() -> int:
    """Measure everything; exit code 0 when every budget holds."""
    phases = Phases()
    cloud = Cloud(STATE, port_for(0))
    try:
        with phases.phase(
            "prepare", "Preparing a yard (deploy and bake once; both are kept for the next time)"
        ):
            STATE.mkdir(parents=True, exist_ok=True)
            cloud.down()
            cloud.up()
            yard = deployment.deploy(cloud.environment(), STATE)
            bake.ensure_image(yard)
            quick.prepare(yard)
        with phases.phase("imports", "Cold imports"):
            ratios = imports.ratios(ROOT / "build" / "functions", ROOT / "build" / "layer")
        with phases.phase("runs", f"Clean runs with {', '.join(map(str, SIZES))} hosts"):
            runs.clean_run(yard, 1)  # functions are warm from here on: the budget is not about the first run
            clean = [runs.clean_run(yard, hosts) for hosts in SIZES]
        with phases.phase("polling", "A running job, watched"):
            polling = runs.polling_calls(yard)
        with phases.phase("harness", "The same program by hand and under the agent"):
            rates = harness.measure(yard)
        with phases.phase("scaling", "Two hosts with TensorFlow, by hand and under Trainyard"):
            scaled = scaling.measure(yard)
        with phases.phase("saving", "What a checkpoint costs a step"):
            pauses = saving.measure()
        with phases.phase("transfer", "Data to the disk: ours, aws s3 sync, s5cmd"):
            speeds = transfer.measure()
        with phases.phase("patrol", f"Patrol over {', '.join(f'{size:,}' for size in patrol.SIZES)} hosts"):
            passes = patrol.measure()
    except DemoError as error:
        say(f"[bold red]Failed:[/bold red] {error}\nNext: {error.next_step}")
        return 1
    finally:
        cloud.down()
    measured = Measured(clean, ratios, polling, rates, scaled, pauses, speeds, passes)
    table = rows(measured)
    show(table)
    write(table, measured)
    return 0 if all(row.holds for row in table) else 1


@dataclass(frozen=True)
class Measured:
    """Everything that was measured."""

    clean: list[runs.Clean]
    import_ratios: dict[str, float]
    polling_calls: int
    harness: harness.Rates
    scaling: scaling.Scaling
    pauses: list[saving.Pause]
    transfer: dict[str, transfer.Speeds]
    patrol: list[patrol.Pass]


def rows(measured: Measured) -> list[Row]:
    """The table: each budget beside what was measured."""
    clean, rates, scaled = measured.clean, measured.harness, measured.scaling
    polling = measured.polling_calls
    transitions = max(run.transitions for run in clean)
    launch = max(run.launch_calls for run in clean)
    calls = {run.hosts: run.calls for run in clean}
    path = max(run.control_plane_seconds for run in clean)
    slowest, ratio = max(measured.import_ratios.items(), key=lambda item: item[1])
    return [
        Row("state transitions of a clean run", "<= 15", str(transitions), transitions <= 15),
        Row(
            "AWS calls to launch a gang",
            "<= 8",
            by_hosts({r.hosts: r.launch_calls for r in clean}),
            launch <= 8,
        ),
        Row(
            "AWS calls of a clean run, functions",
            "constant but for signals",
            by_hosts(calls),
            grows_by_signals(clean),
        ),
        Row("control plane, upload to program start", "<= 3 s", f"{path:.1f} s", path <= 3),
        Row("cold import of a handler / import boto3", "<= 1.5", f"{ratio:.2f} ({slowest})", ratio <= 1.5),
        Row(
            f"looking calls in {runs.WATCHED_SECONDS:.0f} s of a running job", "0", str(polling), polling == 0
        ),
        Row("steps/s under the agent / by hand", ">= 0.99", f"{rates.ratio:.3f}", rates.ratio >= 0.99),
        Row(
            "steps/s of two hosts with TensorFlow / started by hand",
            ">= 0.98",
            f"{scaled.ratio:.3f} ({scaled.under_trainyard:g} / {scaled.by_hand:g})",
            scaled.ratio >= 0.98,
        ),
        *(
            Row(
                f"seconds a step waits for a checkpoint of {pause.megabytes} MB / TensorFlow's own write",
                "told",
                f"{pause.seconds:g} / {pause.plain_seconds:g}",
                True,
            )
            for pause in measured.pauses
        ),
        *(
            Row(
                f"MB/s of data to the disk, {name} files: ours / aws s3 sync / s5cmd",
                "ours >= 0.9 x aws s3 sync",
                " / ".join(
                    str(speed.megabytes_a_second) for speed in (found.ours, found.aws_s3_sync, found.s5cmd)
                ),
                found.ratio >= 0.9,
            )
            for name, found in measured.transfer.items()
        ),
        *patrol_rows(measured.patrol),
    ]


def patrol_rows(passes: list[patrol.Pass]) -> list[Row]:
    """One pass over all hosts, in one invocation, whatever their number."""
    return [
        Row(
            "AWS calls of one patrol",
            "<= 18 + hosts / 500",
            by_hosts({each.hosts: each.calls for each in passes}),
            all(each.calls <= 18 + each.hosts / 500 for each in passes),
        ),
        Row(
            "AWS calls to stop every idle host",
            "<= 7 + hosts / 500",
            by_hosts({each.hosts: each.stop_calls for each in passes}),
            all(each.stop_calls <= 7 + each.hosts / 500 for each in passes),
        ),
        Row(
            "seconds, MiB of one patrol",
            "one invocation (180 s, 512 MiB)",
            " / ".join(f"{each.seconds:g} s {each.memory_mib:.0f} MiB" for each in passes),
            all(each.seconds < 180 and each.memory_mib < 512 for each in passes),
        ),
        Row(
            "cents to look at a host without a run for a day",
            "<= 1",
            " / ".join(f"{each.looking_cents:g}" for each in passes),
            all(each.looking_cents <= 1 for each in passes),
        ),
    ]


def by_hosts(figures: dict[int, int]) -> str:
    """`17 / 17 / 17 (2 / 4 / 8 hosts)`."""
    return f"{' / '.join(map(str, figures.values()))} ({' / '.join(map(str, figures))} hosts)"


def grows_by_signals(clean: list[runs.Clean]) -> bool:
    """True when only the function that takes the hosts' signals is called on behalf of more hosts."""
    steady = {
        tuple(count for role, count in run.calls_by_function.items() if "signal" not in role.lower())
        for run in clean
    }
    return len(steady) == 1


def show(table: list[Row]) -> None:
    """For a person."""
    shown = Table("what", "budget", "measured", "holds")
    for row in table:
        shown.add_row(row.what, row.budget, row.measured, "yes" if row.holds else "[red]NO[/red]")
    console.print(shown)


def write(table: list[Row], measured: Measured) -> None:
    """For a program."""
    told: dict[str, Any] = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "kernel": platform.release(),
        },
        "budgets": [asdict(row) for row in table],
        "runs": [run.to_json() for run in measured.clean],
        "import_ratios": measured.import_ratios,
        "polling_calls": measured.polling_calls,
        "harness": {**asdict(measured.harness), "ratio": measured.harness.ratio},
        "scaling": {**asdict(measured.scaling), "ratio": measured.scaling.ratio},
        "pauses": [asdict(pause) for pause in measured.pauses],
        "patrol": [asdict(each) for each in measured.patrol],
        "transfer": {name: {**asdict(one), "ratio": one.ratio} for name, one in measured.transfer.items()},
    }
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(json.dumps(told, indent=2) + "\n")
    say(f"written to {OUTPUT.relative_to(Path.cwd()) if OUTPUT.is_relative_to(Path.cwd()) else OUTPUT}")


if __name__ == "__main__":
    sys.exit(main())
