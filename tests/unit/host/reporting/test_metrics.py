import json
import math
from datetime import UTC, datetime
from itertools import pairwise
from types import SimpleNamespace
from typing import cast

import pytest

from training.host.bucket import Bucket
from training.host.reporting.metrics import MOST_SAMPLES, Curve, Metrics, as_object

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def steps(curve: Curve) -> list[int]:
    return [sample["step"] for sample in curve.to_json()]


def drawn(last: int, *, before: Curve | None = None, first: int = 1) -> Curve:
    curve = before or Curve()
    for step in range(first, last + 1):
        curve.add({"step": step, "loss": 1 / step}, NOON)
    return curve


@pytest.mark.parametrize("last", [5, 249, 250, 499, MOST_SAMPLES])
def test_a_run_of_up_to_500_steps_keeps_each_of_them(last: int) -> None:
    assert steps(drawn(last)) == list(range(1, last + 1))
    halfway = Curve.after(drawn(last // 2).to_json())
    assert steps(drawn(last, before=halfway, first=last // 2 + 1)) == list(range(1, last + 1))


def test_a_short_run_has_every_step_in_its_curve() -> None:
    curve = drawn(3)
    assert curve.to_json()[0] == {
        "at": "2026-11-20T12:00:00.000Z", "step": 1, "epoch": None, "loss": 1.0, "accuracy": None,
        "steps_per_second": None,
    }  # fmt: skip
    assert steps(curve) == [1, 2, 3]


@pytest.mark.parametrize("last", [MOST_SAMPLES, MOST_SAMPLES + 1, 10_001, 123_456])
def test_a_long_run_has_few_even_samples_from_its_first_to_its_newest_step(last: int) -> None:
    found = steps(drawn(last))
    assert len(found) <= MOST_SAMPLES
    assert len(found) > MOST_SAMPLES // 3
    assert (found[0], found[-1]) == (1, last)
    distances = [later - earlier for earlier, later in pairwise(found[:-1])]
    assert max(distances) <= 2 * min(distances)


def test_an_attempt_that_resumes_goes_on_with_the_curve() -> None:
    first = drawn(5000)
    kept = [sample for sample in first.to_json() if sample["step"] <= 3000]
    whole = steps(drawn(9000, before=Curve.after(kept), first=3001))
    assert len(whole) <= MOST_SAMPLES
    assert (whole[0], whole[-1]) == (1, 9000)
    assert whole == sorted(set(whole))


@pytest.mark.parametrize(("first", "kept"), [(1, []), (31, list(range(1, 31))), (60, list(range(1, 51)))])
def test_an_attempt_whose_first_step_is_unknown_replaces_the_samples_from_there_on(
    first: int, kept: list[int]
) -> None:
    curve = Curve.after(drawn(50).to_json(), begins=True)
    assert steps(drawn(70, before=curve, first=first)) == [*kept, *range(first, 71)]


def test_a_step_that_was_passed_already_is_not_drawn_again() -> None:
    curve = drawn(10)
    curve.add({"step": 4, "loss": 9.0}, NOON)
    curve.add({"loss": 9.0}, NOON)
    assert steps(curve) == list(range(1, 11))


def test_reports_without_a_step_are_counted_until_there_is_one() -> None:
    """Hugging Face's Trainer without a progress bar prints a fraction of an epoch and no step."""
    curve = Curve()
    for loss in (0.5, 0.4, 0.3):
        curve.add({"epoch": 0, "loss": loss}, NOON)
    assert [(sample["step"], sample["loss"]) for sample in curve.to_json()] == [(1, 0.5), (2, 0.4), (3, 0.3)]
    later = Curve.after(curve.to_json())
    later.add({"loss": 0.2}, NOON)
    assert steps(later) == [1, 2, 3, 4], "a later attempt counts on"
    later.add({"step": 100, "loss": 0.1}, NOON)
    later.add({"loss": 0.1}, NOON)
    assert steps(later) == [1, 2, 3, 100], "only what this attempt has counted itself is replaced"


def test_what_json_has_no_number_for_is_a_text_in_the_bucket() -> None:
    sent: dict[str, bytes] = {}
    metrics = Metrics(cast(Bucket, SimpleNamespace(write=sent.__setitem__)), "r")
    metrics.add({"step": 1, "loss": 0.5}, NOON)
    metrics.add({"step": 2, "loss": math.nan, "accuracy": -math.inf}, NOON)
    metrics.send()
    document = json.loads(sent["runs/r/metrics.json"], parse_constant=pytest.fail)
    assert (document["loss"], document["accuracy"]) == ("NaN", "-Infinity")
    assert [sample["loss"] for sample in document["samples"]] == [0.5, "NaN"]


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", None])
def test_what_is_no_object_is_none(text: bytes | None) -> None:
    assert as_object(text) is None
