"""A turn of a study: from its rows and the trials that have ended, decide which trials start and whether it is over.

Pure. Each turn settles everything that it finds; a repeated turn finds nothing to do. A study lends each trial its cap
before the trial starts, so that its dollars are kept before they are spent.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from lambdas.core.study import money
from lambdas.core.study.results import NO_METRIC, Result
from lambdas.core.study.situation import (
    End,
    Over,
    Sampler,
    Situation,
    StartSampler,
    Turn,
    best_of,
    counts,
    find_retraining,
    list_trials,
)
from trainyard.core.model.errors import Infrastructure, LimitReached, ProgramFailed, Stopped
from trainyard.core.model.study import Sampler as Kind
from trainyard.core.model.study_fields import Point
from trainyard.protocol.ledger.study import DrawnBy, StudyRow, TrialRow, TrialState
from trainyard.protocol.trial import MOST_TRIALS
from trainyard.values.quantities import dollars, format_count

MOST_NEW = 48
"""The most trials that one turn asks for, and the most that it reports. One transaction holds both."""
MOST_FAILURES = 3
"""The number of program errors without a success, or of lost trials in a row, that end a study."""
FIRST = "first-"
"""The beginning of the id of a point in `study.first`."""
RETRAINS = (End.FINISHED, End.EXHAUSTED, End.BUDGET)
"""The ends after which the best trial is trained once more, if the study retrains."""


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
    if over and not open_trials and (last := _retrain(given, trials, over)):
        new, trials, open_trials = [*new, last], [*trials, last], [last]
    return Turn(
        row=_counted(given, trials),
        changed=(*reported, *new),
        to_start=tuple(row for row in open_trials if row.state is TrialState.ASKED),
        to_stop=_to_stop(open_trials, ending),
        over=over if not open_trials else None,
    )


def _to_stop(open_trials: Iterable[TrialRow], ending: Over | None) -> tuple[TrialRow, ...]:
    """Return the trials that a study stops at its end. Only a user or the hours stop the retraining."""
    started = [row for row in open_trials if row.state is TrialState.STARTED]
    if ending is None or ending.end in RETRAINS:
        started = [row for row in started if ending and row.drawn_by is not DrawnBy.RETRAIN]
    return tuple(started)


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


def _counted(given: Situation, trials: Sequence[TrialRow]) -> StudyRow:
    best = best_of(given.study, trials)
    return replace(
        given.row,
        version=given.row.version + 1,
        spent=money.spent(trials),
        lent=money.lent(trials),
        best=best.number if best else None,
        value=best.value if best else None,
        reported=sum(map(counts, trials)),
        running=len(_open(trials)),
        retrained=next(
            (row.number for row in find_retraining(given.row, trials) if row.state is TrialState.COMPLETE),
            None,
        ),
    )


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
    if find_retraining(given.row, trials):
        what = "all trials are reported" if _is_complete(given, trials) else "no further trial was possible"
        return _ended(given, trials, End.FINISHED, what, ProgramFailed.__name__)
    newer = _newer(given, trials)
    failed, works = [row for row in newer if row.state is TrialState.FAILED], _works(trials)
    nameless = [row for row in failed if row.error == NO_METRIC]
    if nameless and not works and not given.is_metric_seen:
        what = f"trial {nameless[0].number} finished without the metric: {nameless[0].reason}"
        return _ended(given, trials, End.FAILURES, what, ProgramFailed.__name__)
    if len(failed) >= MOST_FAILURES and not works:
        what = (
            f"the first {format_count(len(failed), 'trial')} failed, the last one because {failed[-1].reason}"
        )
        error = next((row.error for row in reversed(failed) if row.error not in (None, NO_METRIC)), None)
        return _ended(given, trials, End.FAILURES, what, error or ProgramFailed.__name__)
    last = sorted((row for row in newer if row.reported), key=_order)[-MOST_FAILURES:]
    if len(last) == MOST_FAILURES and all(row.state is TrialState.LOST for row in last):
        what = (
            f"the last {format_count(len(last), 'trial')} were lost, the last one because {last[-1].reason}"
        )
        return _ended(given, trials, End.LOSSES, what, last[-1].error or Infrastructure.__name__)
    if _is_complete(given, trials):
        return _ended(given, trials, End.FINISHED, "all trials are reported", ProgramFailed.__name__)
    return None


def _is_complete(given: Situation, trials: Iterable[TrialRow]) -> bool:
    return sum(map(counts, trials)) >= given.row.trials


def _order(row: TrialRow) -> tuple[datetime, int]:
    assert row.reported
    return row.reported, row.number


def _ended(given: Situation, trials: Sequence[TrialRow], end: End, what: str, error: str) -> Over:
    has_best = best_of(given.study, trials) is not None
    return Over(end, _summed_up(given, trials, what), None if has_best else error)


def _summed_up(given: Situation, trials: Sequence[TrialRow], what: str) -> str:
    """Return the reason of an end, with the number of trials, the dollars, and the best trial."""
    metric, best = given.study.objective.metric, best_of(given.study, trials)
    done = f"{format_count(sum(map(counts, trials)), 'trial')} for {dollars(money.spent(trials))}"
    found = (
        f"the best is trial {best.number} with {metric} {best.value:.6g}"
        if best
        else f"no trial left {metric}"
    )
    return f"{what}: {done}; {found}{_describe_retraining(given, trials)}"


def _describe_retraining(given: Situation, trials: Sequence[TrialRow]) -> str:
    ended = [row for row in find_retraining(given.row, trials) if not row.state.is_open]
    if not ended:
        return ""
    last, metric = ended[-1], given.study.objective.metric
    if last.value is None or last.state is not TrialState.COMPLETE:
        return f"; its retraining, trial {last.number}, left no {metric}: {last.reason}"
    return f"; retrained, as trial {last.number}, it has {last.value:.6g}"


def _new_trials(
    given: Situation, trials: Sequence[TrialRow], start_sampler: StartSampler
) -> tuple[list[TrialRow], Over | None]:
    """Return the trials to ask for now, and why no further trial can start if that is so."""
    running, new = len(_open(trials)), list[TrialRow]()
    slots = _most_at_once(given, trials) - running
    wanted = given.row.trials - sum(map(counts, trials)) - running
    sampler: Sampler | None = None
    for free in range(min(slots, wanted, MOST_NEW), 0, -1):
        known = _merged(trials, new)
        number = len(known) + 1
        cap = money.cap(given, known, free)
        if cap is None:
            return new, _ended(
                given, known, End.BUDGET, money.why_no_money(given, known), LimitReached.__name__
            )
        if number > MOST_TRIALS:
            what = f"a study has at most {MOST_TRIALS} trials, with those that were lost"
            return new, _ended(given, known, End.EXHAUSTED, what, ProgramFailed.__name__)
        row = _again(known, number, cap, given.now)
        if row is None:
            sampler = sampler or start_sampler(given.study, trials)
            row = _drawn(given, known, number, cap, sampler)
        if row is None and given.study.sampler is Kind.NONE:
            return new, None  # users may add further points
        if row is None:
            what = "all combinations of values were tried"
            return new, _ended(given, known, End.EXHAUSTED, what, ProgramFailed.__name__)
        new.append(row)
    return new, None


def _most_at_once(given: Situation, trials: Sequence[TrialRow]) -> int:
    """Return the number of trials that may run at once. Before a trial has left the metric or reported it, the first
    one has the study to itself, and no more run than failures end the study."""
    if given.is_metric_seen or _works(trials):
        return given.study.parallel
    ended = [row for row in _newer(given, trials) if row.state.is_answer]
    return min(given.study.parallel, MOST_FAILURES - len(ended)) if ended else 1


def _newer(given: Situation, trials: Iterable[TrialRow]) -> list[TrialRow]:
    """Return the trials since the study began or was continued."""
    return [row for row in list_trials(trials) if row.number > given.row.since]


def _works(trials: Iterable[TrialRow]) -> bool:
    return any(row.state in (TrialState.COMPLETE, TrialState.STOPPED) for row in list_trials(trials))


def _again(known: Sequence[TrialRow], number: int, cap: float, now: datetime) -> TrialRow | None:
    """Return a trial with the values of one that was lost once."""
    repeated = {row.again for row in known}
    for row in list_trials(known):
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


def _retrain(given: Situation, trials: Sequence[TrialRow], over: Over) -> TrialRow | None:
    """Return the trial that retrains the best one at the end of the search, if it is due. A lost one is tried again."""
    changes, best = given.study.then.retrain, best_of(given.study, trials)
    before = find_retraining(given.row, trials)
    is_lost = len(before) == 1 and before[0].state is TrialState.LOST
    cap = money.cap_of_retraining(given, trials)
    if changes is None or best is None or over.end not in RETRAINS or (before and not is_lost) or cap is None:
        return None
    if len(trials) >= MOST_TRIALS:
        return None
    return TrialRow(
        number=len(trials) + 1,
        values={**best.values, **changes},
        drawn_by=DrawnBy.RETRAIN,
        state=TrialState.ASKED,
        cap=cap,
        asked=given.now,
    )


def _drawn(
    given: Situation, known: Sequence[TrialRow], number: int, cap: float, sampler: Sampler
) -> TrialRow | None:
    drawn_by, chosen, point = _choose(given, known)
    if chosen is None and given.study.sampler is Kind.NONE:
        return None
    drawn = sampler(number, chosen)
    if drawn is None:
        return None
    return TrialRow(
        number=number,
        values=drawn.values,
        drawn_by=drawn_by,
        state=TrialState.ASKED,
        cap=cap,
        asked=given.now,
        point=point,
        attributes=drawn.attributes,
    )


def _choose(given: Situation, known: Sequence[TrialRow]) -> tuple[DrawnBy, Point | None, str | None]:
    """Return the source of the next values, the values that a user has chosen, and the id of an added point."""
    taken = {row.point for row in known if row.takes_point}
    for added in given.points:
        if added.id not in taken:
            return DrawnBy.ADDED, added.values, added.id
    for index, values in enumerate(given.study.first, start=1):
        if f"{FIRST}{index}" not in taken:
            return DrawnBy.FIRST, values, f"{FIRST}{index}"
    return DrawnBy.SAMPLER, None, None
