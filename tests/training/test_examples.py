"""Run the programs of docs/programs.md to their ends, and load their models in a process without their code."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.training import processes
from tests.training.programs import EXAMPLES, started, write_digits

LOAD = """
import json, sys
import numpy as np, tensorflow as tf
folder, data = sys.argv[1:]
model = tf.saved_model.load(folder)
scans = np.load(data + "/digits.npz")
image = tf.constant(scans["images"])
answers = {name: {key: value.numpy() for key, value in model.signatures[name](image=image).items()}
           for name in ("serving_default", "predict", "classify")}
logits, probabilities = answers["serving_default"]["outputs"], answers["predict"]["probabilities"]
classes, scores = answers["classify"]["classes"], answers["classify"]["scores"]
assert np.allclose(probabilities, tf.nn.softmax(logits).numpy(), atol=1e-6)
assert (classes[:, 0] == logits.argmax(axis=1)).all() and np.allclose(scores[:, 0], probabilities.max(axis=1))
print(json.dumps({"accuracy": float((classes[:, 0] == scans["labels"]).mean())}))
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_digits(tmp_path_factory.mktemp("digits"))


@pytest.mark.parametrize(
    ("name", "strategy", "members", "accuracy"),
    [
        ("single", "single", {}, 0.85),
        ("mirrored", "mirrored", {}, 0.9),
        ("mirrored", "multi_worker", {"worker": 2}, 0.9),
        ("multi_worker", "multi_worker", {"worker": 2}, 0.85),
        ("parameter_server", "parameter_server", {"chief": 1, "worker": 2, "ps": 1}, 0.85),
    ],
)
def test_an_example_trains_and_its_model_answers_elsewhere(
    name: str, strategy: str, members: Mapping[str, int], accuracy: float, tmp_path: Path, data: Path
) -> None:
    with started(EXAMPLES / f"{name}.py", tmp_path, data, strategy=strategy, members=members) as workers:
        assert [one.wait() for one in workers.values()] == [0] * len(workers), log(tmp_path)
    described = json.loads((tmp_path / "model" / "trainyard.json").read_text())
    assert described["step"] == json.loads((tmp_path / "metrics.json").read_text())["step"]
    assert described["signatures"]["serving_default"]["inputs"] == {
        "image": {"dtype": "float32", "shape": [None, 64]}
    }
    assert described["signatures"]["classify"]["outputs"].keys() == {"classes", "scores"}
    (tmp_path / "load.py").write_text(LOAD)
    command = [str(tmp_path / "load.py"), str(tmp_path / "model"), str(data)]
    loading = processes.start(command, os.environ, tmp_path, tmp_path / "said")
    code, said = loading.wait(), (tmp_path / "said").read_text()
    assert code == 0, said
    assert json.loads(said.splitlines()[-1])["accuracy"] >= accuracy


def test_tensorflows_sidecar_evaluator_judges_what_two_workers_save(tmp_path: Path, data: Path) -> None:
    folders = {"checkpoints": "checkpoints", "events": "tensorboard", "model": "model"}
    args = {name: str(tmp_path / folder) for name, folder in folders.items()} | {"epochs": "3"}
    with started(
        EXAMPLES / "sidecar.py",
        tmp_path,
        data,
        strategy="multi_worker",
        members={"worker": 2, "evaluator": 1},
        args=args,
    ) as processes:
        assert [one.wait() for one in processes.values()] == [0, 0, 0], log(tmp_path)
    assert "accuracy: 0.9" in (tmp_path / "evaluator-0.log").read_text().splitlines()[-1]
    assert "Epoch 3/3" in (tmp_path / "worker-0.log").read_text()
    assert list(tmp_path.glob("tensorboard/validation/events.out.tfevents.*"))


def test_an_untouched_script_runs_and_goes_on_from_its_own_checkpoint(tmp_path: Path, data: Path) -> None:
    args = {"data": str(data), "checkpoints": str(tmp_path / "checkpoints"), "model": str(tmp_path / "model")}
    for epochs in ("2", "3"):
        with started(
            EXAMPLES / "untouched.py",
            tmp_path,
            data,
            strategy="multi_worker",
            members={"worker": 2},
            args=args | {"epochs": epochs},
        ) as workers:
            assert [one.wait() for one in workers.values()] == [0, 0], log(tmp_path)
    said = (tmp_path / "worker-0.log").read_text()
    assert "Epoch 1/2" in said
    assert "Epoch 1/3" not in said
    assert "Epoch 3/3" in said
    assert (tmp_path / "model" / "saved_model.pb").is_file()


def test_a_script_of_tensorflow_1_gets_its_flags_from_the_job(tmp_path: Path, data: Path) -> None:
    args = {"job_name": "{role}", "task_index": "{index}", "ps_hosts": "{ps}", "worker_hosts": "{worker}"}
    args |= {"data": str(data), "checkpoints": str(tmp_path / "checkpoints")}
    with started(
        EXAMPLES / "v1.py",
        tmp_path,
        data,
        strategy="parameter_server",
        members={"worker": 2, "ps": 1},
        args=args,
    ) as workers:
        assert workers["worker-0"].wait() == 0, log(tmp_path)
    assert list((tmp_path / "checkpoints").glob("model.ckpt-*.index"))


def log(folder: Path) -> str:
    return "\n".join(path.read_text() for path in sorted(folder.glob("*.log")))
