"""A study as Optuna stores it. Pure. Functions draw and prune with it, and the client exports it."""

from collections.abc import Sequence
from typing import Any, Literal

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, create_trial
from optuna.trial import TrialState as OptunaState

from trainyard.core.model.study import Parameter, Study
from trainyard.protocol.ledger.study import TrialRow, TrialState
from trainyard.protocol.objective import Goal

STATES = {TrialState.COMPLETE: OptunaState.COMPLETE, TrialState.STOPPED: OptunaState.PRUNED}
"""The states of Optuna. All other ended trials have failed."""


def direction_of(study: Study) -> Literal["maximize", "minimize"]:
    """Return the direction of a study, as Optuna names it."""
    return "maximize" if study.objective.goal is Goal.MAXIMIZE else "minimize"


def distribution_of(parameter: Parameter) -> BaseDistribution:
    """Return the values of a parameter as Optuna describes them."""
    if parameter.integers:
        low, high = parameter.integers
        return IntDistribution(low, high, step=int(parameter.step or 1))
    if parameter.log:
        return FloatDistribution(*parameter.log, log=True)
    if parameter.range:
        return FloatDistribution(*parameter.range, step=parameter.step)
    return CategoricalDistribution(parameter.choice or ())


def create(study: Study, row: TrialRow, state: OptunaState, value: float | None = None) -> FrozenTrial:
    """Return a trial with the values of its parameters, in a state of Optuna. A stopped trial has its value at the
    rung."""
    is_stopped = row.state is TrialState.STOPPED and state is OptunaState.PRUNED
    values = {path: value for path, value in row.values.items() if path in study.parameters}
    return create_trial(
        state=state,
        value=value,
        params=values,
        distributions={path: distribution_of(study.parameters[path]) for path in values},
        intermediate_values={row.step or 0: row.value} if is_stopped and row.value is not None else {},
        system_attrs=dict(row.attributes),
    )


def export(study: Study, name: str, rows: Sequence[TrialRow], storage: str) -> int:
    """Write the ended trials into an empty storage of Optuna; return their number.

    Trial 1 has Optuna's number 0. The user attributes have the run, the cost and the reason of each trial."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    written = optuna.create_study(storage=storage, study_name=name, direction=direction_of(study))
    ended = [row for row in rows if not row.state.is_open]
    written.add_trials([_exported(study, name, row) for row in ended])
    return len(ended)


def _exported(study: Study, name: str, row: TrialRow) -> FrozenTrial:
    state = STATES.get(row.state, OptunaState.FAIL)
    trial = create(study, row, state, row.value if state is OptunaState.COMPLETE else None)
    known: dict[str, Any] = {
        "run": row.run_of(name),
        "state": row.state.value,
        "dollars": row.dollars,
        "reason": row.reason,
        **{path: value for path, value in row.values.items() if path not in study.parameters},
    }
    trial.user_attrs = {key: value for key, value in known.items() if value is not None}
    trial.datetime_start = (row.started or row.asked).replace(tzinfo=None)
    trial.datetime_complete = (row.reported or row.asked).replace(tzinfo=None)
    return trial
