"""The page of a study, and its parallel coordinates."""

import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.unit.ui import canned
from tests.unit.ui.canned_study import BEST, BROKEN, ENDED, METRIC, RUNNING, SECTION, SLOW, STUDY
from tests.unit.ui.site import owner, post, said
from trainyard.client.errors import Denied
from trainyard.client.next_trial import describe_next
from trainyard.client.runs.metric_points import MetricPoints
from trainyard.client.trials import Trials
from trainyard.core.model.study import Parameter, Study
from trainyard.protocol.ledger import reading
from trainyard.ui import parallel
from trainyard.ui.pages.study import best_charts, curve_chart
from trainyard.values import serialization

RUN = f"{STUDY}-0021-trial"


@pytest.fixture
def cloud() -> canned.Cloud:
    return canned.cloud()


def section() -> Study:
    return serialization.from_json(Study, json.loads(json.dumps(SECTION, default=float)))


def trials_of(cloud: canned.Cloud) -> Trials:
    found = Trials.of(STUDY, cloud.stories[STUDY].trials)
    assert found
    return found


def test_a_study_is_one_line_among_the_runs_without_its_trials(cloud: canned.Cloud) -> None:
    text = owner(cloud).get("/").text
    assert text.count(f'href="/studies/{STUDY}"') == 1
    assert f"{STUDY}-0001-trial" not in text
    assert f"20 / 24 trials best {METRIC} 0.9755" in said(text)


def test_the_page_of_a_study_shows_its_best_values_its_money_and_each_trial(cloud: canned.Cloud) -> None:
    shown = said(owner(cloud).get(f"/studies/{STUDY}").text)
    assert f"Best {METRIC} 0.9755 trial {BEST}" in shown
    assert "Trials 20 of 24 2 running" in shown
    assert "Cost so far $0.2520 of at most $5.00; running trials hold $0.4000" in shown
    assert "Trial 23 starts when one of the 2 running trials ends." in shown
    assert f"{BROKEN} Failed" in shown
    assert "ValueError: lr is too high" in shown
    assert f"{SLOW} Stopped early 0.61" in shown
    assert "the median of 5 other trials there is 0.8712" in shown
    text = owner(cloud).get(f"/studies/{STUDY}").text
    assert all(f'href="/runs/{STUDY}-{number:04}-trial"' in text for number in range(1, ENDED + 3))


def test_the_events_of_a_study_carry_its_charts(cloud: canned.Cloud) -> None:
    messages = owner(cloud).get(f"/studies/{STUDY}/events").text.split("\n\n")
    found = {
        name: json.loads(each.partition("data: ")[2])
        for each in messages
        for name in ("best", "compared")
        if each.startswith(f"event: {name}")
    }
    assert [chart["by"] for chart in found["best"]["charts"]] == ["ended trials", "dollars"]
    assert {"trial 21", "trial 22", f"trial {BEST}"} <= {
        each["label"] for chart in found["compared"]["charts"] for each in chart["curves"]
    }


def test_the_curves_of_a_study_carry_the_rungs_and_the_stop_of_a_trial(cloud: canned.Cloud) -> None:
    messages = owner(cloud).get(f"/studies/{STUDY}/events").text.split("\n\n")
    (compared,) = [each for each in messages if each.startswith("event: compared")]
    (chart,) = json.loads(compared.partition("data: ")[2])["charts"]
    assert chart["title"] == METRIC
    rungs = {each["label"]: each["rungs"] for each in chart["curves"]}
    assert rungs[f"trial {SLOW}"] == [[140, pytest.approx(0.61), True]]
    assert [rung[::2] for rung in rungs[f"trial {BEST}"]] == [[140, False], [400, False]]
    assert rungs["trial 22"] == [[140, pytest.approx(0.6311, abs=1e-3), False]]
    assert chart["note"].startswith("A ring is a rung, here epoch 4, 12:")


def test_a_rung_without_its_step_is_not_drawn(cloud: canned.Cloud) -> None:
    """The last version recorded no step."""
    for row in cloud.stories[STUDY].trials:
        row.pop("at", None)
    found = trials_of(cloud)
    chart = curve_chart(section(), found, {SLOW: MetricPoints([10], [0.1], [None], [None])})
    assert (len(found.rungs) > 0, chart["curves"][0]["rungs"], chart["note"]) == (True, [], "")


