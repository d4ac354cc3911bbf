"""The user's view of the list of runs, as the address has it, and the runs in that order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isnan
from typing import Any, Self

from starlette.datastructures import QueryParams

from trainyard.client.runs.listing import ListedRun
from trainyard.ui.columns import DEFAULT, GROUPS, LABEL, MOST_COLUMNS, Column, column_of, cost_of

FEW_ROWS, MOST_ROWS = 200, 5_000
"""Rows that a page shows at first, and at most."""
GROUP_PART = 4
"""A group shows this part of the rows at first."""
MOST_NAMED = 1_000
"""Groups that an address names as opened or closed."""


@dataclass(frozen=True)
class View:
    """A view of the list."""

    words: str = ""
    state: str = ""
    """`running`, `waiting`, `succeeded` or `failed`; empty for all."""
    sort: str = ""
    """The name of a column, with a minus if the largest comes first; empty for the newest first."""
    columns: tuple[str, ...] = DEFAULT
    group: str = ""
    """The name of a column, or empty."""
    opened: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    most: int = FEW_ROWS

    @classmethod
    def of(cls, query: QueryParams) -> Self:
        """Read the query of an address. Unknown columns are left out."""
        named = [name for name in dict.fromkeys(query.getlist("column")) if column_of(name)][:MOST_COLUMNS]
        sort, group, most = query.get("sort", ""), query.get("group", ""), query.get("most", "")
        is_group = group in GROUPS or (group.startswith(LABEL) and column_of(group))
        return cls(
            words=query.get("q", ""),
            state=query.get("state", ""),
            sort=sort if column_of(sort.removeprefix("-")) or sort in ("run", "-run") else "",
            columns=tuple(named) or DEFAULT,
            group=group if is_group else "",
            opened=tuple(query.getlist("open")[:MOST_NAMED]),
            closed=tuple(query.getlist("closed")[:MOST_NAMED]),
            most=min(max(int(most), FEW_ROWS), MOST_ROWS) if most.isdecimal() and len(most) < 9 else FEW_ROWS,
        )

    @property
    def query(self) -> Mapping[str, str | tuple[str, ...]]:
        """Return the query of the address."""
        known: dict[str, str | tuple[str, ...]] = {
            "q": self.words,
            "state": self.state,
            "sort": self.sort,
            "column": () if self.columns == DEFAULT else self.columns,
            "group": self.group,
            "open": self.opened,
            "closed": self.closed,
            "most": str(self.most) if self.most != FEW_ROWS else "",
        }
        return {name: value for name, value in known.items() if value}

    @property
    def shown(self) -> tuple[Column, ...]:
        """Return the chosen columns."""
        return tuple(column for name in self.columns if (column := column_of(name)))

    def direction_of(self, column: str) -> str | None:
        """Return how the list is sorted by a column, in ARIA's words."""
        return {column: "ascending", f"-{column}": "descending"}.get(self.sort)


@dataclass(frozen=True)
class Group:
    """Runs with the same value of the column that groups the list."""

    key: str
    """Empty for runs without a value."""
    runs: tuple[ListedRun, ...]
    shown: tuple[ListedRun, ...]
    """Empty while the group is closed."""
    is_open: bool

    @property
    def states(self) -> dict[str, int]:
        """Return the numbers of runs that wait, run and failed."""
        counts = _count(self.runs)
        return {state: counts[state] for state in ("running", "waiting", "failed") if state in counts}

    @property
    def dollars(self) -> float:
        """Return the cost of ended runs. The cost of a study includes its trials."""
        studies = {run.id for run in self.runs if run.search}
        return sum(cost_of(run) or 0.0 for run in self.runs if run.study not in studies)


@dataclass(frozen=True)
class Arranged:
    """The list as a view shows it."""

    groups: tuple[Group, ...]
    """One group without a key if the list is not grouped."""
    counts: Mapping[str, int]
    """Runs that match the words, by their state."""
    matching: int
    """Runs that match the words and the state."""
    total: int
    """All runs, without filters."""

    @property
    def more(self) -> int:
        """Return the number of runs that are not shown and belong to no closed group."""
        return sum(len(group.runs) - len(group.shown) for group in self.groups if group.is_open)


def name_state(run: ListedRun) -> str:
    """Return the outcome, or `waiting` or `running`: the word for the color and the filter."""
    return run.outcome or ("waiting" if run.waiting else "running")


def filter_state(run: ListedRun) -> str:
    """Return the state that the list's filter reads."""
    state = name_state(run)
    return "failed" if state in ("refused", "stopped") else state


def text_of(run: ListedRun) -> str:
    """Return the text that the words of a filter search."""
    named = (f"{key}={value}" for given in (run.labels, run.args) for key, value in given.items())
    schedule = f"schedule={run.schedule}" if run.schedule else ""
    parts = (run.id, run.submitter, run.pool, run.error, schedule, *named)
    return " ".join(filter(None, parts)).lower()


def arrange(runs: Sequence[ListedRun], view: View) -> Arranged:
    """Filter, sort and group the runs, which are the newest first. Only groups by study list trials."""
    listed = runs if view.group == "study" else [run for run in runs if run.study is None]
    words = view.words.lower().split()
    if words:
        listed = [run for run in listed if _has(words, text_of(run))]
    counts = _count(listed)
    found = [run for run in listed if filter_state(run) == view.state] if view.state else listed
    groups = _group(_sort(found, view), view)
    total = len(runs) if view.group == "study" else sum(run.study is None for run in runs)
    return Arranged(groups, counts, len(found), total)


def _has(words: Sequence[str], text: str) -> bool:
    return all(word in text for word in words)


def _count(runs: Sequence[ListedRun]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for run in runs:
        state = filter_state(run)
        counts[state] = counts.get(state, 0) + 1
    return counts


def _sort(runs: Sequence[ListedRun], view: View) -> Sequence[ListedRun]:
    """Sort by a column. Runs without a value come last in both directions; numbers come before texts."""
    name = view.sort.removeprefix("-")
    if not name:
        return runs
    column = column_of(name)
    valued, others = [], []
    for run in runs:
        value = run.id if column is None else column.value(run)
        if value is None or value == "" or (isinstance(value, float) and isnan(value)):
            others.append(run)
        else:
            valued.append((_order(value), run))
    valued.sort(key=lambda each: each[0], reverse=view.sort.startswith("-"))
    return [*(run for _, run in valued), *others]


def _order(value: Any) -> tuple[bool, float, str]:
    """Return a key that compares numbers, times and texts."""
    if isinstance(value, datetime):
        return False, value.timestamp(), ""
    try:
        return False, float(value), ""
    except (TypeError, ValueError):
        return True, 0.0, str(value).lower()


def _group(runs: Sequence[ListedRun], view: View) -> tuple[Group, ...]:
    """Group the runs. The groups have the order of their first runs. Runs without a value are the last group."""
    if not view.group:
        return (Group("", tuple(runs), tuple(runs[: view.most]), is_open=True),)
    column, found = column_of(view.group), dict[str, list[ListedRun]]()
    for run in runs:
        value = column.value(run) if column else None
        if view.group == "study" and run.search:
            value = run.id
        found.setdefault("" if value is None else str(value), []).append(run)
    without, groups, rows = found.pop("", None), [], 0
    for key, members in [*found.items(), *([("", without)] if without else [])]:
        is_open = key in view.opened or (key not in view.closed and rows < view.most)
        shown = tuple(members[: view.most // GROUP_PART]) if is_open else ()
        rows += len(shown)
        groups.append(Group(key, tuple(members), shown, is_open))
    return tuple(groups)
