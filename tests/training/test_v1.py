"""TensorFlow 1's parameter servers, with the additions of our program: deadlines, an orderly end, and resuming."""

import json
import signal
from pathlib import Path

import pytest
import tensorflow as tf

from tests.training.parameter_servers import environment, gang_of_flags, launch
from training.programs.datasets.mnist import write_idx

V1 = "training.programs.parameter_server_v1"
STEPS = 3000
ARGS = ["--steps", str(STEPS)]
SLOWLY = [*ARGS, "--step_delay", "0.05"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("mnist")
    write_idx(folder)
    return {"mnist": folder}


def latest_step(folder: Path) -> int:
    latest = tf.train.latest_checkpoint(str(folder / "checkpoints"))
    return int(tf.train.load_checkpoint(latest).get_tensor("global_step")) if latest else 0


def left(role: str, strike: signal.Signals, folder: Path, data: dict[str, Path]) -> int:
    """Run an attempt until one process ends and the others leave. Return the saved step."""
    saving = {"TRAINYARD_CHECKPOINT_STEPS": "20"}
    with gang_of_flags(V1, folder, data, args=SLOWLY, told=saving) as all_:
        all_.chief.wait_for_step(60)
        struck = {"chief": all_.chief, "ps": all_.servers[0]}[role]
        reached = all_.chief.step()
        struck.process.send_signal(strike)
        codes = {one: one.wait() for one in all_.all}
    assert {code for one, code in codes.items() if one is not struck} == {75}
    assert codes[struck] == (75 if strike == signal.SIGTERM else -signal.SIGKILL)
    saved = latest_step(folder)
    assert saved >= reached if strike == signal.SIGTERM else saved >= 20
    return saved


@pytest.mark.parametrize("strike", [signal.SIGTERM, signal.SIGKILL])
def test_when_the_chief_goes_the_others_leave(
    strike: signal.Signals, tmp_path: Path, data: dict[str, Path]
) -> None:
    left("chief", strike, tmp_path, data)


def test_when_a_parameter_server_goes_the_next_attempt_goes_on_to_the_limit(
    tmp_path: Path, data: dict[str, Path]
) -> None:
    saved = left("ps", signal.SIGKILL, tmp_path, data)
    with gang_of_flags(V1, tmp_path, data, args=ARGS) as all_:
        assert all_.codes() == [0, 0, 0], all_.chief.log.read_text()
    said = all_.chief.log.read_text()
    assert f"resumed from step {saved}" in said
    assert json.loads(all_.chief.progress.read_text().splitlines()[-1])["resumed"]["step"] == saved
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["step"] >= STEPS  # workers may push once more during the last step
    assert metrics["accuracy"] > 0.95
    for word in ("Step: ", "Epoch: ", "Batch: ", "Cost: ", "Test-Accuracy: "):
        assert word in said
    assert tf.saved_model.load(str(tmp_path / "model")).signatures["predict"]
    assert list((tmp_path / "tensorboard").glob("events.*"))


def test_a_parameter_server_that_never_comes_is_named_and_ends_the_wait(
    tmp_path: Path, data: dict[str, Path]
) -> None:
    soon = {"TRAINYARD_FORM_SECONDS": "5"}
    with gang_of_flags(V1, tmp_path, data, args=ARGS, missing_servers=True, told=soon) as all_:
        assert all_.codes() == [75, 75]
    assert "no answer from ps 0 at 127.0.0.1" in all_.chief.log.read_text()


def test_it_trains_in_one_process_too(tmp_path: Path, data: dict[str, Path]) -> None:
    one = launch(
        ["-m", V1, "--steps", "300"],
        environment(tmp_path, data, "worker", 0),
        tmp_path,
        "alone",
    )
    assert one.wait() == 0, one.log.read_text()
    assert json.loads((tmp_path / "metrics.json").read_text())["step"] == 300
