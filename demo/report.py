"""After the run: what it cost, what it left, where the time went."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from demo.say import console, quote, say
from trainyard.client import Execution, Run, RunStatus
from trainyard.client.records import elapsed

LAST_WORDS = 8
NOT_ITS_OWN = re.compile(r"\[trainyard\] |[IWEF]\d{4} |WARNING: All log messages before absl")
"""How lines of the host agent and of TensorFlow's C++ begin."""


def write(path: Path, summary: dict[str, Any], accuracy: float | None, phases: dict[str, float]) -> None:
    """build/demo/summary.json: the run's own summary, and beside it what only the demo knows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**summary, "accuracy": accuracy, "phases": phases}, indent=2) + "\n")


def image(bake: Execution, summary: dict[str, Any]) -> str:
    """What came of a bake."""
    outcomes = Counter(test["outcome"] for test in summary["tests"]).most_common()
    tests = ", ".join(f"{count} {outcome}" for outcome, count in outcomes) or "none"
    took = elapsed(bake.started, bake.stopped or bake.started).total_seconds()
    return f"{summary['image']} ({summary['kind']} in {took:.0f} s; tests: {tests})"


def report(run: Run, status: RunStatus, phases: dict[str, float]) -> None:
    """Everything a person wants to know when it is over."""
    _last_words(run)
    _cost(run.summary)
    _bucket(run)
    _time(status, phases)


def _last_words(run: Run) -> None:
    """What the chief's program printed last."""
    words = own_words(run.logs().splitlines())[-LAST_WORDS:]
    if words:
        say("\n[bold]The program's last words[/bold]")
        quote("\n".join(words))


def own_words(log: list[str]) -> list[str]:
    """The program's lines without the host's stamp before them, and without what the agent and TensorFlow say."""
    lines = (line.partition(" | ")[2] for line in log)
    return [line for line in lines if line.strip() and not NOT_ITS_OWN.match(line)]


def _cost(summary: dict[str, Any]) -> None:
    """The bill as the run's summary has it."""
    cost = summary["cost"]
    say(f"\n[bold]Cost[/bold]  {dollars(cost['dollars'])} for {cost['hours'] * 60:.1f} host minutes")
    for market, part in cost["by_market"].items():
        say(f"  {market:<12} {dollars(part['dollars'])}  {part['hours'] * 60:.1f} host minutes")
    if cost["on_demand_dollars"] is not None:
        say(f"  on demand it would have been {dollars(cost['on_demand_dollars'])}; {cost['counts']}")


def dollars(amount: float | None) -> str:
    """Money, small sums too."""
    return "unknown" if amount is None else f"${amount:.4f}"


def _bucket(run: Run) -> None:
    prefix = f"runs/{run.id}/"
    groups: dict[str, tuple[int, int]] = {}
    for key, size in run.yard.bucket.keys(prefix).items():
        name, slash, _ = key.removeprefix(prefix).partition("/")
        count, total = groups.get(name + slash, (0, 0))
        groups[name + slash] = count + 1, total + size
    say(f"\n[bold]Left in the bucket[/bold]  s3://{run.yard.bucket.name}/{prefix}")
    for name, (count, total) in sorted(groups.items()):
        say(f"  {name:<16} {count:>4} object{'s' if count != 1 else ' '}  {total / 1024:>9.1f} KiB")


def _time(status: RunStatus, phases: dict[str, float]) -> None:
    table = Table(box=None, pad_edge=False)
    for title in ("where the time went", "seconds"):
        table.add_column(title, justify="left" if title != "seconds" else "right")
    for name, seconds in phases.items():
        table.add_row(name, f"{seconds:.1f}")
        if name == "run":
            for state, spent in spans(status):
                table.add_row(f"  {state}", f"{spent:.1f}", style="dim")
    console.print()
    console.print(table)


def spans(status: RunStatus) -> list[tuple[str, float]]:
    """Seconds spent in each state that a person knows by name, in the order they were first entered."""
    ends: list[datetime] = [at for at, _ in status.states[1:]] + [status.execution.stopped or status.at]
    spent: dict[str, float] = {}
    for (entered, name), left in zip(status.states, ends, strict=True):
        spent[name] = spent.get(name, 0.0) + elapsed(entered, left).total_seconds()
    return [(name, seconds) for name, seconds in spent.items() if seconds >= 0.05]
