"""Workers with their own files."""

import json
import shutil
import signal
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.training.programs import fingerprint, started
from tests.training.workers import checkpoint_steps
from training.programs import digits
from training.programs.datasets.digits import write_shards

PROGRAM = Path(digits.__file__)
TWO = {"worker": 2}
ARGS = {"epochs": "2", "global-batch-size": "64"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write training shards for the workers `0` and `1`, and common shards `test`."""
    folder = tmp_path_factory.mktemp("shards")
    write_shards(folder)
    deal(folder, {"0": range(1), "1": range(1, 4)})
    return folder


def deal(folder: Path, shares: dict[str, Iterable[int]]) -> None:
    shards = sorted((folder / "train").glob("*.tfrecord"))
    for name, chosen in shares.items():
        (folder / name).mkdir()
        for number in chosen:
            shutil.copy(shards[number], folder / name)


def told(data: Path) -> dict[str, str]:
    return {
        "TRAINYARD_DATA_TEST": str(data / "test"),
        "TRAINYARD_DATA_TRAIN": f"{data}/{{index}}",
        "TRAINYARD_DATA_TRAIN_SHARDING": "file",
    }


def run(folder: Path, data: Path, codes: list[int], **args: str) -> None:
    with started(
        PROGRAM, folder, data, strategy="multi_worker", members=TWO, told=told(data), args=ARGS | args
    ) as workers:
        assert [one.wait() for one in workers.values()] == codes, (folder / "worker-0.log").read_text()


def test_the_worker_with_fewest_examples_sets_the_epoch_and_a_restart_is_exact(
    data: Path, tmp_path: Path
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run(whole, data, [0, 0])
    steps = json.loads((whole / "metrics.json").read_text())["step"]
    assert steps == 2 * (360 // 32)  # one of four shards of 1,438 scans; half of each batch
    with started(
        PROGRAM,
        broken,
        data,
        strategy="multi_worker",
        members=TWO,
        told=told(data),
        args=ARGS | {"step-delay": "0.1"},
    ) as workers:
        workers["worker-0"].wait_for_step(3)
        workers["worker-1"].process.send_signal(signal.SIGTERM)
        assert [one.wait() for one in workers.values()] == [75, 75]
    assert checkpoint_steps(broken)[-1] < steps
    run(broken, data, [0, 0])
    assert fingerprint(broken, steps) == fingerprint(whole, steps)


def test_a_worker_without_a_shard_says_so(data: Path, tmp_path: Path) -> None:
    lone = tmp_path / "data"
    shutil.copytree(data, lone)
    shutil.rmtree(lone / "1")
    (lone / "1").mkdir()
    with started(
        PROGRAM, tmp_path, lone, strategy="multi_worker", members=TWO, told=told(lone), args=ARGS
    ) as workers:
        assert workers["worker-1"].wait() == 1
    assert "at least one file for each worker" in (tmp_path / "worker-1.log").read_text()
