"""The rows of a study in the ledger: its counters, its trials and its rungs."""

from collections.abc import Iterable, Mapping
from typing import Any

from lambdas.aws.dynamodb.ledger import Table
from lambdas.aws.dynamodb.write import Write
from trainyard.protocol.ledger.study import RungRow, StudyRow, TrialRow
from trainyard.values import serialization
from trainyard.values.lazy import dataclass

ROW = "study"
"""The sort key of the counters. The keys of trials follow it, and the keys of rungs precede it."""


@dataclass(frozen=True)
class StudyRows:
    """The counters and the trials of a study."""

    row: StudyRow
    trials: tuple[TrialRow, ...]


class Studies(Table):
    def read(self, study: str) -> StudyRows | None:
        """Return the counters and all trials of a study; None if the ledger has no such study."""
        found = self._query(
            "pk = :study AND sk BETWEEN :first AND :last",
            {"study": _key(study), "first": ROW, "last": "trial#~"},
            ConsistentRead=True,
        )
        rows = [row for row in found if row["sk"] == ROW]
        trials = tuple(trial_of(row) for row in found if row["sk"] != ROW)
        return StudyRows(serialization.from_json(StudyRow, rows[0]), trials) if rows else None

    def rung(self, study: str, step: int) -> tuple[RungRow, ...]:
        """Return the values of all trials at a rung."""
        values = {"study": _key(study), "rung": f"rung#{step:010d}#"}
        rows = self._query("pk = :study AND begins_with(sk, :rung)", values, ConsistentRead=True)
        return tuple(
            RungRow(step=step, number=int(str(row["sk"]).rpartition("#")[2]), value=float(row["value"]))
            for row in rows
        )


def trial_of(row: Mapping[str, Any]) -> TrialRow:
    return serialization.from_json(TrialRow, {**row, "number": int(str(row["sk"]).partition("#")[2])})


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
    sort = f"rung#{row.step:010d}#{row.number:04d}"
    return Write(_key(study), sort, {"value": row.value}, put=True, unless="pk")


def _key(study: str) -> str:
    return f"study#{study}"


def _known(row: StudyRow | TrialRow, *without: str) -> dict[str, Any]:
    """Return the attributes of a row that have a value."""
    values = serialization.to_json(row).items()
    return {name: value for name, value in values if value is not None and name not in without}
