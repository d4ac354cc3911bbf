"""Early stopping with Optuna: `successive_halving` and `hyperband`. Pure.

Both keep the values of completed rungs in attributes of each trial, which the rows of the rungs store. The study is
rebuilt in memory from these rows, so that it decides as one lasting study of Optuna does.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import optuna
from optuna.pruners import BasePruner, HyperbandPruner, NopPruner, SuccessiveHalvingPruner
from optuna.trial import TrialState, create_trial

from lambdas.core.study.rungs import FACTOR, Reached, describe
from trainyard.core.model.study import Rule, Study
from trainyard.core.optuna_trials import direction_of
from trainyard.protocol.ledger.study import RungRow
from trainyard.values.lazy import dataclass


@dataclass(frozen=True)
class Judged:
    """The decision about a trial at a rung."""

    reason: str | None
    """Why the trial stops; None if it continues."""
    attributes: Mapping[str, float]
    """The attributes that Optuna has given the trial at this rung."""


def pruner_of(study: Study) -> BasePruner:
    """Return the pruner of Optuna; one that stops no trial for rules that are not Optuna's."""
    rule, start, end = study.pruner.rule, study.pruner.start, study.pruner.end
    if rule is Rule.HALVING:
        return SuccessiveHalvingPruner(min_resource=start, reduction_factor=FACTOR)
    if rule is Rule.HYPERBAND and end:
        return HyperbandPruner(min_resource=start, max_resource=end, reduction_factor=FACTOR)
    return NopPruner()


def create_study(study: Study) -> optuna.Study:
    """Return an empty study of Optuna. Hyperband derives the bracket of a trial from the name of the study."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    pruner = pruner_of(study)
    made = optuna.create_study(direction=direction_of(study), pruner=pruner, study_name=f"seed-{study.seed}")
    if isinstance(pruner, HyperbandPruner):
        pruner.prune(made, create_trial(state=TrialState.RUNNING))  # the sampler needs its brackets
    return made


def judge(study: Study, number: int, mine: Reached, rows: Sequence[RungRow]) -> Judged:
    """Decide about the trial at a rung. `rows` are the rungs of all trials so far."""
    attributes: dict[int, dict[str, Any]] = {
        each: {} for each in range(1, max(number, *(row.number for row in rows), 0) + 1)
    }
    for row in rows:
        attributes[row.number] |= row.attributes
    known = create_study(study)
    known.add_trials(
        [
            create_trial(
                state=TrialState.RUNNING,
                system_attrs=each,
                intermediate_values={mine.rung: mine.value} if at == number else {},
            )
            for at, each in attributes.items()
        ]
    )
    stops = known.pruner.prune(known, known.get_trials(deepcopy=False)[number - 1])
    after = known.get_trials(deepcopy=False)[number - 1].system_attrs
    added = {name: float(value) for name, value in after.items() if name not in attributes[number]}
    where = describe(study.pruner, study.objective, mine)
    ranked = f"{len(_values_at(rows, mine))} other trials there had {_values_in_words(rows, mine)}"
    reason = f"{where}; {ranked}, and only the best third continues ({study.pruner.rule})" if stops else None
    return Judged(reason, added)


def _values_at(rows: Sequence[RungRow], mine: Reached) -> list[float]:
    return sorted(row.value for row in rows if row.step == mine.rung)


def _values_in_words(rows: Sequence[RungRow], mine: Reached) -> str:
    values = _values_at(rows, mine)
    return f"{values[0]:.6g} to {values[-1]:.6g}" if values else "no value"
