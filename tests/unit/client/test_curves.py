"""Curves of a run's metrics."""

import json
import math

import pytest

from tests.unit.ui import canned
from trainyard.client.errors import MetricNotFound


def test_curves_of_a_run_are_columns_and_an_unknown_metric_is_named() -> None:
    cloud = canned.cloud()
    written = {
        "samples": [{"step": 1, "loss": 2.0}, {"step": 2, "loss": "NaN"}],
        "scalars": {"val_loss": [[2, 1.5]]},
    }
    cloud.stories[canned.TRAINING].files["metrics.json"] = json.dumps(written).encode()
    run = cloud.yard().run(canned.TRAINING)
    columns = run.metrics()
    assert (columns["metric"], columns["step"]) == (["loss", "loss", "val_loss"], [1, 2, 2])
    assert (columns["value"][0], math.isnan(columns["value"][1]), columns["value"][2]) == (2.0, True, 1.5)
    assert run.metrics("val_loss") == {
        "metric": ["val_loss"], "step": [2], "value": [1.5], "at": [None], "epoch": [None]
    }  # fmt: skip
    with pytest.raises(
        MetricNotFound, match=r'has no metric val_los; did you mean "val_loss".*there are loss, val_loss'
    ):
        run.metrics("val_los")
    cloud.stories[canned.TRAINING].files["metrics.json"] = b"{}"
    assert run.metrics() == {"metric": [], "step": [], "value": [], "at": [], "epoch": []}
    with pytest.raises(MetricNotFound, match="has reported no metric so far"):
        run.curves("loss")
