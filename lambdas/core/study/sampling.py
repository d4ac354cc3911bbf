"""Draw the values of a trial with Optuna. Pure: the same rows and the same seed give the same values.

The study is rebuilt in memory from its rows. Samplers that keep a state between trials find it in the rows' attributes.
"""

import hashlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import optuna
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, CmaEsSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, Trial
from optuna.trial import TrialState as OptunaState

from lambdas.core.study import pruning
from trainyard.core.jobfile.study_rules import grid_points, in_order, is_active
from trainyard.core.model.study import Parameter, Sampler, Study
from trainyard.core.model.study_fields import Point
from trainyard.core.optuna_trials import create, distribution_of
from trainyard.protocol.ledger.study import DrawnBy, TrialRow, TrialState
from trainyard.protocol.objective import Goal
from trainyard.protocol.trial import MOST_TRIALS
from trainyard.values.lazy import dataclass

MOST_DRAWS = 20
"""The draws of one trial, if each gives values that were tried before."""
CHOSEN = "fixed_params"
"""Optuna's attribute with the values that a user has chosen."""
Values = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Drawn:
    """The values of a new trial, and the state of the sampler that belongs to it."""

    values: Point
    attributes: Mapping[str, Any]


class Sampling:
    """The draws of one turn. A trial counts as running for the next draw."""

    def __init__(self, study: Study, trials: Iterable[TrialRow], warm: Sequence[TrialRow] = ()) -> None:
        """Rebuild the study. `warm` are trials of earlier studies."""
        rows = list(trials)
        self._study, self._parameters = study, in_order(study.parameters)
        self._tried = {_key(row.values) for row in (*rows, *warm)}
        self._optuna = None if study.sampler is Sampler.GRID else rebuild(study, rows, warm)
        whole = [row for row in warm if row.state is TrialState.COMPLETE]
        self._warm = [frozen(study, row, None) for row in whole]

    def draw(self, number: int, chosen: Point | None = None) -> Drawn | None:
        """Return the values of the trial with this number, or None if every combination was tried. `chosen` are values
        that the user has chosen, which may have been tried."""
        if self._optuna is None:
            return self._take_untried(0, chosen)
        for draw in range(MOST_DRAWS):
            drawn = self._ask(self._optuna, f"{self._study.seed}/{number}/{draw}", chosen)
            if _key(drawn.values) not in self._tried or drawn.values == chosen:
                return self._take(drawn)
        return self._take_untried(_seed(f"{self._study.seed}/{number}"), None)

    def _ask(self, study: optuna.Study, seed: str, chosen: Point | None) -> Drawn:
        study.sampler = sampler_of(self._study.sampler, _seed(seed), self._warm)
        if chosen:
            study.enqueue_trial(dict(chosen))
        trial = study.ask()
        values: dict[str, Any] = {}
        for path, parameter in self._parameters.items():
            if is_active(parameter, values):
                values[path] = _suggest(trial, path, parameter)
        if _key(values) in self._tried and values != chosen:
            study.tell(trial, state=OptunaState.FAIL)
        stored = study.get_trials(deepcopy=False)[trial.number].system_attrs
        attributes = {name: value for name, value in stored.items() if name != CHOSEN}
        return Drawn(values, attributes)

    def _take(self, drawn: Drawn) -> Drawn:
        self._tried.add(_key(drawn.values))
        return drawn

    def _take_untried(self, index: int, chosen: Point | None) -> Drawn | None:
        """Return a combination of a finite space that no trial has, or None if there is none."""
        wanted = chosen or {}
        left = [
            point
            for point in finite_points(self._study)
            if _key(point) not in self._tried and wanted.items() <= point.items()
        ]
        return self._take(Drawn(left[index % len(left)], {})) if left else None


def rebuild(study: Study, rows: Sequence[TrialRow], warm: Sequence[TrialRow] = ()) -> optuna.Study:
    """Return the study of Optuna with these trials, and after them the trials of earlier studies. Trial 1 has Optuna's
    number 0."""
    rebuilt = pruning.create_study(study)
    is_high = study.objective.goal is Goal.MAXIMIZE
    values = [row.value for row in rows if row.state is TrialState.COMPLETE and row.value is not None]
    worst = (min if is_high else max)(values, default=None)
    rebuilt.add_trials([frozen(study, row, worst) for row in (*rows, *warm)])
    return rebuilt


def frozen(study: Study, row: TrialRow, worst: float | None) -> FrozenTrial:
    """Return a trial as Optuna stores it. Samplers ignore trials that have failed.

    Stopped trials are worse than complete ones, ordered by step and then by value; failed trials are worse than both.
    CMA-ES ignores pruned trials, so it gets the value of the worst complete trial instead.
    """
    is_result = row.state.is_answer and row.drawn_by is not DrawnBy.RETRAIN
    if row.state.is_open:
        return create(study, row, OptunaState.RUNNING)
    if not is_result or (
        row.state is not TrialState.COMPLETE and study.sampler is Sampler.CMAES and worst is None
    ):
        return create(study, row, OptunaState.FAIL)
    if row.state is TrialState.COMPLETE:
        return create(study, row, OptunaState.COMPLETE, row.value)
    if study.sampler is Sampler.CMAES:
        return create(study, row, OptunaState.COMPLETE, worst)
    return create(study, row, OptunaState.PRUNED)


def sampler_of(kind: Sampler, seed: int, warm: Sequence[FrozenTrial] = ()) -> BaseSampler:
    """Return the sampler of Optuna. CMA-ES begins near the best trials of earlier studies."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        match kind:
            case Sampler.RANDOM | Sampler.NONE:
                return RandomSampler(seed=seed)
            case Sampler.CMAES:
                return CmaEsSampler(seed=seed, warn_independent_sampling=False, source_trials=[*warm] or None)
            case _:
                return TPESampler(seed=seed)


def finite_points(study: Study) -> list[Point]:
    """Return every combination of values, or none if there are more than a study can try."""
    most = 1
    for parameter in study.parameters.values():
        most *= parameter.grid_size if not parameter.log else 0
    return grid_points(study) if 0 < most <= 100 * MOST_TRIALS else []


def _suggest(trial: Trial, path: str, parameter: Parameter) -> Any:
    match distribution_of(parameter):
        case IntDistribution() as whole:
            return trial.suggest_int(path, whole.low, whole.high, step=whole.step)
        case FloatDistribution() as number:
            return trial.suggest_float(path, number.low, number.high, step=number.step, log=number.log)
        case _:
            return trial.suggest_categorical(path, parameter.choice or ())


def _key(values: Point) -> Values:
    return tuple(sorted(values.items()))


def _seed(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])
