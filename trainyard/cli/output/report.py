"""The report of a run that has ended: cost, results and time."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict
from datetime import datetime
from typing import Any

from rich.markup import escape

from trainyard.cli.output.terminal import beside, hint, print_line, quote
from trainyard.client import Execution, Run, RunStatus
from trainyard.client.runs.records import elapsed
from trainyard.protocol import keys
from trainyard.protocol.summary import Outputs, RunSummary, WarmPool, read
from trainyard.values.quantities import dollars, format_bytes, format_count, span
from trainyard.values.text import printable

LAST_LINES = 8
MOST_NOT_KEPT = 5
OTHER_LINES = re.compile(r"\[trainyard\] |[IWEF]\d{4} |WARNING: All log messages before absl")
"""The beginning of lines of the host agent and of TensorFlow's C++ code."""


def describe_image(execution: Execution, summary: dict[str, Any]) -> str:
    """Describe the image of a bake or a snapshot."""
    took = span(elapsed(execution.started, execution.stopped or execution.started).total_seconds())
    outcomes = Counter(test["outcome"] for test in summary.get("tests") or []).most_common()
    tests = ", ".join(f"{count} {outcome}" for outcome, count in outcomes)
    return f"{summary['image']} ({summary['kind'].replace('_', ' ')} in {took}{f'; tests: {tests}' if tests else ''})"


def print_report(run: Run, status: RunStatus, *, with_last_lines: bool = True) -> None:
    """Print the report. With `with_last_lines`, begin with the last lines of the program."""
    if with_last_lines:
        _last_lines(run)
    if run.summary:  # a run that was ended by force has none until patrol concludes it
        _summary(run, read(RunSummary, run.summary))
    _bucket(run)
    _time(status)


def _summary(run: Run, summary: RunSummary) -> None:
    _doubt(summary)
    _cost(summary)
    row = run.yard.row(run.id)
    _pool(summary["pool"], row.pool_dollars if row else None)
    _print_not_kept(summary["outputs"])


def _doubt(summary: RunSummary) -> None:
    """Print what speaks against the success of the run."""
    if doubts := summary["but"]:
        print_line("\n[bold yellow]The run has finished, but[/bold yellow]")
        for doubt in doubts:
            print_line(f"  {escape(printable(doubt))}")


def outcome(run: Run) -> None:
    """Print how the run ended, and what to type next."""
    reason = run.reason()
    for line in reason.lines:
        beside.print(printable(line), markup=False)
    for line in reason.advice:
        hint(f"Next: {line}")


def as_json(status: RunStatus) -> dict[str, Any]:
    """Return the run at one moment, as `show -o json` and followed commands print it."""
    execution = status.execution
    return {
        "run": execution.name,
        "at": status.at,
        "status": execution.status,
        "state": status.state,
        "word": status.word,
        "attempt": status.attempt,
        "submitter": status.row.submitter if status.row else None,
        "origin": status.job.get("origin"),
        "started": execution.started,
        "ended": execution.stopped,
        "error": execution.error or None,
        "dollars": round(status.dollars, 6),
        "progress": asdict(status.progress) if status.progress else None,
        "attempts": [asdict(attempt) for attempt in status.attempts],
        "hosts": [{**asdict(host), "dollars": round(host.dollars(status.at), 6)} for host in status.hosts],
        "states": [{"entered": state.entered, "name": state.name} for state in status.states],
        "timeline": [asdict(event) for event in status.timeline],
        "losses": [[*loss] for loss in status.losses],
        "measures": {name: [[*each] for each in points] for name, points in status.measures.items()},
    }


def _last_lines(run: Run) -> None:
    """Print the last lines of the chief's program."""
    if lines := program_lines(run.log().splitlines())[-LAST_LINES:]:
        print_line("\n[bold]Last lines of the program[/bold]")
        quote("\n".join(lines))


def program_lines(log: list[str]) -> list[str]:
    """Return the program's lines without the host's prefix, and without lines of the agent and of TensorFlow."""
    lines = (line.partition(" | ")[2] for line in log)
    return [line for line in lines if line.strip() and not OTHER_LINES.match(line)]


def _pool(pool: WarmPool, paid: float | None) -> None:
    if claimed := pool["claimed"]:
        print_line(f"  {format_count(len(claimed), 'host')} came from the warm pool")
    if kept := pool["retained"]:
        so_far = f", {dollars(float(paid))} of it used" if paid else ""
        most = dollars(pool["most_dollars"])
        until = f"for {pool['minutes']:g} minutes, at most {most}{so_far}"
        print_line(f"  {format_count(len(kept), 'host')} kept for the next run: {until}")


def _cost(summary: RunSummary) -> None:
    """Print the bill of the run's summary."""
    cost = summary["cost"]
    print_line(f"\n[bold]Cost[/bold]  {dollars(cost['dollars'])} for {cost['hours'] * 60:.1f} host minutes")
    for market, part in cost["by_market"].items():
        print_line(f"  {market:<12} {dollars(part['dollars'])}  {part['hours'] * 60:.1f} host minutes")
    if cost["on_demand_dollars"] is not None:
        print_line(f"  on demand {dollars(cost['on_demand_dollars'])}; {cost['counts']}")


def _bucket(run: Run) -> None:
    prefix = keys.run(run.id)
    groups: dict[str, tuple[int, int]] = {}
    for key, size in run.yard.bucket.keys(prefix).items():
        name, slash, _ = key.removeprefix(prefix).partition("/")
        count, total = groups.get(name + slash, (0, 0))
        groups[name + slash] = count + 1, total + size
    print_line(f"\n[bold]Files in the bucket[/bold]  s3://{run.yard.bucket.name}/{prefix}")
    for name, (count, size) in sorted(groups.items()):
        print_line(f"  {name:<16} {count:>4} object{'s' if count != 1 else ' '}  {format_bytes(size):>10}")


def _print_not_kept(outputs: Outputs) -> None:
    """Print the outputs that were not kept, the largest first."""
    for each in outputs["left_out"][:MOST_NOT_KEPT]:
        size = f" ({format_bytes(each['size'])})" if each["size"] else ""
        print_line(f"  not kept: {escape(each['path'])}{size}: {escape(each['reason'])}")
    more = len(outputs["left_out"][MOST_NOT_KEPT:]) + outputs.get("left_out_more", 0)
    if more:
        print_line(f"  not kept: {more} more")


def _time(status: RunStatus) -> None:
    print_line("\n[bold]Time by state[/bold]")
    for state, spent in spans(status):
        print_line(f"  {escape(state):<24} {span(spent):>8}")


def spans(status: RunStatus) -> list[tuple[str, float]]:
    """Return the seconds spent in each state by its word, in the order of their first entry."""
    ends: list[datetime] = [at for at, _ in status.words[1:]] + [status.execution.stopped or status.at]
    spent: dict[str, float] = {}
    for (entered, name), left in zip(status.words, ends, strict=True):
        spent[name] = spent.get(name, 0.0) + elapsed(entered, left).total_seconds()
    return [(name, seconds) for name, seconds in spent.items() if seconds >= 0.05]
