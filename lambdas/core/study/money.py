"""The money of a study: the caps of its trials, and what is left. A study lends each trial its cap before the trial
starts, so that its dollars are kept before they are spent. Pure."""

from collections.abc import Iterable, Sequence
from math import floor

from lambdas.core.study.situation import Situation, find_retraining
from trainyard.core.model.study_money import LEAST_DOLLARS, dollars_for_a_trial
from trainyard.protocol.ledger.study import TrialRow
from trainyard.values.quantities import dollars


def spent(trials: Iterable[TrialRow]) -> float:
    return round(sum(row.dollars or 0.0 for row in trials), 5)


def lent(trials: Iterable[TrialRow]) -> float:
    return round(sum(row.cap for row in trials if row.state.is_open), 5)


def left(given: Situation, trials: Sequence[TrialRow]) -> float:
    """Return the dollars that a further trial may cost. The dollars of the retraining are reserved."""
    return _unlent(given, trials) - (given.most_dollars if _is_due(given, trials) else 0.0)


def _unlent(given: Situation, trials: Sequence[TrialRow]) -> float:
    return given.row.dollars - spent(trials) - lent(trials) - given.reserve


def _is_due(given: Situation, trials: Sequence[TrialRow]) -> bool:
    return given.study.then.retrain is not None and not find_retraining(given.row, trials)


def cap_of_retraining(given: Situation, trials: Sequence[TrialRow]) -> float | None:
    """Return the cap of the retraining; None if too little is left."""
    most = floor(min(given.most_dollars, _unlent(given, trials)) * 10_000) / 10_000
    return most if most >= LEAST_DOLLARS else None


def cap(given: Situation, trials: Sequence[TrialRow], free: int) -> float | None:
    """Return the cap of the next trial, with `free` slots for which the rest must last; None if too little is left."""
    unreserved = left(given, trials)
    if unreserved < dollars_for_a_trial(trials):
        return None
    most = (
        floor(min(given.most_dollars, max(unreserved / free, dollars_for_a_trial(trials))) * 10_000) / 10_000
    )
    return most if most >= LEAST_DOLLARS else None


def why_no_money(given: Situation, trials: Sequence[TrialRow]) -> str:
    return (
        f"{dollars(max(left(given, trials), 0.0))} of {dollars(given.row.dollars)} are left, and a further trial needs "
        f"{dollars(dollars_for_a_trial(trials))}"
    )
