"""A full yard: the next run waits, names the runs before it, and gets the free slot."""

from __future__ import annotations

from tests.e2e.runs import Runs
from tests.support import quick


def test_a_run_waits_for_its_place_and_trains(runs: Runs) -> None:
    one = {"workers": 1}
    first = runs.job("first", cluster=one, program={"args": quick.UNTIL_RELEASED})
    second = runs.job("second", cluster=one, limits={"wait_minutes": 10})
    with runs.with_settings("trainyard-train-admit", MOST_RUNS="1"):
        goes_on = runs.in_mid_training(first)
        waits = runs.start(second)
        told = runs.until("that it waits", lambda: [each for each in waits.timeline if each.event == "waits"])
        assert f"1 run is before it ({goes_on.id}), and the yard has 1 at once (most_runs)" in told[0].reason
        assert runs.yard.instances(waits.id) == []
        runs.let_finish(goes_on)
        ended = [runs.finish(each) for each in (goes_on, waits)]
    assert [run.execution.status for run in ended] == ["SUCCEEDED", "SUCCEEDED"]
    first_end, second_launch = ended[0].summary["ended"], ended[1].summary["hosts"][0]["launched"]
    assert second_launch > first_end
    assert [state.name for state in ended[1].states].count("Admit") >= 2
