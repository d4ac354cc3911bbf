"""Runs that report to MLflow through its own client, which keeps them in files here."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.contract.agent.host import Yard
from tests.contract.conftest import ROOT
from training.host.program.packages import site_packages
from trainyard.core.model.program import TRACKER_CLIENTS, Tracker

CLIENT = ROOT / ".tools/trackers"
PROGRAM = """
import json, os, pathlib
out = open(os.environ["TRAINYARD_PROGRESS"], "a")
first = 1 if os.environ["TRAINYARD_ATTEMPT"] == "1" else 16
for step in range(first, 31):
    values = {"step": step, "steps": 30, "epoch": step // 10, "loss": 1 / step, "val/f1": step / 30, "bad": "NaN"}
    print(json.dumps(values), file=out, flush=True)
model = pathlib.Path(os.environ["TRAINYARD_MODEL"])
model.mkdir(parents=True, exist_ok=True)
(model / "saved_model.pb").write_text("a model")
"""
READ = """
import json, sys
from mlflow import MlflowClient
client = MlflowClient()
(run,) = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
history = [[each.step, each.value, each.timestamp] for each in client.get_metric_history(run.info.run_id, "loss")]
files = [each.path for each in client.list_artifacts(run.info.run_id, "model")]
print(json.dumps({"status": run.info.status, "name": run.info.run_name, "loss": history, "params": run.data.params,
                  "metrics": sorted(run.data.metrics), "tags": run.data.tags, "files": files}))
"""


@pytest.fixture
def store(yard: Yard, tmp_path: Path) -> dict[str, str]:
    """Give the host the client of MLflow. Return the variables of a store in files."""
    assert (CLIENT / "bin/python").exists(), "make trackers installs the client of MLflow"
    packages = site_packages(yard.paths.python.parent.parent) / "client.pth"
    packages.write_text(f"{site_packages(CLIENT)}\n")
    folder = tmp_path / "mlflow"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    return {"MLFLOW_TRACKING_URI": folder.as_uri(), "MLFLOW_ALLOW_FILE_STORE": "true"}


def tracked(store: dict[str, str]) -> dict[str, Any]:
    words = [str(CLIENT / "bin/python"), "-c", READ]
    done = subprocess.run(words, env={**os.environ, **store}, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def test_a_tracker_gets_parameters_lineage_every_point_the_model_and_the_end(
    yard: Yard, store: dict[str, str]
) -> None:
    program = {"environment": store, "args": {"lr": 0.1, "epochs": 3}}
    yard.prepare(PROGRAM, program=program, track=["mlflow"], labels={"team": "a"})
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    yard.hear("finished")
    found = tracked(store)
    assert (found["status"], found["name"]) == ("FINISHED", yard.run)
    assert [(step, value) for step, value, _ in found["loss"]] == [(step, 1 / step) for step in range(1, 31)]
    assert found["params"] == {"lr": "0.1", "epochs": "3"}
    assert found["metrics"] == ["bad", "loss", "val/f1"]
    assert found["files"] == ["model/saved_model.pb"]
    assert (found["tags"]["trainyard.data.train"], found["tags"]["label.team"]) == (
        f"s3://{yard.bucket}/data/d/",
        "a",
    )


def test_the_next_attempt_continues_the_same_run(yard: Yard, store: dict[str, str]) -> None:
    yard.prepare(PROGRAM, program={"environment": store}, track=["mlflow"])
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    yard.hear("finished")
    yard.order("start", 2)
    yard.hear("finished", 2)
    found = tracked(store)
    assert (found["status"], {step for step, _, _ in found["loss"]}) == ("FINISHED", set(range(1, 31)))


def test_a_tracker_that_does_not_answer_costs_no_run_and_the_log_says_where_the_points_are(
    yard: Yard, store: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient = replace(Tracker.MLFLOW.client, failing_seconds=5.0)
    monkeypatch.setitem(TRACKER_CLIENTS, Tracker.MLFLOW, impatient)
    nobody = {"MLFLOW_TRACKING_URI": "http://127.0.0.1:9", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
    yard.prepare(PROGRAM, program={"environment": nobody}, track=["mlflow"])
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    yard.hear("finished")
    assert "MLflow has not got everything of this run: the run cannot be created" in yard.log(1)
    assert "All points are in the bucket (run.metrics())" in yard.log(1)
    assert list(yard.paths.attempt(1).glob("tracking")) == []