def test_the_list_of_studies_has_a_line_for_each_study_and_none_for_a_run(cloud: canned.Cloud) -> None:
    text = owner(cloud).get("/studies").text
    assert re.findall(r'href="/(?:studies|runs)/([^"]+)"', text) == [STUDY]
    assert f"20 / 24 {METRIC} 0.9755 $0.2520 of $5.00 grace" in said(text)
    assert 'aria-current="page">Studies</a>' in text


def test_a_yard_without_studies_says_how_to_begin_one(cloud: canned.Cloud) -> None:
    del cloud.stories[STUDY]
    assert "No studies this month or last month. Next: trainyard submit JOB" in said(
        owner(cloud).get("/studies").text
    )


def test_a_study_shows_the_importance_of_its_parameters(cloud: canned.Cloud) -> None:
    text = said(owner(cloud).get(f"/studies/{STUDY}").text)
    assert f"Importance for {METRIC}: lr 92 %, optimizer 8 %, units 0 %" in text


def test_the_address_of_a_study_as_a_run_leads_to_its_page(cloud: canned.Cloud) -> None:
    answer = owner(cloud).get(f"/runs/{STUDY}")
    assert (answer.status_code, answer.headers["location"]) == (307, f"/studies/{STUDY}")
    assert f'href="/studies/{STUDY}"' in owner(cloud).get(f"/runs/{RUN}").text


def test_a_study_is_stopped_with_its_trials(cloud: canned.Cloud) -> None:
    client = owner(cloud)
    asked = said(client.get(f"/runs/{STUDY}/stop").text)
    assert "The running trials save and stop, and their hosts end." in asked
    assert "It has cost $0.2520 so far." in asked
    assert post(client, f"/runs/{STUDY}/stop").headers["hx-redirect"] == f"/runs/{STUDY}"
    assert cloud.told == [("stop", {"run": STUDY})]
    assert "grace has stopped" not in said(client.get(f"/studies/{STUDY}").text)


def test_a_viewer_sees_a_study_and_cannot_stop_it(cloud: canned.Cloud, monkeypatch: Any) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise Denied("events:PutEvents was denied", "no policy allows it", "trainyard yard grant role/x user")

    monkeypatch.setattr(canned.Events, "put_events", refuse)
    client = owner(cloud)
    assert client.get(f"/studies/{STUDY}").status_code == 200
    answer = post(client, f"/runs/{STUDY}/stop")
    assert "hx-redirect" not in answer.headers
    assert "events:PutEvents was denied" in said(answer.text)


@pytest.mark.parametrize(
    ("change", "counters", "sentence"),
    [
        ({}, {}, "Trial 23 starts when one of the 2 running trials ends."),
        ({"stopping": "2026-11-29T12:00:00.000Z", "stopped_by": "grace"}, {},
         "No further trial starts: grace has stopped the study."),
        ({}, {"trials": Decimal(22)}, "No further trial starts: all 22 have ended or are running."),
        ({"job": {"study": {**SECTION, "parallel": Decimal(4)}}}, {"dollars": Decimal("0.66")},
         ("Trial 23 needs $0.0185 and $0.0080 are free: it starts if the running trials, which hold $0.4000, cost "
          "less.")),
        ({"job": {"study": {**SECTION, "parallel": Decimal(4)}}}, {}, "Trial 23 starts within a minute."),
        ({"ended": "2026-11-29T12:00:00.000Z"}, {}, ""),
        ({"job": {"study": {**SECTION, "sampler": "none"}}}, {},
         f"Trial 23 waits for a point that a user adds: trainyard study add {STUDY} args.lr=VALUE"),
    ],
)  # fmt: skip
def test_the_next_trial_is_named_with_the_reason_why_it_waits(
    change: dict[str, Any], counters: dict[str, Any], sentence: str, cloud: canned.Cloud
) -> None:
    story = cloud.stories[STUDY]
    story.row |= change
    story.trials[0] |= counters
    row = reading.run_of(story.row)
    found = serialization.from_json(Study, (row.job or {})["study"])
    assert describe_next(found, row, trials_of(cloud), {}) == sentence


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({}, f"Trial 2 starts when trial 1 has reported {METRIC}, or has ended."),
        ({"objective": {"step": Decimal(4), "value": Decimal("0.5")}}, "Trial 2 starts within a minute."),
        ({"waiting": {"what": "capacity", "since": canned.stamp(datetime.now(UTC)),
                      "asks": canned.stamp(datetime.now(UTC)), "seconds": Decimal(30),
                      "until": canned.stamp(datetime.now(UTC)), "reason": "all pools refused"}},
         "Trial 1 waits for capacity: all pools refused."),
    ],
)  # fmt: skip
def test_no_trial_starts_beside_the_first_one_before_its_metric_is_reported(
    change: dict[str, Any], sentence: str, cloud: canned.Cloud
) -> None:
    story = cloud.stories[STUDY]
    story.trials[1:] = [{**story.trials[ENDED + RUNNING], "sk": "trial#0001"}]
    story.trials[0] |= {"reported": Decimal(0), "running": Decimal(1)}
    run = reading.run_of({**cloud.stories[RUN].row, "objective": None, **change})
    assert describe_next(section(), reading.run_of(story.row), trials_of(cloud), {1: run}) == sentence


