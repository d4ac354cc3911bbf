"""Runs, lists, yards and curves as a notebook shows them."""

import math
from dataclasses import replace
from datetime import timedelta

from tests.unit.client.facts import HOST, NOON
from tests.unit.ui.canned import FAILED, TRAINING, cloud
from trainyard.client.runs import html


def test_a_status_has_its_facts_and_its_curve() -> None:
    shown = cloud().yard().run(TRAINING).status()._repr_html_()
    assert f"<th>run</th><td>{TRAINING}</td>" in shown
    assert "<th>step</th><td>4000 of 6000</td>" in shown
    assert "chief 0 on g6.xlarge" in shown
    assert shown.count("<polyline") == 1


def test_a_list_has_a_row_for_each_run() -> None:
    canned = cloud()
    listed = canned.yard().list()
    shown = listed._repr_html_()
    assert len(listed) == len(canned.stories)
    assert shown.count("<tr>") == len(canned.stories) + 1
    assert f"<td>{FAILED}</td><td>Failed</td>" in shown


def test_a_yard_says_where_it_is() -> None:
    shown = cloud().yard()._repr_html_()
    assert "<th>account</th><td>123456789012</td>" in shown
    assert "trainyard-bucket" in shown


def test_what_others_have_written_is_text() -> None:
    assert html.facts([("reason", "<script>\x1b[31m&"), ("none", None)]) == (
        "<table><tr><th>reason</th><td>&lt;script&gt;&amp;</td></tr></table>"
    )


def test_a_curve_of_many_points_is_drawn_with_few_and_ends_at_the_last() -> None:
    drawn = html.curve([(step, 1 / (step + 1)) for step in range(100_000)])
    assert drawn.count(",") <= html.MOST_POINTS + 1
    assert "loss 1e-05 at step 99999" in drawn
    assert html.curve([(1, 0.5)]) == ""
    assert "nan" not in html.curve([(1, 0.5), (1, 0.5)])


def test_a_curve_that_ends_in_nan_is_drawn_as_far_as_it_has_numbers() -> None:
    drawn = html.curve([(1, 2.0), (2, 1.0), (3, math.nan)])
    assert "nan" not in drawn
    assert "loss NaN at step 3" in drawn
    assert html.curve([(1, 2.0), (2, math.nan)]) == ""


def test_a_host_without_a_role_is_a_host() -> None:
    status = cloud().yard().run(TRAINING).status()
    shown = replace(status, hosts=(replace(HOST, launched=NOON - timedelta(hours=1)),))._repr_html_()
    assert "host on g6.xlarge, running" in shown
