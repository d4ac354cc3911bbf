"""Budgets of the design's section 12, each with its measurement. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks import (
    harness,
    models,
    page,
    patrol,
    runs,
    saving,
    scaling,
)
from benchmarks.simulated import growth, scale, study
from benchmarks.simulated.week import RequestCounts
from benchmarks.simulated.worlds import FEW, MANY, Worlds
from simulation.aws.endpoint.rates import CONCURRENCY, READ_UNITS, TRANSITIONS, WRITE_UNITS, rate_of


@dataclass(frozen=True)
class Row:
    """A budget and its measurement."""

    what: str
    budget: str
    measured: str
    holds: bool


def measure_imports(ratios: dict[str, float]) -> list[Row]:
    """Return the ratio of the slowest handler."""
    slowest, ratio = max(ratios.items(), key=lambda item: item[1])
    return [
        Row("cold import of a handler / import boto3", "<= 1.5", f"{ratio:.2f} ({slowest})", ratio <= 1.5)
    ]


def measure_compiled_imports(ratios: dict[str, float]) -> list[Row]:
    """Return the ratio of the slowest function with the compiled layer."""
    slowest, ratio = max(ratios.items(), key=lambda item: item[1])
    what = "cold import with the compiled layer / import boto3"
    return [Row(what, "<= 2.5", f"{ratio:.2f} ({slowest})", ratio <= 2.5)]


def measure_harness(collected: list[harness.Collected]) -> list[Row]:
    """Return the processor time of the collection in percent of the program's time. Printed lines are only read if a
    program reports nothing."""
    parts = ", ".join(f"{each.what} {each.seconds / harness.SECONDS:.2%}" for each in collected)
    reports, lines, *others = (each.seconds for each in collected)
    share = (max(reports, lines) + sum(others)) / harness.SECONDS
    what = "processor time for metrics and use of the host, of one processor"
    return [Row(what, "< 1 %", f"{share:.2%} ({parts})", share < 0.01)]


def measure_runs(clean: list[runs.Clean]) -> list[Row]:
    """Return the figures of a run without failures, which must not depend on the number of hosts."""
    transitions = max(run.transitions for run in clean)
    launch = {run.hosts: run.launch_calls for run in clean}
    path = max(run.control_plane_seconds for run in clean)
    return [
        Row("state transitions of a clean run", "<= 15", str(transitions), transitions <= 15),
        Row("AWS calls to launch a gang", "<= 8", _by_hosts(launch), max(launch.values()) <= 8),
        Row(
            "AWS calls of a clean run, functions",
            "constant, except for signals",
            _by_hosts({run.hosts: run.calls for run in clean}),
            _grows_by_signals(clean),
        ),
        Row("control plane, upload to program start", "<= 3 s", f"{path:.1f} s", path <= 3),
    ]


def measure_polling(calls: int) -> list[Row]:
    """Return the number of polling calls during training, which must be zero."""
    what = f"polling calls in {runs.WATCHED_SECONDS:.0f} s of a running job"
    return [Row(what, "0", str(calls), calls == 0)]


def measure_scaling(scaled: scaling.Scaling) -> list[Row]:
    """Return the scaling of two hosts."""
    return [
        Row(
            "steps/s of two hosts with TensorFlow / started by hand",
            ">= 0.98",
            f"{scaled.ratio:.3f} ({scaled.under_trainyard:g} / {scaled.by_hand:g})",
            scaled.ratio >= 0.98,
        )
    ]


def measure_models(found: models.Models) -> list[Row]:
    """Return the figures of a model's versions and predictions."""
    most_calls = 12 + 2 * found.files
    seconds: tuple[tuple[str, float, float], ...] = (
        ("first prediction of a new process", found.cold_seconds, 1.5),
        ("versions create from a run's model", found.create_seconds, 10),
        ("versions create from a foreign SavedModel", found.foreign_seconds, 60),
        ("a move of default until its version answers", found.switch_seconds, 7),
        ("serve from nothing to the first answer", found.serve_seconds, 25),
    )
    warm = found.warm_milliseconds
    return [
        Row("a warm prediction of one row, function", "<= 10 ms", f"{warm:g} ms", warm <= 10),
        *(Row(what, f"<= {most:g} s", f"{took:g} s", took <= most) for what, took, most in seconds),
        Row("AWS calls of a prediction", "<= 1", f"{found.predict_calls:g}", found.predict_calls <= 1),
        Row(
            f"AWS calls of a version of {found.files} files",
            f"<= {most_calls}",
            str(found.create_calls),
            found.create_calls <= most_calls,
        ),
    ]


