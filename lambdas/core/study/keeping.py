"""The files of trials that a study deletes at its end: models and checkpoints, but not of the best trials. Pure."""

from collections.abc import Iterable

from lambdas.core.study.situation import list_trials
from trainyard.core.model.study import Study
from trainyard.protocol import keys
from trainyard.protocol.ledger.study import DrawnBy, TrialRow, TrialState

STOPPED = (TrialState.STOPPED, TrialState.CUT)
"""The states of trials that `resume` continues, so that they keep their checkpoints."""


def kept_trials(study: Study, rows: Iterable[TrialRow]) -> list[TrialRow]:
    """Return the best complete trials, and those that retrained the best one."""
    trials = list(rows)
    complete = [
        (row.value, row)
        for row in list_trials(trials)
        if row.state is TrialState.COMPLETE and row.value is not None
    ]
    is_high = study.objective.is_better(1.0, 0.0)
    ranked = sorted(complete, key=lambda each: (-each[0] if is_high else each[0], each[1].number))
    best = [row for _, row in ranked[: study.keep]]
    return [*best, *(row for row in trials if row.drawn_by is DrawnBy.RETRAIN)]


def deleted_folders(study: Study, name: str, rows: Iterable[TrialRow]) -> list[str]:
    """Return the folders that the study deletes at its end."""
    trials = list(rows)
    kept = {row.number for row in kept_trials(study, trials)}
    folders = []
    for row in trials:
        if row.number not in kept and not row.state.is_open:
            run = row.run_of(name)
            folders += [keys.model(run)] if row.state in STOPPED else [keys.model(run), keys.checkpoints(run)]
    return folders
