"""One model over several hosts: a lost host, a request to leave, and the same weights as without either."""

import json
import signal
from pathlib import Path

import pytest

from tests.training.programs import EXAMPLES, fingerprint, started
from tests.training.workers import Worker, checkpoint_steps, wait_until

TWO = {"worker": 2}
STEPS = 128
PROGRAMS = [("layers", {"micro-batches": "4"}), ("dtensor", {"mesh": "batch=2,model=2"})]
LOSS = 0.154350
"""Both programs train the same network on the same batches, so they reach the same loss."""
ARGS = {"epochs": "2"}


def train(name: str, args: dict[str, str], folder: Path) -> tuple[str, float]:
    """Run a program on two hosts from its latest checkpoint to the end. Return its weights and its last loss."""
    with started(
        EXAMPLES / f"{name}.py", folder, folder, strategy="multi_worker", members=TWO, args=args | ARGS
    ) as hosts:
        assert [host.wait() for host in hosts.values()] == [0, 0], logs(hosts)
    assert checkpoint_steps(folder)[-1] == STEPS
    return fingerprint(folder, STEPS), json.loads((folder / "metrics.json").read_text())["loss"]


def logs(hosts: dict[str, Worker]) -> str:
    return "\n".join(host.log.read_text() for host in hosts.values())


@pytest.mark.parametrize(("name", "args"), PROGRAMS)
def test_a_killed_host_and_a_request_to_leave_change_no_bit(
    name: str, args: dict[str, str], tmp_path: Path
) -> None:
    expected = train(name, args, tmp_path / "whole")
    assert expected[1] == pytest.approx(LOSS, abs=1e-5)
    folder, slow = tmp_path / "broken", args | ARGS | {"step-delay": "0.3"}
    every = {"TRAINYARD_CHECKPOINT_STEPS": "5"}
    with started(
        EXAMPLES / f"{name}.py", folder, folder, strategy="multi_worker", members=TWO, args=slow, told=every
    ) as hosts:
        wait_until(lambda: hosts["worker-0"].process.poll() is not None or checkpoint_at(folder) >= 5)
        hosts["worker-1"].process.kill()
        assert hosts["worker-0"].wait() == 75, logs(hosts)
        assert "a peer is gone" in hosts["worker-0"].log.read_text()
    killed_at = checkpoint_at(folder)
    with started(
        EXAMPLES / f"{name}.py", folder, folder, strategy="multi_worker", members=TWO, args=slow
    ) as hosts:
        hosts["worker-0"].wait_for_step(killed_at + 1)
        hosts["worker-1"].process.send_signal(signal.SIGTERM)
        assert [host.wait() for host in hosts.values()] == [75, 75], logs(hosts)
    assert f"resumed from step {killed_at}" in hosts["worker-0"].log.read_text()
    assert STEPS > checkpoint_at(folder) > killed_at
    assert train(name, args, folder) == expected


@pytest.mark.parametrize("mesh", ["batch=1,model=4", "batch=4,model=1", "batch=2,model=2"])
def test_a_mesh_on_one_host_trains_as_one_device(mesh: str, tmp_path: Path) -> None:
    with started(
        EXAMPLES / "dtensor.py", tmp_path, tmp_path, strategy="single", members={}, args={"mesh": mesh} | ARGS
    ) as hosts:
        assert hosts["chief-0"].wait() == 0, logs(hosts)
    loss = json.loads((tmp_path / "metrics.json").read_text())["loss"]
    assert loss == pytest.approx(LOSS, abs=1e-5)


def checkpoint_at(folder: Path) -> int:
    """Return the step of the latest checkpoint, 0 before the first."""
    return max(checkpoint_steps(folder), default=0) if (folder / "checkpoints").is_dir() else 0
