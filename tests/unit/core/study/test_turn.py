"""A turn: from the rows of a study and the trials that ended, the trials to start and to stop, and the end."""
# ruff: noqa: E501 - one line a row

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from lambdas.core.study import money, turn
from lambdas.core.study.results import Result
from lambdas.core.study.situation import End, Situation, Turn
from tests.unit.core.study.builders import NOW, result, situation, start_sampler, study_of, trial
from trainyard.protocol.ledger.study import DrawnBy, PointRow, StudyRow, TrialRow, TrialState

ASKED, STARTED, COMPLETE = TrialState.ASKED, TrialState.STARTED, TrialState.COMPLETE
FAILED, LOST, STOPPED, CUT = TrialState.FAILED, TrialState.LOST, TrialState.STOPPED, TrialState.CUT
FOUR = study_of(parallel=4, sampler="random")
NONE = study_of(parallel=4, sampler="none")
POINTS = [PointRow(id=name, values={"args.lr": 0.01}, by="ada", added=NOW) for name in "ab"]
RETRAINS = study_of(
    parallel=1, sampler="random", then={"retrain": {"args.epochs": 60}}, limits={"dollars": 40}
)
NAMELESS = trial(1, TrialState.FAILED, error="NoMetric", reason="metrics.json has no scroe; it has score")
LATE = NOW + timedelta(hours=2)


def row(**values: Any) -> StudyRow:
    known: dict[str, Any] = {"version": 1, "trials": 10, "dollars": 30.0, "until": NOW + timedelta(hours=1)}
    return StudyRow(**(known | values))


def of(*states: TrialState) -> list[TrialRow]:
    return [trial(number, state) for number, state in enumerate(states, start=1)]


def again(number: int, state: TrialState = STARTED) -> TrialRow:
    return trial(number, state, drawn_by=DrawnBy.RETRAIN)


def decide(given: Situation) -> Turn:
    return turn.decide(given, start_sampler)


