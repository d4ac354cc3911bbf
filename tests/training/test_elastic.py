"""The promises of the elastic loop, tested with real processes that train together."""

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.training.workers import checkpoint_steps, free_ports, gang, weights
from training.programs.datasets.digits import write_shards

ARGS = ["--epochs", "3", "--global-batch-size", "64", "--checkpoint-every", "0"]
STEPS = 66
SLOWLY = [*ARGS, "--step-delay", "0.1"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    write_shards(folder)
    return folder


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted")
    with gang(2, folder, data, args=ARGS) as workers:
        assert [worker.wait() for worker in workers] == [0, 0], workers[0].log.read_text()
    return folder


def test_a_whole_run_leaves_model_metrics_and_events(uninterrupted: Path) -> None:
    metrics = json.loads((uninterrupted / "metrics.json").read_text())
    assert metrics["step"] == metrics["steps"] == STEPS
    assert len(metrics["history"]) == 3
    assert metrics["accuracy"] > 0.9
    assert (uninterrupted / "model" / "saved_model.pb").is_file()
    assert list((uninterrupted / "tensorboard").glob("events.*"))


def test_a_run_whose_results_were_lost_concludes_again_without_training(
    uninterrupted: Path, data: Path
) -> None:
    (uninterrupted / "metrics.json").unlink()
    with gang(2, uninterrupted, data, args=ARGS) as workers:
        assert [worker.wait() for worker in workers] == [0, 0], workers[0].log.read_text()
    assert f"resumed from step {STEPS}" in workers[1].log.read_text()
    assert json.loads((uninterrupted / "metrics.json").read_text())["step"] == STEPS


def test_a_worker_told_to_leave_takes_all_along_and_the_resumed_run_ends_with_equal_weights(
    uninterrupted: Path, tmp_path: Path, data: Path
) -> None:
    with gang(2, tmp_path, data, args=SLOWLY) as workers:
        workers[1].wait_for_step(5)
        workers[1].process.send_signal(signal.SIGTERM)
        assert [worker.wait() for worker in workers] == [75, 75], workers[0].log.read_text()
    left_at = checkpoint_steps(tmp_path)[-1]
    assert 0 < left_at < STEPS
    for worker in workers:
        assert f"step {left_at} of {STEPS} is saved; stopping for a restart" in worker.log.read_text()

    with gang(2, tmp_path, data, args=ARGS) as workers:
        assert [worker.wait() for worker in workers] == [0, 0], workers[0].log.read_text()
    for worker in workers:
        assert f"resumed from step {left_at}" in worker.log.read_text()
    assert weights(tmp_path, STEPS) == weights(uninterrupted, STEPS)
    metrics, whole = (
        json.loads((folder / "metrics.json").read_text()) for folder in (tmp_path, uninterrupted)
    )
    assert metrics["history"] == whole["history"]


def test_when_a_peer_is_killed_the_other_leaves_to_be_started_again(tmp_path: Path, data: Path) -> None:
    with gang(2, tmp_path, data, args=SLOWLY) as workers:
        workers[0].wait_for_step(3)
        workers[1].process.kill()
        assert workers[0].wait() == 75
    assert "a peer is gone" in workers[0].log.read_text()


def test_one_worker_goes_on_where_two_left(tmp_path: Path, data: Path) -> None:
    with gang(2, tmp_path, data, args=SLOWLY) as workers:
        workers[0].wait_for_step(5)
        workers[0].process.send_signal(signal.SIGTERM)
        assert [worker.wait() for worker in workers] == [75, 75]
    left_at = checkpoint_steps(tmp_path)[-1]
    with gang(1, tmp_path, data, args=ARGS) as workers:
        assert [worker.wait() for worker in workers] == [0], workers[0].log.read_text()
    assert f"resumed from step {left_at}" in workers[0].log.read_text()
    assert json.loads((tmp_path / "metrics.json").read_text())["accuracy"] > 0.9


def test_a_run_grows_and_shrinks_and_counts_each_step_once(tmp_path: Path, data: Path) -> None:
    """One, three, and two workers share 64 examples per step. Three workers cannot share them evenly."""
    begun = 0
    for size in (1, 3):
        with gang(size, tmp_path, data, args=SLOWLY) as workers:
            workers[0].wait_for_step(begun + 5)
            workers[-1].process.send_signal(signal.SIGTERM)
            assert [worker.wait() for worker in workers] == [75] * size, workers[0].log.read_text()
        if begun:
            assert f"resumed from step {begun}" in workers[-1].log.read_text()
        begun = checkpoint_steps(tmp_path)[-1]
    with gang(2, tmp_path, data, args=ARGS) as workers:
        assert [worker.wait() for worker in workers] == [0, 0], workers[0].log.read_text()
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["step"] == metrics["steps"] == STEPS
    assert all(math.isfinite(value) for value in metrics["history"][-1].values())
    assert metrics["accuracy"] > 0.9


def test_a_worker_that_never_comes_is_named_and_ends_the_wait() -> None:
    mine, absent = free_ports(2)
    cluster = {
        "cluster": {"worker": [f"127.0.0.1:{mine}", f"127.0.0.1:{absent}"]},
        "task": {"type": "worker", "index": 0},
    }
    done = subprocess.run(
        [sys.executable, "-c", "from trainyard.runtime import start; start()"],
        env=os.environ | {"TF_CONFIG": json.dumps(cluster), "TRAINYARD_FORM_SECONDS": "3"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 75, done.stderr
    assert f"no answer from worker 1 at 127.0.0.1:{absent}" in done.stdout
