"""A turn of a study: from its rows and the trials that have ended, decide which trials start and whether it is over.

Pure. Each turn settles everything that it finds; a repeated turn finds nothing to do. A study lends each trial its cap
before the trial starts, so that its dollars are kept before they are spent.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from math import floor
from typing import Protocol

from lambdas.core.study.results import Result
from trainyard.core.model.errors import Infrastructure, LimitReached, ProgramFailed, Stopped
from trainyard.core.model.study import Study
from trainyard.core.model.study_fields import Point
from trainyard.core.model.study_money import LEAST_DOLLARS, dollars_for_a_trial
from trainyard.protocol.ledger.study import DrawnBy, StudyRow, TrialRow, TrialState
from trainyard.protocol.trial import MOST_TRIALS
from trainyard.values.lazy import dataclass
from trainyard.values.quantities import format_count

MOST_NEW = 48
"""The most trials that one turn asks for, and the most that it reports. One transaction holds both."""
MOST_FAILURES = 3
"""The number of program errors without a success, or of lost trials in a row, that end a study."""


class Draw(Protocol):
    """The values of a drawn trial."""

    @property
    def values(self) -> Point: ...
    @property
    def attributes(self) -> Mapping[str, object]: ...


Sampler = Callable[[int, Point | None], Draw | None]
"""A function that draws the values of the trial with a number, around values that a user has chosen."""
StartSampler = Callable[[Study, Sequence[TrialRow]], Sampler]
"""A function that prepares a sampler for the trials so far."""


class End(StrEnum):
    """Why a study is over."""

    FINISHED = "finished"
    """All its trials are reported."""
    EXHAUSTED = "exhausted"
    """All combinations of values were tried."""
    BUDGET = "budget"
    """Its dollars allow no further trial."""
    HOURS = "hours"
    """Its hours are used up."""
    STOPPED = "stopped"
    """A user stopped it."""
    FAILURES = "failures"
    """Its first trials all failed."""
    LOSSES = "losses"
    """Its last trials were all lost."""


@dataclass(frozen=True)
class Over:
    """The end of a study. `error` is None for a study with a best trial, unless a user stopped it."""

    end: End
    reason: str
    error: str | None


@dataclass(frozen=True, kw_only=True)
class Situation:
    """A study before its turn."""

    study: Study
    most_dollars: float
    """The most that one trial may cost, as the job says."""
    row: StudyRow
    trials: Sequence[TrialRow]
    results: Mapping[int, Result]
    """The trials that have ended since the last turn, at most MOST_NEW."""
    is_metric_seen: bool
    """True if a running trial has reported the metric."""
    reserve: float
    """The dollars that warm hosts of ended trials may still cost."""
    stopped_by: str | None
    """The user who stopped the study."""
    now: datetime


@dataclass(frozen=True, kw_only=True)
class Turn:
    """The decisions of a turn."""

    row: StudyRow
    changed: tuple[TrialRow, ...]
    """The trials to write: reported and new ones."""
    to_start: tuple[TrialRow, ...]
    """The trials whose executions start, or have started in a turn that was not completed."""
    to_stop: tuple[TrialRow, ...]
    """The running trials of a study that ends."""
    over: Over | None
    """The end, once no trial runs."""


def decide(given: Situation, start_sampler: StartSampler) -> Turn:
    """Decide everything that follows from what has ended."""
    reported = [
        _report(row, given.results[row.number], given.now)
        for row in _open(given.trials)
        if row.number in given.results
    ]
    trials = _merged(given.trials, reported)
    ending = _why_over(given, trials)
    new, nothing_left = ([], None) if ending else _new_trials(given, trials, start_sampler)
    trials = _merged(trials, new)
    open_trials = _open(trials)
    over = ending or nothing_left
    return Turn(
        row=_counted(given, trials),
        changed=(*reported, *new),
        to_start=tuple(row for row in open_trials if row.state is TrialState.ASKED),
        to_stop=tuple(row for row in open_trials if row.state is TrialState.STARTED) if ending else (),
        over=over if not open_trials else None,
    )


def best_of(study: Study, trials: Iterable[TrialRow]) -> TrialRow | None:
    """Return the complete trial with the best value; of equal ones, the first."""
    complete = [
        (row.value, row) for row in trials if row.state is TrialState.COMPLETE and row.value is not None
    ]
    best: tuple[float, TrialRow] | None = None
    for value, row in sorted(complete, key=lambda each: each[1].number):
        best = (value, row) if best is None or study.objective.is_better(value, best[0]) else best
    return best[1] if best else None


def _report(row: TrialRow, result: Result, now: datetime) -> TrialRow:
    return replace(
        row,
        state=result.state,
        reported=now,
        value=result.value,
        step=result.step,
        dollars=result.dollars,
        reason=result.reason,
        error=result.error,
    )


def _open(trials: Iterable[TrialRow]) -> list[TrialRow]:
    return [row for row in trials if row.state.is_open]


def _merged(trials: Iterable[TrialRow], newer: Iterable[TrialRow]) -> list[TrialRow]:
    by_number = {row.number: row for row in trials} | {row.number: row for row in newer}
    return [by_number[number] for number in sorted(by_number)]


def _counts(row: TrialRow) -> bool:
    """Return True for an ended trial that counts: a result, or values that were lost twice."""
    return row.state.is_answer or (row.state is TrialState.LOST and row.again is not None)


def _counted(given: Situation, trials: Sequence[TrialRow]) -> StudyRow:
    best = best_of(given.study, trials)
    return replace(
        given.row,
        version=given.row.version + 1,
        spent=_spent(trials),
        lent=_lent(trials),
        best=best.number if best else None,
        value=best.value if best else None,
        reported=sum(map(_counts, trials)),
        running=len(_open(trials)),
    )


def _spent(trials: Iterable[TrialRow]) -> float:
    return round(sum(row.dollars or 0.0 for row in trials), 5)


def _lent(trials: Iterable[TrialRow]) -> float:
    return round(sum(row.cap for row in _open(trials)), 5)


def _why_over(given: Situation, trials: Sequence[TrialRow]) -> Over | None:
    """Return why the study ends, even if trials still run."""
    if given.stopped_by:
        return Over(
            End.STOPPED,
            _summed_up(given, trials, f"{given.stopped_by} has stopped the study"),
            Stopped.__name__,
        )
    if given.now >= given.row.until:
        return _ended(given, trials, End.HOURS, "its hours are used up", LimitReached.__name__)
    failed = [row for row in trials if row.state is TrialState.FAILED]
    works = any(row.state in (TrialState.COMPLETE, TrialState.STOPPED) for row in trials)
    if len(failed) >= MOST_FAILURES and not works:
        what = (
            f"the first {format_count(len(failed), 'trial')} failed, the last one because {failed[-1].reason}"
        )
        return _ended(given, trials, End.FAILURES, what, failed[-1].error or ProgramFailed.__name__)
    last = sorted((row for row in trials if row.reported), key=_order)[-MOST_FAILURES:]
    if len(last) == MOST_FAILURES and all(row.state is TrialState.LOST for row in last):
        what = (
            f"the last {format_count(len(last), 'trial')} were lost, the last one because {last[-1].reason}"
        )
        return _ended(given, trials, End.LOSSES, what, last[-1].error or Infrastructure.__name__)
    if sum(map(_counts, trials)) >= given.row.trials:
        return _ended(given, trials, End.FINISHED, "all trials are reported", ProgramFailed.__name__)
    return None


def _order(row: TrialRow) -> tuple[datetime, int]:
    assert row.reported
    return row.reported, row.number


def _ended(given: Situation, trials: Sequence[TrialRow], end: End, what: str, error: str) -> Over:
    has_best = best_of(given.study, trials) is not None
    return Over(end, _summed_up(given, trials, what), None if has_best else error)


def _summed_up(given: Situation, trials: Sequence[TrialRow], what: str) -> str:
    """Return the reason of an end, with the number of trials, the dollars, and the best trial."""
    metric, best = given.study.objective.metric, best_of(given.study, trials)
    done = f"{format_count(sum(map(_counts, trials)), 'trial')} for ${_spent(trials):.2f}"
    found = (
        f"the best is trial {best.number} with {metric} {best.value:.6g}" if best else f"none left a {metric}"
    )
    return f"{what}: {done}; {found}"


def _new_trials(
    given: Situation, trials: Sequence[TrialRow], start_sampler: StartSampler
) -> tuple[list[TrialRow], Over | None]:
    """Return the trials to ask for now, and why no further trial can start if that is so."""
    running, new = len(_open(trials)), list[TrialRow]()
    is_proven = given.is_metric_seen or any(row.state.is_answer for row in trials)
    slots = (given.study.parallel if is_proven else 1) - running
    wanted = given.row.trials - sum(map(_counts, trials)) - running
    sampler: Sampler | None = None
    for free in range(min(slots, wanted, MOST_NEW), 0, -1):
        known = _merged(trials, new)
        number = len(known) + 1
        cap = _cap(given, known, free)
        if cap is None:
            return new, _ended(given, known, End.BUDGET, _why_no_money(given, known), LimitReached.__name__)
        if number > MOST_TRIALS:
            what = f"a study has at most {MOST_TRIALS} trials, with those that were lost"
            return new, _ended(given, known, End.EXHAUSTED, what, ProgramFailed.__name__)
        row = _again(known, number, cap, given.now)
        if row is None:
            sampler = sampler or start_sampler(given.study, trials)
            row = _drawn(given, known, number, cap, sampler)
        if row is None:
            what = "all combinations of values were tried"
            return new, _ended(given, known, End.EXHAUSTED, what, ProgramFailed.__name__)
        new.append(row)
    return new, None


def _again(known: Sequence[TrialRow], number: int, cap: float, now: datetime) -> TrialRow | None:
    """Return a trial with the values of one that was lost once."""
    repeated = {row.again for row in known}
    for row in known:
        if row.state is TrialState.LOST and row.again is None and row.number not in repeated:
            return TrialRow(
                number=number,
                values=row.values,
                drawn_by=DrawnBy.AGAIN,
                state=TrialState.ASKED,
                cap=cap,
                asked=now,
                again=row.number,
                attributes=row.attributes,
            )
    return None


def _drawn(
    given: Situation, known: Sequence[TrialRow], number: int, cap: float, sampler: Sampler
) -> TrialRow | None:
    used = sum(row.drawn_by is DrawnBy.FIRST for row in known)
    chosen = given.study.first[used] if used < len(given.study.first) else None
    drawn = sampler(number, chosen)
    if drawn is None:
        return None
    return TrialRow(
        number=number,
        values=drawn.values,
        drawn_by=DrawnBy.FIRST if chosen is not None else DrawnBy.SAMPLER,
        state=TrialState.ASKED,
        cap=cap,
        asked=given.now,
        attributes=drawn.attributes,
    )


def _left(given: Situation, trials: Sequence[TrialRow]) -> float:
    return given.row.dollars - _spent(trials) - _lent(trials) - given.reserve


def _cap(given: Situation, trials: Sequence[TrialRow], free: int) -> float | None:
    """Return the cap of the next trial, with `free` slots for which the rest must last; None if too little is left."""
    left = _left(given, trials)
    if left < dollars_for_a_trial(trials):
        return None
    cap = floor(min(given.most_dollars, max(left / free, dollars_for_a_trial(trials))) * 10_000) / 10_000
    return cap if cap >= LEAST_DOLLARS else None


def _why_no_money(given: Situation, trials: Sequence[TrialRow]) -> str:
    return (
        f"${max(_left(given, trials), 0.0):.2f} of ${given.row.dollars:g} are left, and a further trial needs "
        f"${dollars_for_a_trial(trials):.2f}"
    )
