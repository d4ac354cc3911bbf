"""A study before and after a turn. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from lambdas.core.study.results import Result
from trainyard.core.model.study import Study
from trainyard.core.model.study_fields import Point
from trainyard.protocol.ledger.study import DrawnBy, PointRow, StudyRow, TrialRow, TrialState
from trainyard.values.lazy import dataclass


class Draw(Protocol):
    """The values of a drawn trial."""

    @property
    def values(self) -> Point: ...
    @property
    def attributes(self) -> Mapping[str, object]: ...


Sampler = Callable[[int, Point | None], Draw | None]
"""A function that draws the values of the trial with a number, around values that a user has chosen."""
StartSampler = Callable[[Study, Sequence[TrialRow]], Sampler]
"""A function that prepares a sampler for the trials so far."""


class End(StrEnum):
    """Why a study is over."""

    FINISHED = "finished"
    """All its trials are reported."""
    EXHAUSTED = "exhausted"
    """All combinations of values were tried."""
    BUDGET = "budget"
    """Its dollars allow no further trial."""
    HOURS = "hours"
    """Its hours are used up."""
    STOPPED = "stopped"
    """A user stopped it."""
    FAILURES = "failures"
    """Its first trials all failed."""
    LOSSES = "losses"
    """Its last trials were all lost."""


@dataclass(frozen=True)
class Over:
    """The end of a study. `error` is None for a study with a best trial, unless a user stopped it."""

    end: End
    reason: str
    error: str | None


@dataclass(frozen=True, kw_only=True)
class Situation:
    """A study before its turn."""

    study: Study
    most_dollars: float
    """The most that one trial may cost, as the job says."""
    row: StudyRow
    trials: Sequence[TrialRow]
    points: Sequence[PointRow]
    """The points that users added, and that no trial has taken."""
    results: Mapping[int, Result]
    """The trials that have ended since the last turn, at most MOST_NEW."""
    is_metric_seen: bool
    """True if a running trial has reported the metric."""
    reserve: float
    """The dollars that warm hosts of ended trials may still cost."""
    stopped_by: str | None
    """The user who stopped the study."""
    now: datetime


@dataclass(frozen=True, kw_only=True)
class Turn:
    """The decisions of a turn."""

    row: StudyRow
    changed: tuple[TrialRow, ...]
    """The trials to write: reported and new ones."""
    to_start: tuple[TrialRow, ...]
    """The trials whose executions start, or have started in a turn that was not completed."""
    to_stop: tuple[TrialRow, ...]
    """The running trials of a study that ends."""
    over: Over | None
    """The end, once no trial runs."""


def list_trials(rows: Iterable[TrialRow]) -> list[TrialRow]:
    """Return the trials without those that retrain the best one."""
    return [row for row in rows if row.drawn_by is not DrawnBy.RETRAIN]


def find_retraining(row: StudyRow, rows: Iterable[TrialRow]) -> list[TrialRow]:
    """Return the trials that retrain the best one, since the study began or was continued."""
    return [each for each in rows if each.drawn_by is DrawnBy.RETRAIN and each.number > row.since]


def best_of(study: Study, trials: Iterable[TrialRow]) -> TrialRow | None:
    """Return the complete trial with the best value; of equal ones, the first."""
    complete = [
        (row.value, row)
        for row in list_trials(trials)
        if row.state is TrialState.COMPLETE and row.value is not None
    ]
    best: tuple[float, TrialRow] | None = None
    for value, row in sorted(complete, key=lambda each: each[1].number):
        best = (value, row) if best is None or study.objective.is_better(value, best[0]) else best
    return best[1] if best else None


def counts(row: TrialRow) -> bool:
    """Return True for an ended trial that counts: a result, or values that were lost twice."""
    if row.drawn_by is DrawnBy.RETRAIN:
        return False
    return row.state.is_answer or (row.state is TrialState.LOST and row.again is not None)
