"""The promises of the asynchronous loop, tested with real processes and a real parameter server."""

import json
import signal
from pathlib import Path

import pytest
import tensorflow as tf
import tf_keras

from tests.training.parameter_servers import gang
from tests.training.workers import checkpoint_steps
from training.programs.datasets.mnist import write_idx, write_tfrecords
from trainyard.runtime.loops.asynchronous import refuse_what_cannot_work
from trainyard.runtime.plan import Plan
from trainyard.runtime.processes.watch import FIRST_TURN_SECONDS, STALLED_SECONDS, WorkerProgress

DOWNPOUR = "training.programs.downpour"
EXAMPLES = 7190
EPOCHS = 8
"""The staleness of gradients depends on chance and on other work on the machine. Four epochs may reach only 0.88."""
ARGS = ["--epochs", str(EPOCHS), "--global-batch-size", "96", "--learning-rate", "0.1"]
SLOWLY = [*ARGS, "--step-delay", "0.05"]


def steps(workers: int) -> int:
    return EPOCHS * (EXAMPLES // (96 // workers))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("mnist")
    write_idx(folder)
    return {"mnist": folder}


def test_three_workers_make_exactly_the_steps_there_are_and_learn(
    tmp_path: Path, data: dict[str, Path]
) -> None:
    with gang(
        DOWNPOUR, tmp_path, data, args=[*ARGS, "--checkpoint-every", "300"], workers=3, evaluators=1
    ) as all_:
        assert all_.codes() == [0, 0, 0, 0, 0, 0], all_.chief.log.read_text()
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["step"] == metrics["steps"] == steps(3)
    assert [epoch["epoch"] for epoch in metrics["history"]] == list(range(1, EPOCHS + 1))
    assert metrics["accuracy"] > 0.9
    assert 0 < metrics["staleness"] < metrics["staleness_max"]
    metadata = json.loads(
        (tmp_path / "checkpoints" / f"{steps(3):08d}" / "trainyard-metadata.json").read_text()
    )
    assert sum(metadata["statistics"]["turns"]) == steps(3)
    assert min(metadata["statistics"]["turns"]) > 0
    evaluated = all_.evaluators[0].log.read_text()
    assert f"evaluation at step {steps(3)}: loss" in evaluated
    assert list((tmp_path / "tensorboard" / "evaluation").glob("events.*"))
    assert tf.saved_model.load(str(tmp_path / "model")).signatures["classify"]


def test_a_worker_that_fetches_and_pushes_seldom_learns_too(tmp_path: Path, data: dict[str, Path]) -> None:
    rhythm = ["--fetch-every", "4", "--push-every", "2"]
    with gang(DOWNPOUR, tmp_path, data, args=[*ARGS, *rhythm]) as all_:
        assert all_.codes() == [0, 0, 0, 0], all_.chief.log.read_text()
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    pushes_per_epoch = EXAMPLES // (48 * 4) * 2
    assert metrics["step"] == EPOCHS * pushes_per_epoch
    assert metrics["accuracy"] > 0.85
    # after a fetch, the second push is one step staler than the first
    assert metrics["staleness"] >= 0.5


def test_each_worker_trains_on_the_files_that_it_alone_has(tmp_path: Path) -> None:
    """Each process starts in its own folder, so that the same path leads to different files."""
    write_tfrecords(tmp_path / "all")
    hosts = {name: tmp_path / "hosts" / name for name in ("chief-0", "worker-0", "worker-1")}
    for host in hosts.values():
        (host / "shards").mkdir(parents=True)
    for index, shard in enumerate(sorted((tmp_path / "all" / "train").iterdir())):
        shard.rename(hosts[f"worker-{index % 2}"] / "shards" / shard.name)
    data = {"train": Path("shards"), "test": tmp_path / "all" / "test"}
    sharded = {"TRAINYARD_DATA_TRAIN_SHARDING": "file"}
    with gang(DOWNPOUR, tmp_path, data, args=ARGS, told=sharded, folders=hosts) as all_:
        assert all_.codes() == [0, 0, 0, 0], all_.chief.log.read_text()
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["step"] == metrics["steps"] == steps(2)
    assert metrics["accuracy"] > 0.9


SAVING = ["--checkpoint-every", "25"]


def left(role: str, strike: signal.Signals, reason: str | None, folder: Path, data: dict[str, Path]) -> int:
    """Run an attempt until one process ends and the others leave. Return the saved step."""
    with gang(DOWNPOUR, folder, data, args=[*SLOWLY, *SAVING]) as all_:
        all_.chief.wait_for_step(60)
        struck = {"chief": all_.chief, "worker": all_.workers[-1], "ps": all_.servers[-1]}[role]
        reached = all_.chief.step()
        struck.process.send_signal(strike)
        codes = {one: one.wait() for one in all_.all}
    assert {code for one, code in codes.items() if one is not struck} == {75}
    assert codes[struck] == (75 if strike == signal.SIGTERM else -signal.SIGKILL)
    if reason:
        assert reason in all_.chief.log.read_text()
    saved = checkpoint_steps(folder)[-1]
    can_still_save = role == "worker" or strike == signal.SIGTERM
    assert saved >= reached if can_still_save else saved >= 25
    return saved


@pytest.mark.parametrize(
    ("role", "reason"),
    [
        ("worker", "a peer is gone (no answer from worker 1"),
        ("ps", "a peer is gone"),
        ("chief", None),
    ],
)
def test_whoever_is_killed_the_others_leave(
    role: str, reason: str | None, tmp_path: Path, data: dict[str, Path]
) -> None:
    left(role, signal.SIGKILL, reason, tmp_path, data)


def test_a_chief_that_is_told_to_leave_takes_all_along_and_the_next_attempt_goes_on(
    tmp_path: Path, data: dict[str, Path]
) -> None:
    saved = left("chief", signal.SIGTERM, "stopping on request: step", tmp_path, data)
    with gang(DOWNPOUR, tmp_path, data, args=ARGS) as all_:
        assert all_.codes() == [0, 0, 0, 0], all_.chief.log.read_text()
    assert f"resumed from step {saved}" in all_.chief.log.read_text()
    last = json.loads(all_.chief.progress.read_text().splitlines()[-1])
    assert last["resumed"]["step"] == saved
    assert last["resumed"]["verified"] is True
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["step"] == metrics["steps"] == steps(2)
    assert metrics["accuracy"] > 0.9


def test_a_worker_is_given_time_for_its_first_turn_and_less_for_the_next() -> None:
    worker_progress = WorkerProgress((10, 10), now=0)
    assert worker_progress.hanging(FIRST_TURN_SECONDS - 1) == []
    worker_progress.see((20, 11), now=100)
    assert worker_progress.hanging(100 + STALLED_SECONDS - 1) == []
    worker_progress.see((90, 11), now=100 + STALLED_SECONDS)
    worker_progress.see((99, 11), now=301)
    assert worker_progress.hanging(301) == [1]


def test_slow_turns_are_waited_for_longer() -> None:
    worker_progress = WorkerProgress((0, 0), now=0)
    worker_progress.see((5, 5), now=100)
    assert worker_progress.turns_per_second(100) == 0.1
    assert worker_progress.patience(100) == 400
    assert worker_progress.hanging(499) == []


PLAN = Plan(epochs=1, global_batch_size=8, seed=1, checkpoint_every=0, checkpoint_seconds=1)


@pytest.mark.parametrize(
    ("optimizer", "workers", "replicas", "said"),
    [
        (tf.keras.optimizers.Adagrad(), 2, 1, "use tf_keras.optimizers.Adagrad"),
        (tf_keras.optimizers.Adagrad(), 9, 1, "is smaller than the number of workers, 9"),
        (tf_keras.optimizers.Adagrad(), 2, 4, "each worker has 4 GPUs"),
    ],
)
def test_what_cannot_work_is_refused(optimizer: object, workers: int, replicas: int, said: str) -> None:
    with pytest.raises(SystemExit, match=said):
        refuse_what_cannot_work(optimizer, PLAN, workers, replicas)
