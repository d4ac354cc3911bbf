"""The rows of a study: `pk = study#<study>`; `sk = study`, `study-point#<id>`, `trial#<number>` and
`rung#<step>#<number>`.

The study itself is a run of kind `study`, with a row like every run. Each trial is a run of kind `train`. Numbers of
trials have four digits, steps of rungs ten.
"""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any

from trainyard.protocol.trial import Trial
from trainyard.values.lazy import dataclass

Value = str | int | float | bool
STUDY = "study"
"""The kind of the run of a study."""


class TrialState(StrEnum):
    """The state of a trial in its study."""

    ASKED = "asked"
    """Its values are drawn, and its execution starts."""
    STARTED = "started"
    """Its execution runs."""
    COMPLETE = "complete"
    """Its program finished and left the metric."""
    STOPPED = "stopped"
    """It was stopped at a rung because other trials were better there, or by a user."""
    FAILED = "failed"
    """Its program failed, left no metric, or used up the limits of the trial."""
    LOST = "lost"
    """It ended because of capacity or a service. Its values are tried once more, in another trial."""
    CUT = "cut"
    """It was stopped with its study."""

    @property
    def is_open(self) -> bool:
        """Return True if the trial may still cost money."""
        return self in (TrialState.ASKED, TrialState.STARTED)

    @property
    def is_answer(self) -> bool:
        """Return True if the trial is a result for the sampler."""
        return self in (TrialState.COMPLETE, TrialState.STOPPED, TrialState.FAILED)


class DrawnBy(StrEnum):
    """The source of a trial's values."""

    SAMPLER = "sampler"
    FIRST = "first"
    """The list `study.first` of the job file."""
    ADDED = "added"
    """A user who added the point while the study ran."""
    RETRAIN = "retrain"
    """The best trial, which is trained once more after the search."""
    AGAIN = "again"
    """A trial that was lost."""


@dataclass(frozen=True, kw_only=True)
class TrialRow:
    """A trial of a study."""

    number: int
    values: Mapping[str, Value]
    """The values of the parameters, by their paths."""
    drawn_by: DrawnBy
    state: TrialState
    cap: float
    """The dollars that the trial may cost, which the study lends it until it has ended."""
    asked: datetime
    """When its values were drawn."""
    again: int | None = None
    """The number of the lost trial whose values it has."""
    point: str | None = None
    """The id of the added point that it has, or the place of its point in `study.first`: `first-1`."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """The state of the sampler that belongs to the trial."""
    started: datetime | None = None
    reported: datetime | None = None
    """When the study recorded its end."""
    value: float | None = None
    """The metric of a complete trial, or at the rung at which the trial was stopped."""
    step: int | None = None
    """The last step, or the rung at which the trial was stopped."""
    dollars: float | None = None
    """The cost of its run, once it has ended."""
    reason: str | None = None
    """Why the trial ended."""
    error: str | None = None
    """The error of its run."""

    @property
    def takes_point(self) -> bool:
        """Return False for a trial that was stopped with its study: its point is tried again if the study continues."""
        return self.point is not None and self.state is not TrialState.CUT

    def run_of(self, study: str) -> str:
        """Return the id of the trial's run."""
        return Trial(study=study, number=self.number, submitter="").run


@dataclass(frozen=True, kw_only=True)
class StudyRow:
    """The limits of a study, which its user may raise, and its counters."""

    version: int
    """The number of writes. A turn writes only if it read the newest version."""
    trials: int
    """The number of trials that end the study."""
    dollars: float
    """The most that all trials may cost."""
    until: datetime
    """When the study ends at the latest."""
    spent: float = 0.0
    """The cost of the trials that have ended."""
    lent: float = 0.0
    """The caps of the trials that run."""
    best: int | None = None
    """The number of the best complete trial."""
    value: float | None = None
    """The metric of the best complete trial."""
    reported: int = 0
    """The number of trials that count."""
    running: int = 0
    retrained: int | None = None
    """The number of the complete trial that retrained the best one."""
    part: int = 1
    """The number of executions, one more for each time that a user continued the study."""
    since: int = 0
    """The number of the last trial before the study was continued."""
    importance: Mapping[str, float] = field(default_factory=dict)
    """The share of each parameter in the differences of the metric, by its path: measured after each tenth trial."""


@dataclass(frozen=True, kw_only=True)
class PointRow:
    """A point that a user added."""

    id: str
    values: Mapping[str, Value]
    """The values of parameters, by their paths. The sampler draws the others."""
    by: str
    """The user, as verified by IAM."""
    added: datetime


@dataclass(frozen=True, kw_only=True)
class Search:
    """The state of a study, for lists. The row of its run has it."""

    metric: str
    trials: int
    """The number of trials that end the study."""
    reported: int
    running: int
    dollars: float
    """The cost of the trials that have ended."""
    most_dollars: float
    """The most that all trials may cost."""
    best: int | None = None
    """The number of the best complete trial."""
    value: float | None = None
    """The metric of the best complete trial."""
    retrained: int | None = None
    """The number of the complete trial that retrained the best one."""


@dataclass(frozen=True, kw_only=True)
class RungRow:
    """The value of a trial at a rung."""

    step: int
    """The rung: an epoch or a step."""
    number: int
    """The number of the trial."""
    value: float
    at: int | None = None
    """The step at which the program reported the value: the rung itself, if rungs are steps."""
    attributes: Mapping[str, float] = field(default_factory=dict)
    """The state of Optuna's pruner that belongs to the trial at this rung."""
