import json
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from training.host.reporting.metrics import MOST_SAMPLES, Curve, as_object, finite

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def steps(curve: Curve) -> list[int]:
    return [sample["step"] for sample in curve.to_json()]


def drawn(last: int, *, before: Curve | None = None, first: int = 1) -> Curve:
    curve = before or Curve()
    for step in range(first, last + 1):
        curve.add({"step": step, "loss": 1 / step}, NOON)
    return curve


def test_a_short_run_has_every_step_in_its_curve() -> None:
    curve = drawn(3)
    assert curve.to_json()[0] == {
        "at": "2026-11-20T12:00:00.000Z", "step": 1, "loss": 1.0, "accuracy": None, "steps_per_second": None
    }  # fmt: skip
    assert steps(curve) == [1, 2, 3]


@pytest.mark.parametrize("last", [MOST_SAMPLES, 10_001, 123_456])
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


def test_a_step_that_was_passed_already_is_not_drawn_again() -> None:
    curve = drawn(10)
    curve.add({"step": 4, "loss": 9.0}, NOON)
    curve.add({"loss": 9.0}, NOON)
    assert steps(curve) == list(range(1, 11))


def test_what_json_has_no_number_for_is_null() -> None:
    assert json.loads(json.dumps(finite({"loss": float("nan"), "history": [{"loss": float("inf")}, 1]}))) == {
        "loss": None, "history": [{"loss": None}, 1]
    }  # fmt: skip


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", None])
def test_what_is_no_object_is_none(text: bytes | None) -> None:
    assert as_object(text) is None