def measure_page(found: page.Page) -> list[Row]:
    """Return the figures of the page. Seconds of Chromium are for a machine without other work."""
    longest, draws = max(found.scroll_tasks, default=0), f"{found.canvases} of {found.charts}"
    listed = f"CPU seconds of the server to list {page.RUNS:,} runs with {len(page.COLUMNS)} columns"
    shown = f"{found.all_runs_seconds:g} / {found.sort_seconds:g}"
    return [
        Row(listed, "<= 1 s", f"{found.list_cpu_seconds:g} s", found.list_cpu_seconds <= 1),
        Row("seconds until Chromium has the list / its new order", "told", shown, True),
        Row("rows of that list in the browser", "<= 200", str(found.rows), found.rows <= 200),
        Row("seconds until the first charts", "told", f"{found.first_charts_seconds:g} s", True),
        Row("charts drawn after a scroll to the end", "told", draws, True),
        Row("longest task while the page scrolls", "<= 100 ms", f"{longest} ms", longest <= 100),
    ]  # fmt: skip


def measure_saving(pauses: list[saving.Pause]) -> list[Row]:
    """Return the pauses for checkpoints, which have no budget because a checkpoint is as large as its model."""
    return [
        Row(
            f"seconds a step waits for a checkpoint of {pause.megabytes} MB / TensorFlow's own write",
            "told",
            f"{pause.seconds:g} / {pause.plain_seconds:g}",
            True,
        )
        for pause in pauses
    ]


def measure_patrol(passes: list[patrol.Pass]) -> list[Row]:
    """Return the figures of one pass over all hosts in one invocation."""
    return [
        Row(
            "AWS calls of one patrol",
            "<= 18 + hosts / 500",
            _by_hosts({each.hosts: each.calls for each in passes}),
            all(each.calls <= 18 + each.hosts / 500 for each in passes),
        ),
        Row(
            "AWS calls to stop every idle host",
            "<= 7 + hosts / 500",
            _by_hosts({each.hosts: each.stop_calls for each in passes}),
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
            " / ".join(f"{each.read_cents:g}" for each in passes),
            all(each.read_cents <= 1 for each in passes),
        ),
    ]


def measure_week(found: scale.Scale) -> list[Row]:
    """Return the figures of the simulated week. Throttling only delays runs, and costs grow at most like hosts."""
    week, runs_ = found.week, found.week.runs
    return [
        Row(
            f"{runs_:,} runs in {week.days:g} days, {week.most_hosts:,} hosts at most",
            "all succeed at the first attempt",
            f"{week.succeeded:,} in {week.attempts:,} attempts",
            week.succeeded == runs_ == week.attempts,
        ),
        Row("violated invariants, abandoned events", "none",
            "; ".join([*week.broken, *week.dead_letters]) or "none", not week.broken and not week.dead_letters),
        Row("seconds of a run: usual / one of the rush / the slowest", "told",
            f"{week.usual_seconds:g} / {week.rush_seconds:g} / {week.slowest_seconds:g}", True),
        Row("functions at once, refused for that", f"{CONCURRENCY:,}, told",
            f"{week.functions_at_once:,}, {week.functions_throttled:,}", week.functions_at_once <= CONCURRENCY),
        Row("state transitions of a run, in the worst second", f"told, {TRANSITIONS.refill:,}",
            f"{week.transitions / runs_:.1f}, {week.most_transitions:,}",
            week.most_transitions <= TRANSITIONS.refill),
        Row("write units of a run, in the worst second", f"told, {WRITE_UNITS:,}",
            f"{week.written / runs_:.0f}, {week.most_written:,.0f}", True),
        Row("read units of a run, in the worst second", f"told, {READ_UNITS:,}",
            f"{week.read / runs_:.0f}, {week.most_read:,.0f}", True),
        Row("dollars of the control plane for a run", "<= 0.01", f"{week.dollars / runs_:.5f}",
            week.dollars / runs_ <= 0.01),
        *(_request_row(name, each) for name, each in week.requests.items()),
        *_growth(found.held),
    ]  # fmt: skip


