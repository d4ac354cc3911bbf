"""Requests of users to a study that exists: the reason why the yard refuses one. The client checks them before it sends
them, and the function that handles them decides. Pure."""

from collections.abc import Mapping
from typing import Any

from trainyard.core.jobfile.study_rules import point_faults
from trainyard.core.model.program_fields import Argument
from trainyard.core.model.study import MOST_STUDY_DOLLARS, Study
from trainyard.protocol.ledger.study import StudyRow
from trainyard.protocol.trial import MOST_PARTS, MOST_TRIALS
from trainyard.values.quantities import format_count
from trainyard.values.validation import show_value

MOST_HOURS = 720
LEAST_DOLLARS = 0.01
MOST_WAITING = 100
"""The most added points that wait for a trial."""


def find_point_faults(study: Study, values: Mapping[str, Any]) -> list[str]:
    """Return every fault of a point."""
    if not values:
        return ["the point has no values; give at least one, as in args.lr=0.01"]
    kind = Argument()
    shapes = [f"{path}: {problem}" for path, value in values.items() if (problem := kind.problem(value))]
    return shapes or [f"{path}: {problem}" for path, problem in point_faults(values, study)]


def refuse_point(row: StudyRow, waiting: int) -> str | None:
    """Return why a study that runs takes no further point, or None. `waiting` is the number of its added points that
    wait for a trial."""
    free = row.trials - row.reported - row.running - waiting
    if free <= 0:
        return (
            f"all of its {format_count(row.trials, 'trial')} are taken: {row.reported} ended, {row.running} running, "
            f"{waiting} added"
        )
    if waiting >= MOST_WAITING:
        return f"{waiting} added points wait for a trial already, which is the most"
    return None


def find_continuation_faults(
    row: StudyRow, last: int, *, trials: int, dollars: float, hours: float | None
) -> list[str]:
    """Return every fault of a request to continue a study that has ended. `last` is the number of its last trial."""
    faults = []
    if trials < 1 or last + trials > MOST_TRIALS:
        faults.append(
            f"trials: found {trials}; a study has at most {MOST_TRIALS} trials, and this one has {last}"
        )
    if not LEAST_DOLLARS <= dollars <= MOST_STUDY_DOLLARS:
        faults.append(f"dollars: found {show_value(dollars)}; at least {LEAST_DOLLARS} is required")
    if hours is not None and not 0 < hours <= MOST_HOURS:
        faults.append(f"hours: found {show_value(hours)}; a number above 0, at most {MOST_HOURS}, is allowed")
    if row.part >= MOST_PARTS:
        faults.append(f"the study was continued {row.part - 1} times, which is the most")
    return faults


def describe(values: Mapping[str, Any]) -> str:
    """Return the values of a point in one line: `lr=0.01 optimizer=sgd`."""
    return " ".join(f"{path.partition('.')[2]}={_short(value)}" for path, value in values.items())


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
