"""From training to a prediction: a version of a run's model answers as TensorFlow did at its export."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from scripts.datasets import DIGITS
from scripts.local_yard import ROOT, client_environment
from tests.e2e.runs import Runs
from trainyard.core.prediction.agreement import find_difference
from trainyard.exit_codes import ExitCode
from trainyard.protocol import keys
from trainyard.protocol.export import GOLDEN


def test_a_model_is_trained_made_a_version_and_asked(runs: Runs, tmp_path: Path) -> None:
    def command(*words: str, code: int = 0, text: str | None = None) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "trainyard.cli", *words],
            env=client_environment(runs.cloud.environment()) | {"PYTHONPATH": str(ROOT)},
            cwd=tmp_path,
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout if code == 0 else done.stderr

    name = run = trained(runs, tmp_path)
    command("models", "create", name)
    command("versions", "create", "v1", "--model", name, "--origin", run)
    refused = command("predict", "--model", name, "--json-instances", "-", text="[0]", code=ExitCode.REFUSED)
    assert f"{name} has no default version" in refused
    command("versions", "set-default", "v1", "--model", name)
    golden = runs.yard.bucket.json(f"{keys.version(name, 1)}{GOLDEN}")
    assert golden is not None
    for signature, expected in golden["signatures"].items():
        np.savez(tmp_path / "rows.npz", image=np.array(expected["inputs"]["image"], np.float32))
        request = command("request", name, "--from", "rows.npz", "--rows", "0:8", "--signature", signature)
        found = answer(
            command("predict", "--model", name, "--json-instances", "-", "-o", "json", text=request)
        )
        rows = found["predictions"]
        outputs = list(expected["tensorflow"])
        columns = {each: [row[each] for row in rows] if len(outputs) > 1 else rows for each in outputs}
        assert (found["version"], find_difference(expected["tensorflow"], columns)) == (1, None)
    short = command("predict", "--model", name, "--json-instances", "-", text="[0, 1]", code=ExitCode.REFUSED)
    assert "instances[0]: found a list of 2 numbers; wanted 8 (float32, shape (any, 8, 8, 1))" in short


def answer(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found


def trained(runs: Runs, folder: Path) -> str:
    """Train digits on one host, and return the run's id."""
    runs.yard.bucket.put_folder(DIGITS.made_in(folder), DIGITS.prefix)
    data = f"s3://{runs.yard.bucket.name}/{DIGITS.prefix}"
    job = runs.job(
        "digits",
        program={"source": None, "module": "training.programs.digits", "args": None},
        data={"few": None, "train": f"{data}train/", "test": f"{data}test/"},
        cluster={"strategy": "single", "workers": 1},
    )
    job["program"]["args"] = {"epochs": 2, "global-batch-size": 64}
    run = runs.finish(runs.start(job))
    assert run.succeeded, run.why()
    return run.id
