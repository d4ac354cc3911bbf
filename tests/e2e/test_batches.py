"""A foreign SavedModel becomes a version, which answers the rows of many files although a host is killed."""

import json
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

from scripts.datasets import HOST_PYTHON
from scripts.local_yard import ROOT, client_environment
from tests.e2e.runs import Runs
from trainyard.client import Run
from trainyard.protocol import keys
from trainyard.protocol.export import GOLDEN, LITE_MODEL, RECORD

FILES, ROWS = 20, 50
BAD = {
    ("part-03.jsonl", 7): "not json",
    ("part-11.jsonl", 1): '{"x": [1.0]}',
    ("part-19.jsonl", 50): "[1, 2]",
}
SCRIPT = """
import sys
import tensorflow as tf

class Sum(tf.Module):
    def __init__(self):
        self.weights = tf.Variable(tf.eye(384))

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "x"), tf.TensorSpec([None], tf.float32, "y")])
    def add(self, x, y):
        slow = tf.eye(384)
        for _ in tf.range(200):
            slow = tf.matmul(slow, self.weights)
        return {"sum": (tf.reduce_sum(x, 1) + y) * slow[0, 0]}

model = Sum()
tf.saved_model.save(model, sys.argv[1], signatures={"serving_default": model.add})
"""
"""A script without our runtime. Its model is slow, so that a host can be killed between two files."""


def test_a_foreign_model_answers_a_batch_whose_host_is_killed(runs: Runs, tmp_path: Path) -> None:
    def command(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "trainyard.cli", *words],
            env=client_environment(runs.cloud.environment()) | {"PYTHONPATH": str(ROOT)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    (tmp_path / "script.py").write_text(SCRIPT)
    name = f"foreign-{secrets.token_hex(3)}"
    subprocess.run([HOST_PYTHON, "script.py", "export"], cwd=tmp_path, check=True, capture_output=True)
    command("models", "create", name)
    command("versions", "create", "v1", "--model", name, "--origin", "./export")
    version = keys.version(name, 1)
    assert {f"{version}{path}" for path in (RECORD, GOLDEN, LITE_MODEL)} <= runs.yard.bucket.keys(
        version
    ).keys()
    command("versions", "set-default", "v1", "--model", name)

    folder = f"data/{name}/"
    rows = upload_rows(runs, folder)
    source = f"s3://{runs.yard.bucket.name}/{folder}"
    batch = ("predict-batch", name, source, "--workers", "2", "--type", "c6i.large", "-d", "-o", "json")
    run = runs.yard.run(json.loads(command(*batch))["run"])
    runs.until("the answers to a file", lambda: done_files(runs, run))
    runs.cloud.fault("kill", runs.host_of(run, "worker"))
    assert runs.finish(run).succeeded, run.why()
    assert len(run.summary["attempts"]) > 1

    answers, errors = read_results(runs, run)
    assert errors.keys() == BAD.keys()
    assert answers == {place: sum(row["x"]) + row["y"] for place, row in rows.items() if place not in BAD}
    assert "column 1: Expecting value" in errors["part-03.jsonl", 7]
    assert "missing y; wanted" in errors["part-11.jsonl", 1]
    assert "found a list of 2 numbers; wanted an object with" in errors["part-19.jsonl", 50]
    command("get", run.id, "predictions", "found")
    assert len(list((tmp_path / "found").rglob("*.jsonl"))) == FILES + 1


def upload_rows(runs: Runs, folder: str) -> dict[tuple[str, int], dict[str, Any]]:
    """Upload the files of the batch. Return their rows by file and line."""
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for file in (f"part-{number:02}.jsonl" for number in range(FILES)):
        lines = []
        for line in range(1, ROWS + 1):
            rows[file, line] = {"x": [float(line), 0.5], "y": float(len(rows))}
            lines.append(BAD.get((file, line)) or json.dumps(rows[file, line]))
        runs.yard.bucket.put(f"{folder}{file}", "\n".join(lines).encode())
    return rows


def done_files(runs: Runs, run: Run) -> list[str]:
    return [key for key in runs.yard.bucket.keys(keys.predictions(run.id)) if "part-" in key]


def read_results(runs: Runs, run: Run) -> tuple[dict[tuple[str, int], float], dict[tuple[str, int], str]]:
    """Return answers and reasons by file and line. Each place occurs once."""
    answers: dict[tuple[str, int], float] = {}
    for key in done_files(runs, run):
        for answer in read_lines(runs, key):
            place = key.rpartition("/")[2], answer["line"]
            assert place not in answers
            answers[place] = answer["prediction"]
    found = read_lines(runs, f"{keys.predictions(run.id)}errors.jsonl")
    errors = {(each["file"], each["line"]): each["reason"] for each in found}
    assert len(errors) == len(found)
    return answers, errors


def read_lines(runs: Runs, key: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (runs.yard.bucket.read(key) or b"").decode().splitlines()]
