"""The rows of a study in the ledger: its counters, its trials, its rungs and the points that users added."""

from collections.abc import Iterable, Mapping
from typing import Any

from lambdas.aws.dynamodb.ledger import Table
from lambdas.aws.dynamodb.write import Write
from lambdas.core.run import RunUpdate
from trainyard.protocol.ledger.study import PointRow, RungRow, StudyRow, TrialRow
from trainyard.values import serialization
from trainyard.values.lazy import dataclass

ROW = "study"
"""The sort key of the counters. The keys of points and trials follow it, and the keys of rungs precede it."""
POINT = "study-point#"
TRIAL = "trial#"
OF_AN_END = (
    "ended", "outcome", "error", "reason", "cut_short", "stopping", "stopped_by", "notifying", "notified", "dollars",
    "saved_dollars",
)  # fmt: skip
"""The attributes of an ended run."""


@dataclass(frozen=True)
class StudyRows:
    """The counters, the trials and the added points of a study."""

    row: StudyRow
    trials: tuple[TrialRow, ...]
    points: tuple[PointRow, ...]
    """All added points, the oldest first."""

    @property
    def waiting(self) -> tuple[PointRow, ...]:
        """Return the added points that no trial has taken yet."""
        taken = {row.point for row in self.trials if row.takes_point}
        return tuple(point for point in self.points if point.id not in taken)


class Studies(Table):
    def read(self, study: str) -> StudyRows | None:
        """Return the counters, trials and points of a study; None if the ledger has no such study."""
        found = self._query(
            "pk = :study AND sk BETWEEN :first AND :last",
            {"study": _key(study), "first": ROW, "last": f"{TRIAL}~"},
            ConsistentRead=True,
        )
        rows = [row for row in found if row["sk"] == ROW]
        trials = tuple(trial_of(row) for row in found if str(row["sk"]).startswith(TRIAL))
        points = sorted(
            (point_of(row) for row in found if str(row["sk"]).startswith(POINT)),
            key=lambda point: (point.added, point.id),
        )
        return StudyRows(serialization.from_json(StudyRow, rows[0]), trials, tuple(points)) if rows else None

    def rung(self, study: str, step: int) -> tuple[RungRow, ...]:
        """Return the values of all trials at a rung."""
        return self._rungs(study, f"rung#{step:010d}#")

    def rungs(self, study: str) -> tuple[RungRow, ...]:
        """Return the values of all trials at all rungs."""
        return self._rungs(study, "rung#")

    def _rungs(self, study: str, begins: str) -> tuple[RungRow, ...]:
        values = {"study": _key(study), "rung": begins}
        rows = self._query("pk = :study AND begins_with(sk, :rung)", values, ConsistentRead=True)
        return tuple(rung_of(row) for row in rows)


def trial_of(row: Mapping[str, Any]) -> TrialRow:
    return serialization.from_json(TrialRow, {**row, "number": int(str(row["sk"]).partition("#")[2])})


def rung_of(row: Mapping[str, Any]) -> RungRow:
    _, step, number = str(row["sk"]).split("#")
    return serialization.from_json(RungRow, {**row, "step": int(step), "number": int(number)})


def point_of(row: Mapping[str, Any]) -> PointRow:
    return serialization.from_json(PointRow, {**row, "id": str(row["sk"]).removeprefix(POINT)})


def point_row(study: str, point: PointRow) -> Write:
    """Write a point that a user added. Raises AlreadyWrittenError if the same request was handled before."""
    return Write(_key(study), f"{POINT}{point.id}", _known(point, "id"), put=True, unless="pk")


def continued_run(study: str, values: RunUpdate) -> Write:
    """Open the run of a study again: write the values, and remove what belongs to its end."""
    return Write(f"run#{study}", "run", values, only="ended", without=OF_AN_END)


def first_row(study: str, row: StudyRow) -> Write:
    """Write the counters of a new study."""
    return Write(_key(study), ROW, serialization.to_json(row), put=True, unless="version")


def next_row(study: str, row: StudyRow) -> Write:
    """Write the counters after a turn. Raises AlreadyWrittenError if another turn has written since they were read."""
    return Write(_key(study), ROW, _known(row), same=("version", row.version - 1))


def trial_rows(study: str, trials: Iterable[TrialRow]) -> list[Write]:
    return [Write(_key(study), f"trial#{row.number:04d}", _known(row, "number"), put=True) for row in trials]


def started_rows(study: str, trials: Iterable[TrialRow]) -> list[Write]:
    """Mark trials as started. Raises AlreadyWrittenError if another turn has reported the end of one."""
    return [
        Write(
            _key(study),
            f"trial#{row.number:04d}",
            {"state": row.state.value, "started": row.started},
            unless="reported",
            only="asked",
        )
        for row in trials
    ]


def rung_row(study: str, row: RungRow) -> Write:
    """Write the value of a trial at a rung. Raises AlreadyWrittenError if the trial has a value there."""
    return Write(_key(study), _rung_key(row), {"value": row.value, "at": row.at}, put=True, unless="pk")


def judged_row(study: str, row: RungRow) -> Write:
    """Add the state of Optuna's pruner to the value of a trial at a rung."""
    return Write(_key(study), _rung_key(row), {"attributes": row.attributes})


def _rung_key(row: RungRow) -> str:
    return f"rung#{row.step:010d}#{row.number:04d}"


def _key(study: str) -> str:
    return f"study#{study}"


def _known(row: StudyRow | TrialRow | PointRow, *without: str) -> dict[str, Any]:
    """Return the attributes of a row that have a value."""
    values = serialization.to_json(row).items()
    return {name: value for name, value in values if value is not None and name not in without}