DECISIONS = [
    # sentence, situation, started numbers, stopped numbers, the end
    ("the first trial has the study to itself", situation(FOUR, is_metric_seen=False), [1], [], None),
    ("until it has reported the metric", situation(FOUR, of(STARTED), is_metric_seen=False), [], [], None),
    ("then others run beside it", situation(FOUR, of(STARTED)), [2, 3, 4], [], None),
    ("or until it has ended", situation(FOUR, of(STARTED), is_metric_seen=False, results={1: result()}), [2, 3, 4, 5], [], None),
    ("an asked trial is started again", situation(FOUR, of(COMPLETE, ASKED, STARTED, STARTED, STARTED)), [2], [], None),
    ("a free slot is filled", situation(FOUR, of(COMPLETE, STARTED, STARTED, STARTED)), [5], [], None),
    ("no more trials than wanted", situation(FOUR, of(*[COMPLETE] * 8, STARTED)), [10], [], None),
    ("a full study waits", situation(FOUR, of(*[STARTED] * 4)), [], [], None),
    ("all trials are reported", situation(FOUR, of(*[COMPLETE] * 10)), [], [], End.FINISHED),
    ("the last result ends the study", situation(FOUR, of(*[COMPLETE] * 9, STARTED), results={10: result()}), [], [], End.FINISHED),
    ("a failed trial counts", situation(FOUR, of(*[COMPLETE] * 9, FAILED)), [], [], End.FINISHED),
    ("a stopped trial counts", situation(FOUR, of(*[COMPLETE] * 9, STOPPED)), [], [], End.FINISHED),
    ("a trial that was cut does not count", situation(FOUR, of(*[COMPLETE] * 9, CUT)), [11], [], None),
    ("a user stops the study", situation(FOUR, of(COMPLETE, STARTED, STARTED), stopped_by="ada"), [], [2, 3], None),
    ("it is over when all have ended", situation(FOUR, of(COMPLETE, CUT), stopped_by="ada"), [], [], End.STOPPED),
    ("an asked trial is started and then stopped", situation(FOUR, of(COMPLETE, ASKED), stopped_by="ada"), [2], [], None),
    ("its hours are used up", situation(FOUR, of(COMPLETE, STARTED), now=LATE), [], [2], None),
    ("its hours were used up", situation(FOUR, of(COMPLETE, CUT), now=LATE), [], [], End.HOURS),
    ("two failures prove nothing", situation(FOUR, of(FAILED, FAILED)), [3, 4, 5, 6], [], None),
    ("three failures without a success end it", situation(FOUR, of(FAILED, FAILED, FAILED)), [], [], End.FAILURES),
    ("and stop the trials that run", situation(FOUR, of(FAILED, FAILED, FAILED, STARTED)), [], [4], None),
    ("one success is enough", situation(FOUR, of(FAILED, FAILED, FAILED, COMPLETE)), [5, 6, 7, 8], [], None),
    ("a lost trial is tried once more", situation(study_of(), of(COMPLETE, LOST)), [3], [], None),
    ("three losses in a row end it", situation(FOUR, of(COMPLETE, LOST, LOST, LOST)), [], [], End.LOSSES),
    ("losses that are no row do not", situation(FOUR, of(LOST, LOST, COMPLETE, LOST)), [5, 6, 7, 8], [], None),
    ("no dollars are left", situation(FOUR, of(COMPLETE, COMPLETE), row=row(dollars=3.0)), [], [], End.BUDGET),
    ("running trials may still end", situation(FOUR, of(COMPLETE, STARTED), row=row(dollars=3.0)), [], [], None),
    ("before a success, no more run than may fail", situation(FOUR, of(FAILED), is_metric_seen=False), [2, 3], [], None),
    ("nor beside running ones", situation(FOUR, of(FAILED, FAILED, STARTED), is_metric_seen=False), [], [], None),
    ("a study whose metric no trial leaves ends at once", situation(FOUR, [NAMELESS], is_metric_seen=False), [], [], End.FAILURES),
    ("unless a trial has reported it", situation(FOUR, [NAMELESS]), [2, 3, 4, 5], [], None),
    ("or left it", situation(FOUR, [NAMELESS, trial(2, COMPLETE)], is_metric_seen=False), [3, 4, 5, 6], [], None),
    ("failures before a continuation do not end it", situation(FOUR, of(FAILED, FAILED, FAILED), row=row(since=3)), [4, 5, 6, 7], [], None),
    ("nor do losses", situation(FOUR, of(COMPLETE, LOST, LOST, LOST), row=row(since=4)), [5, 6, 7, 8], [], None),
    ("without a sampler it waits for points", situation(NONE, of(COMPLETE)), [], [], None),
    ("and starts each added point", situation(NONE, of(COMPLETE), points=POINTS), [2, 3], [], None),
    ("no trial takes a point twice", situation(NONE, [trial(1, point="a")], points=POINTS), [2], [], None),
    ("an added point needs a trial, too", situation(NONE, of(*[COMPLETE] * 9), points=POINTS), [10], [], None),
    ("the best one is retrained after the last trial", situation(RETRAINS, of(*[COMPLETE] * 10)), [11], [], None),
    ("after the last running one", situation(RETRAINS, of(*[COMPLETE] * 10, STARTED)), [], [11], None),
    ("a retraining runs on", situation(RETRAINS, [*of(*[COMPLETE] * 10), again(11)]), [], [], None),
    ("and ends the study", situation(RETRAINS, [*of(*[COMPLETE] * 10), again(11)], results={11: result()}), [], [], End.FINISHED),
    ("also if it fails", situation(RETRAINS, [*of(*[COMPLETE] * 10), again(11, FAILED)]), [], [], End.FINISHED),
    ("a lost retraining is tried once more", situation(RETRAINS, [*of(*[COMPLETE] * 10), again(11, LOST)]), [12], [], None),
    ("but not a third time", situation(RETRAINS, [*of(*[COMPLETE] * 10), again(11, LOST), again(12, LOST)]), [], [], End.FINISHED),
    ("a user stops it", situation(RETRAINS, [*of(*[COMPLETE] * 10), again(11)], stopped_by="ada"), [], [11], None),
    ("so do the hours", situation(RETRAINS, [*of(*[COMPLETE] * 10), again(11)], now=LATE), [], [11], None),
    ("after the hours nothing is retrained", situation(RETRAINS, of(COMPLETE), now=LATE), [], [], End.HOURS),
    ("without a best one neither", situation(RETRAINS, of(FAILED, FAILED, FAILED)), [], [], End.FAILURES),
    ("its dollars are kept from the others", situation(RETRAINS, of(COMPLETE, COMPLETE), row=row(dollars=23.0)), [3], [], None),
    ("no trial follows it", situation(RETRAINS, [*of(COMPLETE, COMPLETE), again(3, COMPLETE)], row=row(dollars=29.0)), [], [], End.FINISHED),
    ("a continued study retrains again", situation(RETRAINS, [*of(COMPLETE), again(2, COMPLETE), *of(*[COMPLETE] * 11)[2:]], row=row(since=2)), [12], [], None),
    ("warm hosts are paid for", situation(FOUR, of(COMPLETE, COMPLETE), row=row(dollars=4.0), reserve=1.0), [], [], End.BUDGET),
]  # fmt: skip