def test_the_retraining_is_no_trial_of_the_charts(cloud: canned.Cloud) -> None:
    story = cloud.stories[STUDY]
    story.trials[BEST] |= {"drawn_by": "retrain", "value": Decimal("0.999")}
    drawing = parallel.draw(section(), trials_of(cloud).trials)
    assert drawing
    assert BEST not in {line.number for line in drawing.lines}
    assert max(best_charts(section(), trials_of(cloud).ended)[0]["best"]) < 0.999
    story.trials[ENDED + RUNNING] |= {"drawn_by": "retrain"}
    assert ">retrained</span>" in owner(cloud).get(f"/studies/{STUDY}").text
    sentence = describe_next(section(), reading.run_of(story.row), trials_of(cloud), {})
    assert sentence == "Trial 22 trains with the best values once more. No further trial starts."


def test_parallel_coordinates_rank_the_trials_and_end_early_for_stopped_ones(cloud: canned.Cloud) -> None:
    drawing = parallel.draw(section(), trials_of(cloud).trials)
    assert drawing
    assert [axis.name for axis in drawing.axes] == ["lr", "optimizer", "momentum", "units", METRIC]
    kinds = {line.number: line.kind for line in drawing.lines}
    assert (drawing.lines[-1].number, kinds[BEST], kinds[SLOW], kinds[BROKEN]) == (
        BEST,
        "best",
        "stopped",
        "failed",
    )
    points = {line.number: len(line.points.split()) for line in drawing.lines}
    assert (points[BEST], points[SLOW], points[BROKEN]) == (5, 4, 4)
    assert parallel.draw(section(), []) is None


def test_parallel_coordinates_have_at_most_500_lines(cloud: canned.Cloud) -> None:
    first = trials_of(cloud).trials[0]
    many = [
        serialization.from_json(type(first), serialization.to_json(first) | {"number": n})
        for n in range(1, 900)
    ]
    drawing = parallel.draw(section(), many)
    assert drawing
    assert (len(drawing.lines), drawing.left_out) == (500, 399)


@pytest.mark.parametrize(
    ("parameter", "value", "position"),
    [
        (Parameter(log=(1e-5, 0.1)), 1e-3, 0.5),
        (Parameter(range=(0.0, 4.0)), 1.0, 0.25),
        (Parameter(integers=(16, 256)), 256, 1.0),
        (Parameter(choice=("a", "b", "c")), "b", 0.5),
        (Parameter(choice=(True, False)), True, 0.0),
        (Parameter(range=(0.0, 4.0)), None, parallel.UNUSED),
    ],
)
def test_a_value_has_its_position_on_its_axis(parameter: Parameter, value: Any, position: float) -> None:
    assert parallel.position(parameter, value) == pytest.approx(position)


def test_the_best_value_so_far_never_gets_worse(cloud: canned.Cloud) -> None:
    by_trial, by_dollar = best_charts(section(), trials_of(cloud).ended)
    assert by_trial["best"] == sorted(by_trial["best"])
    assert by_dollar["x"] == sorted(by_dollar["x"])
    assert by_dollar["x"][-1] == pytest.approx(0.252)
    assert re.fullmatch(rf"Best {METRIC} by dollars", by_dollar["title"])
