"""A small version of the long study and of its benchmark: with many faults, limits hold and no host is left."""

from dataclasses import replace
from datetime import timedelta

from benchmarks import budgets
from benchmarks.simulated.study import Measured, Turns, measure_study, measure_turn
from simulation.faults import Kind
from simulation.scenarios import long_study
from simulation.studies import LONG_STUDY, Search
from simulation.template import YardTemplate

SMALL = replace(LONG_STUDY, trials=16, parallel=8, faults_in_a_thousand=6)


def test_a_study_with_many_faults_keeps_its_budgets(yard: YardTemplate) -> None:
    """Patrol takes a turn of four requests each minute, which a long study shares among more trials."""
    found = measure_study(yard, long_study(SMALL, timedelta(hours=8)))
    assert found.faults > SMALL.trials // 2
    assert found.reported == SMALL.trials <= found.trials
    rows = budgets.measure_study(Measured(found, Turns(reading=0.1, deciding=0.1)))
    assert [row for row in rows if not row.holds and "AWS calls" not in row.what] == []
    assert sum(found.requests.values()) <= 8 * found.trials + 4 * 60 * found.hours


def test_a_turn_asks_for_one_trial_when_one_is_reported() -> None:
    assert measure_turn(trials=20, parameters=3).total > 0


def test_the_faults_of_a_long_study_depend_only_on_their_point_and_the_seed() -> None:
    points = [(kind, f"{kind} point #{number}") for kind in Kind for number in range(2000)]
    drawn = [LONG_STUDY.draw(1, kind, point) for kind, point in points]
    assert drawn == [LONG_STUDY.draw(1, kind, point) for kind, point in points]
    assert drawn != [LONG_STUDY.draw(2, kind, point) for kind, point in points]
    assert 0 < sum(each is not None for each in drawn) < len(points) / 100
    assert Search(trials=1, parallel=1, dollars=1.0).draw(1, *points[0]) is None
