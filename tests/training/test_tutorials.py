"""TensorFlow's parameter-server tutorial saves without changes, and continues after an interruption.

Each process has its own folder, like a host's disk: the chief cannot read the files of a parameter server.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.training import processes
from tests.training.workers import free_ports
from training.host.paths import Paths

TUTORIAL = Path(__file__).with_name("tutorial.py")
STARTUP = Paths(Path("/")).startup.relative_to("/opt/trainyard/agent")
ROLES = ("ps", "worker", "chief")
PATIENCE = 240
Started = dict[str, "subprocess.Popen[bytes] | processes.Process"]


@contextmanager
def cluster(folder: Path, how: str, *, pause: float = 0.0, helped: bool = True) -> Iterator[Started]:
    """Run chief, worker, and parameter server. With `helped`, processes start as on hosts. This affects only the chief,
    because the other two only serve."""
    ports = dict(zip(ROLES, free_ports(3), strict=True))
    members = {role: [f"127.0.0.1:{port}"] for role, port in ports.items()}
    started: Started = {}
    for role in ROLES:
        (folder / role).mkdir(parents=True, exist_ok=True)
        env = os.environ | {
            "TF_CONFIG": json.dumps({"cluster": members, "task": {"type": role, "index": 0}}),
            "TRAINYARD_STRATEGY": "parameter_server",
            "PYTHONPATH": str(Path(__file__).parents[2] / STARTUP) if helped else "",
        }
        command = [str(TUTORIAL), how, "checkpoints", str(pause)]
        if role == "chief":
            with (folder / role / "log").open("ab") as log:
                started[role] = subprocess.Popen(
                    [sys.executable, *command], cwd=folder / role, env=env, stdout=log, stderr=log
                )
        else:
            started[role] = processes.start(command, env, folder / role, folder / role / "log")
    try:
        yield started
    finally:
        for each in started.values():
            each.kill()
            each.wait()


def log(folder: Path) -> str:
    return (folder / "chief/log").read_text()


def await_line(folder: Path, text: str) -> None:
    until = time.monotonic() + PATIENCE
    while text not in log(folder):
        assert time.monotonic() < until, log(folder)
        time.sleep(0.1)


def test_as_it_is_written_nothing_but_a_half_is_saved(tmp_path: Path) -> None:
    """Hosts change this default of TensorFlow. If TensorFlow changes it, remove the change from hosts."""
    with cluster(tmp_path, "manager", helped=False) as started:
        assert started["chief"].wait(PATIENCE) != 0
    left = {path.relative_to(tmp_path / "chief").parts[1] for path in tmp_path.glob("chief/checkpoints/*")}
    assert left == {"ckpt-1_temp"}


@pytest.mark.parametrize(
    ("how", "second", "struck", "goes_on"),
    [
        ("manager", "saved checkpoints/ckpt-2", "ps", "restored checkpoints/ckpt-2 at 20"),
        ("backup", "Epoch 3/4", "chief", "Epoch 3/4"),
        ("weights", "Epoch 3/4", "ps", "restored checkpoints/ckpt-"),
    ],
)
def test_on_hosts_it_saves_and_goes_on_from_there(
    how: str, second: str, struck: str, goes_on: str, tmp_path: Path
) -> None:
    with cluster(tmp_path, how, pause=3) as started:
        await_line(tmp_path, second)
        started[struck].send_signal(signal.SIGKILL)
        assert started["chief"].wait(PATIENCE) != 0
    (tmp_path / "chief/log").rename(tmp_path / "first")
    with cluster(tmp_path, how) as started:
        assert started["chief"].wait(PATIENCE) == 0, log(tmp_path)
    assert goes_on in log(tmp_path)
    assert "Epoch 2/4" not in log(tmp_path) or how == "weights"
    assert (tmp_path / "chief/model/variables/variables.index").is_file()
    assert not list((tmp_path / "ps").rglob("*.index"))
