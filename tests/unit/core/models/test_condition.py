"""Conditions on metrics: a row each."""

import re

import pytest

from trainyard.core.model import condition

METRICS = {"accuracy": 0.97, "loss": 3, "note": "text", "val/auc": float("nan"), "done": True}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("accuracy >= 0.97", None),
        ("accuracy>=0.97", None),
        ("loss < 3.5", None),
        ("loss <= 3e0", None),
        ("accuracy > 0.97", "accuracy is 0.97, and after.model.when requires accuracy > 0.97"),
        ("loss < -1", "loss is 3, and"),
        ("val/auc >= 0", "val/auc is nan, and"),
        ("acuracy >= 0.9", 'no number acuracy; it has accuracy, loss, val/auc; did you mean "accuracy"?'),
        ("note >= 0", "metrics.json has no number note"),
        ("done >= 0", "metrics.json has no number done"),
    ],
)
def test_metrics_meet_a_condition_or_the_reason_names_both(text: str, words: str | None) -> None:
    assert re.fullmatch(condition.CONDITION, text)
    unmet = condition.find_unmet(text, METRICS)
    assert unmet is None if words is None else words in (unmet or "")


@pytest.mark.parametrize(
    "text", ["accuracy", "accuracy == 1", "accuracy >= high", ">= 1", "a > 1 > 2", "a >= nan"]
)
def test_a_condition_is_a_metric_a_comparison_and_a_number(text: str) -> None:
    assert re.fullmatch(condition.CONDITION, text) is None
