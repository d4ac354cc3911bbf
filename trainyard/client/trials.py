"""The trials of a study, as its rows in the ledger list them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from trainyard.protocol.ledger import reading
from trainyard.protocol.ledger.study import STUDY, PointRow, RungRow, StudyRow, TrialRow, TrialState


@dataclass(frozen=True)
class Trials:
    """The counters, the trials, the added points and the rungs of a study."""

    study: str
    row: StudyRow
    trials: tuple[TrialRow, ...]
    points: tuple[PointRow, ...] = ()
    rungs: tuple[RungRow, ...] = ()
    """The value of each trial at each rung that it reached."""

    @property
    def waiting(self) -> tuple[PointRow, ...]:
        """Return the added points that no trial has taken yet."""
        taken = {trial.point for trial in self.trials if trial.takes_point}
        return tuple(point for point in self.points if point.id not in taken)

    @property
    def best(self) -> TrialRow | None:
        """Return the best complete trial, or None before the first."""
        return next((trial for trial in self.trials if trial.number == self.row.best), None)

    @property
    def ended(self) -> tuple[TrialRow, ...]:
        """Return the ended trials, in the order of their ends."""
        ended = ((trial.reported, trial.number, trial) for trial in self.trials if trial.reported)
        return tuple(trial for _, _, trial in sorted(ended, key=lambda each: each[:2]))

    @classmethod
    def of(cls, study: str, rows: Iterable[Mapping[str, Any]]) -> Self | None:
        """Read the rows of a study, or return None without them."""
        own, trials, points, rungs = None, list[TrialRow](), list[PointRow](), list[RungRow]()
        for row in rows:
            kind, _, number = str(row["sk"]).partition("#")
            if kind == STUDY:
                own = reading.read(StudyRow, row)
            elif kind == "trial":
                trials.append(reading.read(TrialRow, row, number=int(number)))
            elif kind == "study-point":
                points.append(reading.read(PointRow, row, id=number))
            elif kind == "rung":
                step, _, trial = number.partition("#")
                rungs.append(reading.read(RungRow, row, step=int(step), number=int(trial)))
        return cls(study, own, tuple(trials), tuple(points), tuple(rungs)) if own else None


STATES = {
    TrialState.ASKED: "Starting",
    TrialState.STARTED: "Running",
    TrialState.COMPLETE: "Finished",
    TrialState.STOPPED: "Stopped early",
    TrialState.FAILED: "Failed",
    TrialState.LOST: "Lost",
    TrialState.CUT: "Stopped",
}
"""The words for the states of trials."""
