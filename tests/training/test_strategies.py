"""Interruptions of every kind, with the elastic loop under each synchronous strategy."""

import signal
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.training.programs import fingerprint, resumed_lines, started, write_digits
from tests.training.workers import Worker, checkpoint_steps

LOOPED = Path(__file__).with_name("looped.py")
STEPS = 56
EVERY_4 = {"TRAINYARD_CHECKPOINT_STEPS": "4"}
SLOWLY = {"delay": "0.1"}
TOLERANCE = 1e-4
"""The largest absolute difference of a weight. Other numbers of workers round sums in another order."""

WHOLE: dict[str, tuple[str, dict[str, int]]] = {
    "single": ("single", {}),
    "mirrored": ("mirrored", {}),
    "two workers": ("multi_worker", {"worker": 2}),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_digits(tmp_path_factory.mktemp("digits"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Mapping[str, Path]:
    """Return the folders of uninterrupted runs, by their names in `WHOLE`."""
    folders = {name: tmp_path_factory.mktemp(name.replace(" ", "-")) for name in WHOLE}
    for name, (strategy, members) in WHOLE.items():
        finish(folders[name], data, strategy, members)
    return folders


def finish(folder: Path, data: Path, strategy: str, members: Mapping[str, int]) -> None:
    with started(LOOPED, folder, data, strategy=strategy, members=members, told=EVERY_4) as workers:
        assert [one.wait() for one in workers.values()] == [0] * len(workers), log(folder)
        for one in workers.values():
            for line in resumed_lines(one.progress):
                assert line.get("resumed", {"verified": True})["verified"]


@pytest.mark.parametrize(
    ("name", "whom", "how"),
    [
        ("single", "chief-0", signal.SIGTERM),
        ("single", "chief-0", signal.SIGKILL),
        ("mirrored", "chief-0", signal.SIGTERM),
        ("mirrored", "chief-0", signal.SIGKILL),
        ("two workers", "worker-0", signal.SIGTERM),
        ("two workers", "worker-0", signal.SIGKILL),
        ("two workers", "worker-1", signal.SIGKILL),
        ("two workers", "worker-1", signal.SIGSTOP),
    ],
)
def test_an_interrupted_run_ends_with_the_weights_of_a_whole_one(
    name: str, whom: str, how: signal.Signals, tmp_path: Path, data: Path, whole: Mapping[str, Path]
) -> None:
    strategy, members = WHOLE[name]
    with started(
        LOOPED, tmp_path, data, strategy=strategy, members=members, told=EVERY_4, args=SLOWLY
    ) as workers:
        workers[whom].wait_for_step(9)
        workers[whom].process.send_signal(how)
        others = [one for key, one in workers.items() if key != whom]
        assert [one.wait() for one in others] == [75] * len(others), log(tmp_path)
        if how == signal.SIGTERM:
            assert workers[whom].wait() == 75, log(tmp_path)
    left_at = checkpoint_steps(tmp_path)[-1]
    assert 8 <= left_at < STEPS
    finish(tmp_path, data, strategy, members)
    assert f"resumed from step {left_at}" in log(tmp_path)
    assert fingerprint(tmp_path, STEPS) == fingerprint(whole[name], STEPS)


@pytest.mark.parametrize("count", [1, 3])
def test_more_or_fewer_workers_go_on_within_the_tolerance(
    count: int, tmp_path: Path, data: Path, whole: Mapping[str, Path]
) -> None:
    with started(
        LOOPED,
        tmp_path,
        data,
        strategy="multi_worker",
        members={"worker": 2},
        told=EVERY_4,
        args=SLOWLY,
    ) as workers:
        workers["worker-0"].wait_for_step(9)
        workers["worker-0"].process.send_signal(signal.SIGTERM)
        assert [one.wait() for one in workers.values()] == [75, 75], log(tmp_path)
    finish(tmp_path, data, "multi_worker", {"worker": count})
    assert largest_difference(tmp_path, whole["two workers"]) <= TOLERANCE


def test_a_damaged_checkpoint_is_named_and_not_trained_on(tmp_path: Path, data: Path) -> None:
    finish(tmp_path, data, "single", {})
    latest = tmp_path / "checkpoints" / f"{STEPS:08d}"
    file = latest / "variables.data-00000-of-00001"
    damaged = bytearray(file.read_bytes())
    damaged[100] ^= 1
    file.write_bytes(damaged)
    assert ended(tmp_path, data) == 1
    assert f"the checkpoint {latest} is damaged: the content of {file.name} has changed" in log(tmp_path)


def test_another_batch_size_on_the_way_is_refused(tmp_path: Path, data: Path) -> None:
    finish(tmp_path, data, "single", {})
    assert ended(tmp_path, data, batch="32") == 1
    assert "has global_batch_size 64, but the program has 32" in log(tmp_path)


def ended(folder: Path, data: Path, **args: str) -> int:
    with started(LOOPED, folder, data, strategy="single", members={}, args=args) as workers:
        worker: Worker = workers["chief-0"]
        return worker.wait()


def largest_difference(one: Path, other: Path) -> float:
    """Return the largest difference of two numbers in the last checkpoints."""
    here, there = (
        tf.train.load_checkpoint(str(folder / "checkpoints" / f"{STEPS:08d}" / "variables"))
        for folder in (one, other)
    )
    names = [name for name in here.get_variable_to_shape_map() if name.endswith("VARIABLE_VALUE")]
    assert names
    return max(float(np.max(np.abs(here.get_tensor(name) - there.get_tensor(name)))) for name in names)


def log(folder: Path) -> str:
    return "\n".join(path.read_text() for path in sorted(folder.glob("*.log")))