@pytest.mark.parametrize(
    ("sentence", "given", "starts", "stops", "end"), DECISIONS, ids=[row[0] for row in DECISIONS]
)
def test_what_a_turn_decides(
    sentence: str, given: Situation, starts: list[int], stops: list[int], end: End | None
) -> None:
    decided = decide(given)
    assert [row.number for row in decided.to_start] == starts
    assert [row.number for row in decided.to_stop] == stops
    assert (decided.over.end if decided.over else None) == end
    assert decided.row.version == given.row.version + 1


def test_the_same_situation_gives_the_same_turn() -> None:
    given = situation(study_of(parallel=4), of(COMPLETE, FAILED, STARTED))
    assert decide(given) == decide(given)


def test_a_second_turn_finds_nothing_to_do() -> None:
    given = situation(FOUR, of(COMPLETE, STARTED), results={2: result()})
    first = decide(given)
    rows = {each.number: each for each in [*given.trials, *first.changed]}
    started = [replace(each, state=STARTED) if each.state is ASKED else each for each in rows.values()]
    second = decide(replace(given, row=first.row, trials=started))
    assert (second.changed, second.to_start, second.to_stop, second.over) == ((), (), (), None)
    assert replace(second.row, version=0) == replace(first.row, version=0)


def test_a_result_is_recorded_once() -> None:
    given = situation(FOUR, of(COMPLETE), results={1: result(value=9.0)})
    assert all(each.number != 1 for each in decide(given).changed)


def test_points_of_the_user_come_first() -> None:
    study = study_of(first=[{"args.lr": 0.01}, {"args.lr": 0.02, "args.optimizer": "adam"}], parallel=3)
    new = decide(situation(study, of(COMPLETE))).changed
    assert [each.drawn_by for each in new] == [DrawnBy.FIRST, DrawnBy.FIRST, DrawnBy.SAMPLER]
    assert (new[0].values["args.lr"], new[1].values["args.optimizer"]) == (0.01, "adam")


def test_a_chosen_point_whose_trial_was_stopped_with_the_study_is_tried_again() -> None:
    study = study_of(first=[{"args.lr": 0.01}, {"args.lr": 0.02}], parallel=3)
    rows = [trial(1, COMPLETE, point="first-1"), trial(2, CUT, point="first-2"), trial(3, CUT, point="a")]
    new = decide(situation(study, rows, points=POINTS[:1])).changed
    assert [(each.drawn_by, each.point) for each in new] == [
        (DrawnBy.ADDED, "a"),
        (DrawnBy.FIRST, "first-2"),
        (DrawnBy.SAMPLER, None),
    ]


def test_the_values_of_a_lost_trial_are_tried_once_more_and_then_count() -> None:
    lost = situation(study_of(), [trial(1, COMPLETE), trial(2, LOST, values={"args.lr": 0.07})])
    (again,) = decide(lost).changed
    assert (again.values, again.again, again.drawn_by) == ({"args.lr": 0.07}, 2, DrawnBy.AGAIN)
    twice = situation(study_of(), [*lost.trials, replace(trial(3, LOST), again=2)], row=row(trials=2))
    over = decide(twice).over
    assert over is not None
    assert over.end is End.FINISHED


def test_the_best_trial_has_the_best_value_of_the_complete_ones() -> None:
    trials = [trial(1, COMPLETE, value=0.5), trial(2, STOPPED, value=0.9), trial(3, COMPLETE, value=0.7)]
    lowest = study_of(maximize=None, minimize="loss")
    for study, best in ((FOUR, 3), (lowest, 1)):
        decided = decide(situation(study, trials, row=row(trials=3)))
        assert decided.row.best == best
        assert decided.over is not None
        assert f"the best is trial {best} with" in decided.over.reason
        assert decided.over.error is None


def test_the_caps_of_trials_share_what_is_left() -> None:
    decided = decide(situation(FOUR, [trial(1, COMPLETE, dollars=2.0)], row=row(dollars=14.0)))
    assert [each.cap for each in decided.changed] == [3.0] * 4
    assert (decided.row.spent, decided.row.lent) == (2.0, 12.0)


def test_a_cap_is_never_above_the_limit_of_the_job() -> None:
    assert [each.cap for each in decide(situation(study_of(), most_dollars=5.0)).changed] == [5.0]


