"""The columns of the list of runs: fixed ones, and one for each argument, metric and label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainyard.client.runs.listing import ListedRun

ARGUMENT, METRIC, LABEL = "args.", "metric.", "label."
LOSS = "loss"
"""The metric with a fixed column."""
MOST_NAMES = 200
"""The most arguments, metrics or labels to choose from, the most frequent first."""
MOST_COLUMNS = 40
MOST_CHARACTERS = 600
"""The most characters of a column's name. A metric may have 500."""
DEFAULT = ("state", "progress", "loss", "pool", "user", "cost", "started")


@dataclass(frozen=True)
class Column:
    """A column. `value` returns what it shows and is sorted by; None leaves the cell empty."""

    name: str
    title: str
    value: Callable[[ListedRun], Any]
    is_number: bool = False


def _progress(run: ListedRun) -> float | None:
    if run.search:
        return run.search.reported / max(run.search.trials, 1)
    if run.progress is None:
        return None
    return run.progress.step / run.progress.steps if run.progress.steps else float(run.progress.step)


def cost_of(run: ListedRun) -> float | None:
    """Return the dollars of an ended run, or of a study so far."""
    return run.search.dollars if run.search else run.dollars


def _seconds(run: ListedRun) -> float | None:
    return (run.ended - run.created).total_seconds() if run.ended else None


FIXED: Mapping[str, Column] = {
    column.name: column
    for column in (
        Column("state", "State", lambda run: run.word),
        Column("progress", "Progress", _progress),
        Column("loss", "Loss", lambda run: run.progress.loss if run.progress else None, is_number=True),
        Column("pool", "Pool", lambda run: run.pool),
        Column("type", "Type", lambda run: run.type),
        Column("market", "Market", lambda run: (run.market or "").replace("_", " ") or None),
        Column("hosts", "Hosts", lambda run: run.gang, is_number=True),
        Column("user", "User", lambda run: run.submitter),
        Column("job", "Job", lambda run: run.name),
        Column("study", "Study", lambda run: run.study),
        Column("schedule", "Schedule", lambda run: run.schedule),
        Column("attempt", "Attempt", lambda run: run.attempt, is_number=True),
        Column("cost", "Cost", cost_of, is_number=True),
        Column("saved", "Spot saved", lambda run: run.saved_dollars, is_number=True),
        Column("duration", "Duration", _seconds, is_number=True),
        Column("started", "Started", lambda run: run.created, is_number=True),
        Column("ended", "Ended", lambda run: run.ended, is_number=True),
    )
}
GROUPS = ("study", "job", "user", "schedule")
"""The fixed columns that can group runs, beside labels."""


def column_of(name: str) -> Column | None:
    """Return the column with this name, or None for an unknown one."""
    if name in FIXED:
        return FIXED[name]
    for prefix, find in (
        (ARGUMENT, lambda run, key: run.args.get(key)),
        (METRIC, lambda run, key: run.metrics.get(key)),
        (LABEL, lambda run, key: run.labels.get(key)),
    ):
        key = name.removeprefix(prefix)
        if name.startswith(prefix) and key and len(name) <= MOST_CHARACTERS:
            return Column(name, key, lambda run, find=find, key=key: find(run, key), prefix == METRIC)  # type: ignore[misc]
    return None


@dataclass(frozen=True)
class Choices:
    """The names to choose columns from."""

    args: tuple[str, ...]
    metrics: tuple[str, ...]
    labels: tuple[str, ...]

    @property
    def sections(self) -> dict[str, tuple[Column, ...]]:
        """Return the columns by their headings."""
        named = {
            "Arguments": (ARGUMENT, self.args),
            "Metrics": (METRIC, self.metrics),
            "Labels": (LABEL, self.labels),
        }
        found = {
            heading: tuple(column for name in names if (column := column_of(prefix + name)))
            for heading, (prefix, names) in named.items()
        }
        return {
            "Run": tuple(FIXED.values()),
            **{heading: columns for heading, columns in found.items() if columns},
        }


def choices_in(runs: Iterable[ListedRun], chosen: Sequence[str]) -> Choices:
    """Return the arguments, metrics and labels of the runs, with the chosen ones."""
    counts: tuple[Counter[str], ...] = (Counter(), Counter(), Counter())
    for run in runs:
        for counted, names in zip(counts, (run.args, run.metrics, run.labels), strict=True):
            if names:
                counted.update(names.keys())
    found = []
    for counted, prefix in zip(counts, (ARGUMENT, METRIC, LABEL), strict=True):
        kept = {name for name, _ in counted.most_common(MOST_NAMES)}
        kept -= {LOSS} if prefix == METRIC else set()
        kept |= {name.removeprefix(prefix) for name in chosen if name.startswith(prefix)}
        found.append(tuple(sorted(kept)))
    return Choices(*found)
