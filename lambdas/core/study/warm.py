"""Trials of earlier studies that inform the sampler of a new one: what fits, and what is left out. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from trainyard.core.jobfile.study_rules import is_active
from trainyard.core.model.study import Study
from trainyard.protocol.ledger.study import DrawnBy, TrialRow
from trainyard.values.lazy import dataclass
from trainyard.values.quantities import format_count

MOST_TRIALS = 1000
"""The most trials that a study takes: the newest ones."""


@dataclass(frozen=True)
class Warm:
    """The trials that a new study takes from an earlier one."""

    trials: tuple[TrialRow, ...]
    report: str | None
    """A sentence about the values that are left out; None if the study takes everything."""


def find_fault(study: Study, name: str, earlier: Study | None) -> str | None:
    """Return why a study cannot take the trials of an earlier one, or None."""
    if earlier is None:
        return f"{name} is not a study of this yard"
    mine, other = study.objective, earlier.objective
    if mine.goal is not other.goal:
        return (
            f"{name} searches the other direction: it would {other.goal} {other.metric}, and this study would "
            f"{mine.goal} {mine.metric}"
        )
    return None


def take(study: Study, name: str, earlier: Study, rows: Iterable[TrialRow]) -> Warm:
    """Return the results of an earlier study, each with the values that the new study allows."""
    results = [row for row in rows if row.state.is_answer and row.drawn_by is not DrawnBy.RETRAIN]
    dropped, trials = Counter[str](), list[TrialRow]()
    for row in results:
        sound = {
            path: value
            for path, value in row.values.items()
            if path in study.parameters and study.parameters[path].allows(value)
        }
        values = {path: value for path, value in sound.items() if is_active(study.parameters[path], sound)}
        dropped.update(row.values.keys() - values.keys())
        if values:
            trials.append(replace(row, values=values, attributes={}))
    return Warm(tuple(trials[-MOST_TRIALS:]), _report(study, name, earlier, dropped, results, trials))


def _report(
    study: Study,
    name: str,
    earlier: Study,
    dropped: Counter[str],
    results: Sequence[TrialRow],
    taken: Sequence[TrialRow],
) -> str | None:
    mine, other = study.objective.metric, earlier.objective.metric
    metric = [f"its {other} counts as {mine}"] if mine != other else []
    values = [
        f"{path} of {format_count(count, 'trial')} "
        + ("(outside this study's values)" if path in study.parameters else "(no parameter of this study)")
        for path, count in sorted(dropped.items())
    ]
    new = sorted(study.parameters.keys() - earlier.parameters.keys())
    missing = [f"no trial has {path}" for path in new]
    if not (metric or values or missing):
        return None
    left_out = [f"left out: {', '.join(values)}"] if values else []
    used = f"{len(taken)} of {format_count(len(results), 'trial')} of {name}"
    counted = f"study.warm: the sampler uses {used}"
    return "; ".join([counted, *left_out, *missing, *metric])
