"""Which run is meant: a whole id, the beginning of one, a job's name, or `@last`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainyard.client import Run, Yard

LAST = "@last"
MOST_CANDIDATES = 8


def find(yard: Yard, word: str) -> Run:
    """The run that is meant. Raises RunNotFound, RunAmbiguous."""
    from trainyard.client import Run

    if row := yard.row(word):
        return Run(yard, str(row["execution_arn"]))
    return yard.run(chosen(word, [run.id for run in yard.runs()]))


def chosen(word: str, ids: Sequence[str]) -> str:
    """The one of these ids, newest first, that the word means. A job's name means its newest run. Raises RunNotFound,
    RunAmbiguous."""
    from trainyard.client.errors import RunAmbiguous, RunNotFound

    if word in ids:
        return word
    if word == LAST and ids:
        return ids[0]
    if of_job := [each for each in ids if each.rpartition("-")[0] == word]:
        return of_job[0]
    begun = [each for each in ids if each.startswith(word)]
    if len(begun) == 1:
        return begun[0]
    if begun:
        raise RunAmbiguous(f"{word} is no run's id", tuple(begun[:MOST_CANDIDATES]))
    what = "there is no run yet" if word == LAST else f"the yard has no run {word}"
    raise RunNotFound(what, _newest(ids), "trainyard ls, or trainyard submit JOB")


def _newest(ids: Sequence[str]) -> str:
    return f"the newest are {', '.join(ids[:3])}" if ids else "it has none at all"
