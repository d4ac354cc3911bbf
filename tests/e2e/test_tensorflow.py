"""Distributed TensorFlow on two hosts, with an interruption."""

from pathlib import Path

from scripts.datasets import DIGITS
from tests.e2e.runs import Runs


def test_digits_learnt_by_two_hosts_survive_an_interruption(runs: Runs, tmp_path: Path) -> None:
    runs.yard.bucket.put_folder(DIGITS.made_in(tmp_path), DIGITS.prefix)
    folder = f"s3://{runs.yard.bucket.name}/{DIGITS.prefix}"
    args = {"epochs": 12, "global-batch-size": 64, "checkpoint-every": 20, "step-delay": 0.1}
    job = runs.job(
        "digits",
        program={"source": None, "module": "training.programs.digits", "args": None},
        data={"few": None, "train": f"{folder}train/", "test": f"{folder}test/"},
    )
    job["program"]["args"] = args
    run = runs.in_mid_training(job)
    runs.cloud.fault("interrupt", runs.host_of(run, "worker"))
    runs.finish(run)
    assert run.succeeded, run.why()
    first, second = run.summary["attempts"]
    assert first["ending"] == "interrupted"
    assert second["from_step"] > 0
    metrics = run.json("metrics.json")
    assert metrics["step"] == metrics["steps"] == 12 * 22
    assert metrics["workers"] == 2
    assert metrics["accuracy"] >= 0.95
    assert "model/saved_model.pb" in run.keys
