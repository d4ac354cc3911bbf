"""Which run is meant: a whole id, the beginning of one, a job's name, or `@last`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainyard.command_line import command_line

if TYPE_CHECKING:
    from trainyard.client import ListedRun, Run, Yard
    from trainyard.client.runs.listing import BegunRun

LAST = "@last"
MOST = 10_000
"""Runs of this month and the last that are looked through."""
MOST_CANDIDATES = 8
FEW = 100
"""Runs that are listed for the newest: more than a yard admits at the same moment."""
MOST_NAMED = 12


def find(yard: Yard, word: str) -> Run:
    """The run that is meant. Raises RunNotFound, RunAmbiguous."""
    from trainyard.client import Run

    if word != LAST and (row := yard.row(word)):
        return Run(yard, row.execution_arn)
    listed = yard.list(kind="train", limit=FEW) if word == LAST else yard.list(limit=MOST)
    begun = yard.not_admitted({run.id for run in listed})
    return Run(yard, chosen(word, [*begun, *listed]).arn)


def chosen(word: str, listed: Sequence[ListedRun | BegunRun]) -> ListedRun | BegunRun:
    """Return the run that the word means; `listed` are newest first. A name means the newest run of that job, else the
    newest bake of that recipe. Raises RunNotFound, RunAmbiguous."""
    from trainyard.client.errors import RunAmbiguous, RunNotFound

    if word == LAST and listed:
        return listed[0]
    if named := [run for run in listed if run.name == word]:
        return next((run for run in named if run.kind == "train"), named[0])
    begun = [run for run in listed if run.id.startswith(word)]
    if len(begun) == 1:
        return begun[0]
    if begun:
        raise RunAmbiguous(f"{word} is no run's id", tuple(run.id for run in begun[:MOST_CANDIDATES]))
    newest = ", ".join(run.id for run in listed[:3])
    raise RunNotFound(
        "there is no run yet" if word == LAST else f"the yard has no run {word} of this month or the last",
        f"the newest are {newest}" if newest else "it has none at all",
        command_line("ls") if newest else command_line("submit", "JOB"),
    )


def enumerated(words: Sequence[str]) -> str:
    """Return the first of the words, so that a line stays one, and how many more there are."""
    more = f" and {len(words) - MOST_NAMED} more" if len(words) > MOST_NAMED else ""
    return ", ".join(words[:MOST_NAMED]) + more if words else "none"
