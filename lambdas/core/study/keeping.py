"""The files of trials that a study deletes at its end: models and checkpoints, but not of the best trials. Pure."""

from collections.abc import Collection, Iterable

from lambdas.core.study.situation import list_trials
from trainyard.core.model.study import Study
from trainyard.protocol import keys
from trainyard.protocol.ledger.study import DrawnBy, TrialRow, TrialState

STOPPED = (TrialState.STOPPED, TrialState.CUT)
"""The states of trials that have saved before their end."""


def kept_trials(study: Study, rows: Iterable[TrialRow]) -> list[TrialRow]:
    """Return the best trials, and those that retrained the best one. A stopped trial is worse than every complete one;
    of two stopped ones, the one that came farther is better, as for the sampler."""
    trials = list(rows)
    sign = -1.0 if study.objective.is_better(1.0, 0.0) else 1.0
    complete = [
        (sign * row.value, row.number, row)
        for row in list_trials(trials)
        if row.state is TrialState.COMPLETE and row.value is not None
    ]
    stopped = [
        (-(row.step or 0), row.value is None, sign * (row.value or 0.0), row.number, row)
        for row in list_trials(trials)
        if row.state in STOPPED
    ]
    ranked = [each[-1] for each in sorted(complete, key=lambda each: each[:-1])]
    ranked += [each[-1] for each in sorted(stopped, key=lambda each: each[:-1])]
    return [*ranked[: study.keep], *(row for row in trials if row.drawn_by is DrawnBy.RETRAIN)]


def deleted_folders(
    study: Study, name: str, rows: Iterable[TrialRow], resumed: Collection[str] = ()
) -> list[str]:
    """Return the folders that the study deletes at its end. `resumed` are the runs whose checkpoints an open run may
    still restore."""
    trials = list(rows)
    kept = {row.number for row in kept_trials(study, trials)}
    folders = []
    for row in trials:
        if row.number not in kept and not row.state.is_open:
            run = row.run_of(name)
            folders += [keys.model(run)] if run in resumed else [keys.model(run), keys.checkpoints(run)]
    return folders
