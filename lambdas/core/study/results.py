"""The result of a trial, from the row of its run and the metrics that its program left. Pure."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from trainyard.core.model.errors import Blame, BudgetSpent, blame_of
from trainyard.protocol.ledger.run import Outcome, RunRow
from trainyard.protocol.ledger.study import TrialState
from trainyard.protocol.trial import STUDY
from trainyard.values.lazy import dataclass
from trainyard.values.validation import any_of, did_you_mean

MOST_NAMED = 12
NO_METRIC = "NoMetric"
"""The error of a trial whose program finished and left other metrics only. Probably its study misspells the metric."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """The end of a trial."""

    state: TrialState
    reason: str
    dollars: float
    value: float | None = None
    step: int | None = None
    error: str | None = None


def result_of(run: RunRow, metrics: Mapping[str, Any] | None, metric: str) -> Result:
    """Return the result of a run that has ended."""
    reason, step = run.reason or "", (run.progress or {}).get("step")
    dollars, state, error = run.dollars or 0.0, TrialState.FAILED, run.error
    value: float | None = None
    if run.pruned and run.outcome is Outcome.STOPPED:
        state, value, step, reason = TrialState.STOPPED, run.pruned.value, run.pruned.rung, run.pruned.reason
    elif run.outcome is Outcome.STOPPED:
        state = TrialState.CUT if run.stopped_by == STUDY else TrialState.STOPPED
    elif run.outcome is Outcome.SUCCEEDED:
        found = (metrics or {}).get(metric)
        if isinstance(found, int | float) and not isinstance(found, bool) and isfinite(found):
            state, value = TrialState.COMPLETE, float(found)
        else:
            reason = _why_no_value(metrics, metric)
            error = None if metric in (metrics or {}) else NO_METRIC
    elif run.error == BudgetSpent.__name__ or blame_of(run.error) is not Blame.USER:
        state = TrialState.LOST
    return Result(state=state, reason=reason, dollars=dollars, value=value, step=step, error=error)


def lost(reason: str) -> Result:
    """Return the result of a trial whose execution ended without a run."""
    return Result(state=TrialState.LOST, reason=reason, dollars=0.0)


def _why_no_value(metrics: Mapping[str, Any] | None, metric: str) -> str:
    if metrics is None:
        return f"the program left no metrics.json, so that the trial has no {metric}"
    if metric in metrics:
        return f"{metric} in metrics.json is {metrics[metric]!r:.40}, which is not a finite number"
    numbers = [name for name, each in metrics.items() if isinstance(each, int | float)]
    named = any_of(numbers[:MOST_NAMED]) or "no number"
    return f"metrics.json has no {metric}; it has {named}{did_you_mean(metric, numbers)}"