def measure_worlds(found: Worlds) -> list[Row]:
    ratio = found.after_many / found.after_few
    return [
        Row("CPU seconds of a clean simulated run of two hosts", "<= 0.2", f"{found.seconds:g}", found.seconds <= 0.2),
        Row(f"MiB after {FEW} and {MANY:,} of them", "no more (5 %)",
            f"{found.after_few:g}, {found.after_many:g}", ratio <= 1.05),
    ]  # fmt: skip


def measure_study(found: study.Measured) -> list[Row]:
    """Return the figures of a study with many faults, and of a turn with many trials."""
    searched, turns = found.searched, found.turns
    per_trial = searched.requests_per_trial
    return [
        Row(f"trials of a study with {searched.faults:,} faults, reported once", "all", f"{searched.reported:,} of "
            f"{searched.trials:,} in {searched.hours:g} h", not searched.broken),
        Row("violated invariants, hosts left", "none", "; ".join(searched.broken) or f"none, {searched.living_hosts}",
            not searched.broken and not searched.living_hosts),
        Row("dollars of all trials", f"<= {searched.most_dollars:g}", f"{searched.spent:.2f}",
            searched.spent <= searched.most_dollars),
        Row("AWS calls of a study for a trial, without its run's own", "<= 8", f"{per_trial:g}", per_trial <= 8),
        Row(f"CPU seconds of a turn with {study.TRIALS:,} trials of {study.PARAMETERS} parameters", "<= 1",
            f"{turns.total:.2f} (reading {turns.reading:.2f}, deciding {turns.deciding:.2f})", turns.total <= 1),
    ]  # fmt: skip


def _request_row(operation: str, requests: RequestCounts) -> Row:
    rate = rate_of(operation)
    return Row(
        f"{operation}: an hour / worst hour / worst second / throttled",
        f"{rate.burst:,.0f} at once, {rate.refill:,.0f}/s" if rate else "told",
        f"{requests.mean_hour:,.0f} / {requests.worst_hour:,} / {requests.worst_second:,} / {requests.throttled:,}",
        True,
    )


def _growth(held: list[growth.Held]) -> list[Row]:
    sizes = [each.hosts for each in held]
    rows = []
    for what in held[0].figures:
        values = [each.figures[what] for each in held]
        slope = growth.exponent(sizes, values)
        shown = " / ".join(f"{value:,.4g}" for value in values)
        rows.append(Row(f"{what}, by hosts", "exponent <= 1.1", f"{shown}: {slope:.2f}", slope <= 1.1))
    whole = [each.patrol_seconds + each.patrol_cpu_seconds for each in held]
    rows.append(
        Row(
            f"seconds of a pass of patrol over {sizes[-1]:,} hosts",
            "one invocation (180 s)",
            f"{whole[-1]:.0f}",
            whole[-1] < 180,
        )
    )
    well = sum(each.succeeded for each in held)
    rows.append(
        Row(
            "a run of two hosts beside them",
            "succeeds on each yard",
            f"on {well} of {len(held)}",
            well == len(held),
        )
    )
    return rows


def _by_hosts(figures: dict[int, int]) -> str:
    """Return figures by number of hosts: `17 / 17 / 17 (2 / 4 / 8 hosts)`."""
    return f"{' / '.join(map(str, figures.values()))} ({' / '.join(map(str, figures))} hosts)"


def _grows_by_signals(clean: list[runs.Clean]) -> bool:
    """Return True if more hosts only add calls of the function that receives signals."""
    steady = {
        tuple(count for role, count in run.calls_by_function.items() if "signal" not in role.lower())
        for run in clean
    }
    return len(steady) == 1
