"""The command on a deployed yard: the working day of one user."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scripts.local_yard import ROOT, client_environment
from tests.e2e.patience import PATIENCE
from tests.e2e.runs import Runs

PROGRAM = """
import argparse, json, os, time
from pathlib import Path
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
parser.add_argument("--lr", type=float)
arguments = parser.parse_args()
points = Path(os.environ["TRAINYARD_DATA_POINTS"], "points.csv").read_text().splitlines()
saved = Path(os.environ["TRAINYARD_CHECKPOINTS"], "step.txt")
begin = int(saved.read_text()) if saved.exists() else 0
for step in range(begin + 1, arguments.steps + 1):
    told = {"step": step, "steps": arguments.steps, "loss": 1 / step, "epoch": 1}
    with open(os.environ["TRAINYARD_PROGRESS"], "a") as progress:
        progress.write(json.dumps(told) + "\\n")
    print(f"step {step} with {len(points)} points and lr {arguments.lr}", flush=True)
    if step == 10:
        saved.write_text("10")
    time.sleep(0.1)
Path(os.environ["TRAINYARD_MODEL"]).mkdir(exist_ok=True)
Path(os.environ["TRAINYARD_MODEL"], "weights.txt").write_text("1 2 3")
Path(os.environ["TRAINYARD_METRICS"]).write_text(json.dumps({"step": arguments.steps, "loss": 1 / arguments.steps}))
"""
JOB = """
name: mine
program: {source: ./src, module: train, args: {steps: 30, lr: 0.5}}
data: {points: ./data}
hardware: {instance_types: [g6.xlarge], market: spot}
limits: {hours: 1, dollars: 5, wait_minutes: 5}
"""


class Shell:
    """A folder with a job, and the command in this folder."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.environment = client_environment(environment) | {"PYTHONPATH": str(ROOT)}

    def started(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "trainyard.cli", *words],
            cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def done(self, *words: str) -> tuple[int, str, str]:
        process = self.started(*words)
        out, err = process.communicate(timeout=PATIENCE)
        assert "Traceback" not in err, err
        return process.returncode, out, err

    def says(self, *words: str) -> str:
        """Run the command, which must succeed, and return its output."""
        code, out, err = self.done(*words)
        assert code == 0, f"{words}: {err}"
        return out

    def knows(self, *words: str) -> Any:
        """Run the command, which must succeed, and return its JSON."""
        return json.loads(self.says(*words, "-o", "json"))


@pytest.fixture
def shell(runs: Runs, tmp_path: Path) -> Shell:
    for name, text in {"src/train.py": PROGRAM, "data/points.csv": "1\n2\n3\n", "job.yaml": JOB}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return Shell(tmp_path, runs.cloud.environment())


def until(true: Callable[[], Any]) -> Any:
    ends = time.monotonic() + PATIENCE
    while not (seen := true()):
        assert time.monotonic() < ends
        time.sleep(0.5)
    return seen


def test_a_day_with_the_command(shell: Shell) -> None:
    # A run from its ID to its model; unchanged files are sent once.
    first = shell.says("submit", "job.yaml").splitlines()
    run = first[0]
    assert run.startswith("mine-")
    assert any("succeeded" in line for line in first)
    assert any("| step 3 with 3 points and lr 0.5" in line for line in first)  # the output of the program
    begun = shell.started(
        "submit", "job.yaml", "-d", "--set", "args.steps=6000", "--set", "args.lr=.1", "-o", "json"
    )
    out, _ = begun.communicate(timeout=PATIENCE)
    other = json.loads(out)
    assert other["sent"] == []
    assert shell.knows("why", "mine")["run"] == other["run"]  # even before the yard has admitted it

    # A running run can be followed in several ways.
    following = shell.started("logs", other["run"], "-f", "--role", "chief")
    assert following.stdout
    lines = (line for line in following.stdout if "step 3 with" in line)
    assert "3 points and lr 0.1" in next(lines)
    following.terminate()
    following.communicate()
    assert shell.knows("show", "@last")["run"] == other["run"]
    assert [each["id"] for each in shell.knows("ls", "-n", "2")] == [other["run"], run]
    (host,) = [each for each in shell.knows("hosts") if each["run"] == other["run"]]
    assert (
        shell.knows("hold", host["instance"], "1h")["held"] > shell.knows("unhold", host["instance"])["held"]
    )
    assert f"{other['run']} is training" in shell.says("why", other["run"])

    # Compare two runs. The model is downloaded once.
    compared = shell.knows("diff", run, other["run"])
    assert compared["differences"] == {"program.args.steps": [30, 6000], "program.args.lr": [0.5, 0.1]}
    assert (shell.folder / shell.says("get", run).strip() / "weights.txt").read_text() == "1 2 3"
    assert shell.knows("get", run, "logs", "logs")["files"] > 0
    assert shell.knows("get", run, "metrics", "all")["files"] == 1
    assert shell.done("logs", run, "--role", "wroker")[0] == 4
    assert shell.done("logs", run, "--attempt", "4")[0] == 4
    assert shell.done("tb", run)[0] in (3, 4)  # without TensorBoard, or without events

    # A running run and a finished run cannot be resumed.
    code, _, err = shell.done("resume", other["run"])
    assert (code, "still running" in err) == (3, True)
    code, _, err = shell.done("resume", run)
    assert (code, "has finished at step 30 of 30" in err) == (3, True)
    until(
        lambda: [
            part for part in shell.knows("cost")["parts"] if part["of"] == "mine" and part["dollars"] > 0
        ]
    )
    assert shell.knows("yard", "status")["runs"] == [other["run"]]
    assert [each["standing"] for each in shell.knows("image", "ls")].count("current") == 1

    # A stopped run saves first, and another run continues from its checkpoint.
    assert shell.knows("stop", other["run"])["kind"] == "stopped"
    assert shell.knows("ls", "-n", "1")[0]["outcome"] == "stopped"
    resumed = shell.says("resume", other["run"], "--set", "args.steps=20", "-d").splitlines()[0]
    until(lambda: shell.knows("show", resumed)["summary"])
    code, out, err = shell.done("rerun", resumed, "-d")
    assert (code, "starts at step 0" in err) == (0, True)
    again = out.splitlines()[0]
    until(lambda: shell.knows("show", again)["summary"])
    assert shell.says("logs", again, "-q").count("step 1 with") == 1

    # Errors are one line, with an exit code for each kind.
    code, _, err = shell.done("why", "mine-")
    assert (code, run in err, other["run"] in err) == (4, True, True)
    assert shell.done("show", "nobody")[0] == 4
    assert shell.done("submit", "job.yaml", "--set", "limits.hours=-1")[0] == 3
    assert shell.done("submit", "nothing.yaml")[0] == 2
    assert shell.done("--yard", "other", "ls")[0] == 4
    code, _, err = shell.done("submit", "job.yaml", "--set", "args.steps=many", "--name", "broken")
    assert code == 1
    assert "invalid int value: 'many'" in err
    assert "invalid int value: 'many'" in shell.says("why", "broken")


def test_without_credentials_it_says_how_to_sign_in(shell: Shell) -> None:
    shell.environment = {name: value for name, value in shell.environment.items() if "KEY" not in name}
    code, _, err = shell.done("ls")
    assert code == 5
    assert "aws sso login" in err
