"""Find the run that the user names by its ID, the beginning of its ID, its job's name, or `@last`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainyard.command_line import command_line
from trainyard.protocol.trial import study_of

if TYPE_CHECKING:
    from trainyard.client import ListedRun, Run, Study, Yard
    from trainyard.client.runs.listing import BegunRun

LAST = "@last"
MOST = 10_000
"""Runs of this month and last month that are searched."""
MOST_CANDIDATES = 8
FEW = 100
"""Runs that are listed to find the newest one: more than a yard admits at the same moment."""
MOST_NAMED = 12


def find(yard: Yard, word: str) -> Run:
    """Return the run that `word` names. Raises RunNotFound, RunAmbiguous."""
    from trainyard.client import Run

    if word != LAST and (row := yard.row(word)):
        return Run(yard, row.execution_arn)
    if word == LAST:
        listed = yard.list(kind=("train", "study"), limit=FEW, wanted=lambda run: run.study is None)
    else:
        listed = yard.list(limit=MOST)
    begun = yard.not_admitted({run.id for run in listed})
    return Run(yard, choose_run(word, [*begun, *listed]).arn)


def find_study(yard: Yard, word: str) -> Study:
    """Return the study that `word` names. Raises RunNotFound for another run."""
    return yard.study(find(yard, word).id)


def choose_run(word: str, listed: Sequence[ListedRun | BegunRun]) -> ListedRun | BegunRun:
    """Return the run that `word` names; `listed` are newest first.

    A name selects the newest run of that job, else the newest bake of that recipe. Raises RunNotFound, RunAmbiguous.
    """
    from trainyard.client.errors import RunAmbiguous, RunNotFound

    if word == LAST and listed:
        return listed[0]
    if named := [run for run in listed if run.name == word]:
        return next(
            (run for run in named if run.kind in ("train", "study") and not study_of(run.id)), named[0]
        )
    begun = [run for run in listed if run.id.startswith(word)]
    if len(begun) == 1:
        return begun[0]
    if begun:
        raise RunAmbiguous(
            f"several runs have IDs that begin with {word}", tuple(run.id for run in begun[:MOST_CANDIDATES])
        )
    newest = ", ".join(run.id for run in listed[:3])
    raise RunNotFound(
        "the yard has no runs yet"
        if word == LAST
        else f"no run of this month or last month is called {word}",
        f"the newest runs are {newest}" if newest else "the yard has no runs at all",
        command_line("ls") if newest else command_line("submit", "JOB"),
    )


def enumerate_words(words: Sequence[str]) -> str:
    """Return the first words in one line, and the number of the others."""
    more = f" and {len(words) - MOST_NAMED} more" if len(words) > MOST_NAMED else ""
    return ", ".join(words[:MOST_NAMED]) + more if words else "none"
