"""The cost of runs, summed by job, user, day or label."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from trainyard.client.runs.listing import ListedRun
from trainyard.core.model.submitter import UNKNOWN
from trainyard.protocol.ledger.study import STUDY

THE_YARD = "the yard"
"""The owner of bakes, which belong to no user."""


@dataclass(frozen=True)
class Spent:
    """The cost of the ended runs of one job, user, day or label, and the amount saved compared to on-demand prices."""

    of: str
    runs: int = 0
    dollars: float = 0.0
    saved: float = 0.0

    def __add__(self, run: ListedRun) -> Spent:
        dollars, saved = run.dollars or 0.0, run.saved_dollars or 0.0
        return Spent(self.of, self.runs + 1, self.dollars + dollars, self.saved + saved)


def list_billed(runs: Iterable[ListedRun]) -> list[ListedRun]:
    """Return the runs that have hosts of their own. The cost of a study is the cost of its trials, which are runs."""
    return [run for run in runs if run.kind != STUDY]


def sum_by(runs: Iterable[ListedRun], by: str) -> list[Spent]:
    """Return the sums by `job`, `user`, `day` or a label, the highest first; days are in order."""
    sums: dict[str, Spent] = {}
    for run in runs:
        for of in _group_of(run, by):
            sums[of] = sums.get(of, Spent(of)) + run
    if by == "day":
        return sorted(sums.values(), key=lambda spent: spent.of)
    return sorted(sums.values(), key=lambda spent: -spent.dollars)


def _group_of(run: ListedRun, by: str) -> Iterator[str]:
    match by:
        case "job":
            yield run.name or run.id
        case "user":
            yield run.submitter or (THE_YARD if run.kind == "bake" else UNKNOWN)
        case "day":
            yield f"{run.created:%Y-%m-%d}"
        case label:
            yield run.labels.get(label, "none")
