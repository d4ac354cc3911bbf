"""The importance of the parameters for the metric, by Optuna's PED-ANOVA. Pure."""

from collections.abc import Iterable

from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

from lambdas.core.study import sampling
from trainyard.core.model.study import Study
from trainyard.protocol.ledger.study import DrawnBy, StudyRow, TrialRow, TrialState

LEAST_TRIALS = 10
"""The complete trials that a first answer needs."""
EVERY_TRIALS = 10
"""The reported trials between two answers, because an answer about 1,000 trials takes as long as the turn itself."""


def is_due(before: StudyRow, now: StudyRow) -> bool:
    """Return True if a tenth trial was reported in between."""
    return now.reported // EVERY_TRIALS > before.reported // EVERY_TRIALS


def measure(study: Study, trials: Iterable[TrialRow]) -> dict[str, float]:
    """Return the share of each parameter in the differences of the metric, together 1. It is empty before LEAST_TRIALS
    trials are complete, with one parameter, and if all values of the metric are equal."""
    complete = [
        row
        for row in trials
        if row.state is TrialState.COMPLETE and row.drawn_by is not DrawnBy.RETRAIN and row.value is not None
    ]
    if len(complete) < LEAST_TRIALS or len(study.parameters) < 2 or len({row.value for row in complete}) < 2:
        return {}
    found = get_param_importances(sampling.rebuild(study, complete), evaluator=PedAnovaImportanceEvaluator())
    return {path: round(share, 4) for path, share in found.items()}