def test_a_grid_ends_when_every_combination_was_tried() -> None:
    grid = study_of({"args.a": {"choice": [1, 2]}, "args.b": {"choice": ["x", "y"]}}, sampler="grid")
    trials = list[TrialRow]()
    for _ in range(4):
        (new,) = decide(situation(grid, trials)).changed
        trials.append(replace(new, state=COMPLETE, value=1.0, reported=NOW, dollars=0.1))
    over = decide(situation(grid, trials)).over
    assert over is not None
    assert over.end is End.EXHAUSTED
    assert len({tuple(each.values.items()) for each in trials}) == 4


ENDINGS = (COMPLETE, COMPLETE, COMPLETE, STOPPED, FAILED, LOST)


def play(seed: int) -> tuple[list[Turn], Sequence[TrialRow], Situation]:
    """Run a study to its end with random results, lost turns and a user who may stop it."""
    chance = random.Random(seed)
    sampler = chance.choice(["random", "grid"])
    space = {"args.a": {"integers": [1, 12]}, "args.b": {"choice": ["x", "y"]}}
    study = study_of(space, sampler=sampler, parallel=chance.randint(1, 5))
    wanted, dollars = chance.randint(5, 20), chance.uniform(1, 40)
    given = situation(study, row=row(trials=wanted, dollars=dollars), most_dollars=3.0, is_metric_seen=False)
    turns, rows, ended = list[Turn](), dict[int, TrialRow](), set[int]()
    for minute in range(2_000):
        stopped = given.stopped_by or ("ada" if chance.random() < 0.005 else None)
        results = dict[int, Result]()
        for each in rows.values():
            if each.state is STARTED and chance.random() < 0.4:
                state = CUT if stopped and chance.random() < 0.7 else chance.choice(ENDINGS)
                results[each.number] = result(state, dollars=chance.uniform(0, each.cap))
        now: datetime = NOW + timedelta(seconds=minute)
        seen = given.is_metric_seen or chance.random() < 0.3
        given = replace(
            given,
            trials=tuple(rows.values()),
            results=results,
            stopped_by=stopped,
            now=now,
            is_metric_seen=seen,
        )
        decided = decide(given)
        if chance.random() < 0.2:
            continue  # Another turn wrote first, or the function ended before its write.
        assert not ended & {each.number for each in decided.changed if not each.state.is_open}, (
            "reported twice"
        )
        ended |= {each.number for each in decided.changed if not each.state.is_open}
        rows |= {each.number: each for each in decided.changed}
        if chance.random() < 0.9:  # Otherwise the function ended before it started the executions.
            rows |= {each.number: replace(each, state=STARTED) for each in decided.to_start}
        given = replace(given, row=decided.row)
        turns.append(decided)
        if decided.over:
            break
    return turns, tuple(rows.values()), given


@pytest.mark.parametrize("seed", range(60))
def test_every_study_ends_within_its_limits(seed: int) -> None:
    turns, rows, given = play(seed)
    assert turns[-1].over is not None
    assert not [each for each in rows if each.state.is_open], "a trial still runs"
    assert [each.number for each in rows] == list(range(1, len(rows) + 1))
    for each in turns:
        assert each.row.spent + each.row.lent <= given.row.dollars + 1e-6
        assert each.row.running <= given.study.parallel
    drawn = [tuple(sorted(each.values.items())) for each in rows if each.drawn_by is not DrawnBy.AGAIN]
    assert len(drawn) == len(set(drawn)), "two trials are equal"
    counted = [each for each in rows if each.state.is_answer or (each.state is LOST and each.again)]
    assert len(counted) == turns[-1].row.reported <= given.row.trials


def test_the_retraining_has_the_values_of_the_best_trial_and_its_own_and_the_reserved_dollars() -> None:
    given = situation(RETRAINS, of(*[COMPLETE] * 10), row=row(dollars=31.0))
    (last,) = decide(given).to_start
    assert last.values == {"args.lr": 10 / 10_000, "args.epochs": 60}
    assert (last.drawn_by, last.cap) == (DrawnBy.RETRAIN, 20.0)


def test_the_reason_names_the_retraining() -> None:
    rows = [*of(*[COMPLETE] * 10), again(11)]
    decided = decide(situation(RETRAINS, rows, results={11: result(value=0.99)}))
    assert decided.over
    assert decided.over.reason.endswith(
        "the best is trial 10 with accuracy 0.1; retrained, as trial 11, it has 0.99"
    )
    assert (decided.row.best, decided.row.retrained, decided.row.reported) == (10, 11, 10)


def test_the_reason_of_a_used_budget_has_amounts_below_a_cent() -> None:
    given = situation(study_of(), [trial(1, TrialState.COMPLETE, dollars=0.004)], row=row(dollars=0.015))
    assert money.why_no_money(given, given.trials) == (
        "$0.0110 of $0.0150 are left, and a further trial needs $0.0100"
    )
