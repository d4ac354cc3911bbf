"""Keras `fit` with Resumable, in real processes: interrupted runs end with the weights of uninterrupted ones."""

import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.training.programs import fingerprint, resumed_lines, started, write_digits
from tests.training.workers import checkpoint_steps

FITTED = Path(__file__).with_name("fitted.py")
STEPS = 56
SLOWLY = {"delay": "0.1"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_digits(tmp_path_factory.mktemp("digits"))


@pytest.mark.parametrize(
    ("library", "fed", "strategy", "members"),
    [
        ("tf_keras", "examples", "single", {}),
        ("tf_keras", "dataset", "multi_worker", {"worker": 2}),
        ("tf_keras", "examples", "multi_worker", {"worker": 2}),
        ("keras", "dataset", "single", {}),
        ("keras", "examples", "mirrored", {}),
    ],
)
def test_an_interrupted_fit_ends_with_the_weights_of_a_whole_one(
    library: str, fed: str, strategy: str, members: Mapping[str, int], tmp_path: Path, data: Path
) -> None:
    args = {"library": library, "data": fed}
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    with started(FITTED, whole, data, strategy=strategy, members=members, args=args) as workers:
        assert [one.wait() for one in workers.values()] == [0] * len(workers), logs(whole)
    with started(FITTED, broken, data, strategy=strategy, members=members, args=args | SLOWLY) as workers:
        last = list(workers.values())[-1]
        last.wait_for_step(5)
        last.process.send_signal(signal.SIGTERM)
        assert [one.wait() for one in workers.values()] == [75] * len(workers), logs(broken)
    left_at = checkpoint_steps(broken)[-1]
    assert 0 < left_at < STEPS
    with started(FITTED, broken, data, strategy=strategy, members=members, args=args) as workers:
        assert [one.wait() for one in workers.values()] == [0] * len(workers), logs(broken)
        for one in workers.values():
            assert {line["resumed"]["step"] for line in resumed_lines(one.progress)} == {left_at}
    assert fingerprint(broken, STEPS) == fingerprint(whole, STEPS)


def test_a_killed_fit_goes_on_from_its_last_checkpoint(tmp_path: Path, data: Path) -> None:
    args = {"library": "tf_keras", "data": "examples"}
    every = {"TRAINYARD_CHECKPOINT_STEPS": "4"}
    with started(
        FITTED, tmp_path, data, strategy="single", members={}, args=args | SLOWLY, told=every
    ) as workers:
        workers["chief-0"].wait_for_step(9)
        workers["chief-0"].process.kill()
        workers["chief-0"].wait()
    assert checkpoint_steps(tmp_path)[-1] >= 8
    with started(FITTED, tmp_path, data, strategy="single", members={}, args=args, told=every) as workers:
        assert workers["chief-0"].wait() == 0, logs(tmp_path)
    assert json.loads((tmp_path / "metrics.json").read_text())["step"] == STEPS


def test_a_finished_fit_is_not_trained_again(tmp_path: Path, data: Path) -> None:
    args = {"library": "keras", "data": "examples", "validate": "128"}
    lines: list[dict[str, Any]] = []
    for _ in range(2):
        with started(FITTED, tmp_path, data, strategy="single", members={}, args=args) as workers:
            assert workers["chief-0"].wait() == 0, logs(tmp_path)
            progress = workers["chief-0"].progress
            lines += resumed_lines(progress) if progress.exists() else []
    assert [(line["step"], line["epoch"]) for line in lines if "val_accuracy" in line] == [
        (28, 1),
        (STEPS, 2),
    ]
    log = logs(tmp_path)
    assert f"resumed from step {STEPS}" in log
    assert log.count(f"step {STEPS}/{STEPS} ") == 1


def test_keras_3_across_hosts_is_refused_with_what_to_use(tmp_path: Path, data: Path) -> None:
    args = {"library": "keras", "data": "examples"}
    with started(
        FITTED, tmp_path, data, strategy="multi_worker", members={"worker": 2}, args=args
    ) as workers:
        codes = {one.wait() for one in workers.values()}
    assert 1 in codes
    assert codes <= {1, 75}, "who is still forming the cluster when the other refuses sees a peer go"
    assert "Keras 3 fit does not work on several hosts" in logs(tmp_path)
    assert "tf_keras" in logs(tmp_path)


def logs(folder: Path) -> str:
    return "\n".join(path.read_text() for path in sorted(folder.glob("*.log")))
