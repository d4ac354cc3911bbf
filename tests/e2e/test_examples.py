"""Run every job file under examples/ to its end and compare the result with the figures in docs/examples."""

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts.datasets import HOST_PYTHON, upload
from scripts.local_yard import ROOT
from tests.e2e.runs import Runs
from trainyard.client import Run

EXAMPLES = ROOT / "examples"
SERVED = ["chief 0", "ps 0", "worker 0", "worker 1"]


@dataclass(frozen=True)
class Example:
    """A job file and its documented result."""

    name: str
    roles: list[str]
    chief_lines: tuple[str, ...]
    accuracy: float = 0.0
    """The lowest accuracy of a classifier; 0 for a program that saves no model."""
    evaluator_line: str = ""
    """A line in the log of the evaluator, whose host has no GPU."""


SUMMARY_LINES = ("Test-Accuracy: 0.9", "Total Time: ", "Final Cost: ")
EXAMPLE_JOBS = [
    Example("matmul", ["chief 0"], ("GFLOP/s",)),
    Example("replicate", ["chief 0"], ("joined product and unsplit product are",)),
    Example("mnist-single", ["chief 0"], SUMMARY_LINES, 0.95),
    Example("mnist-mirrored", ["chief 0"], (*SUMMARY_LINES, "2 replicas"), 0.95),
    Example("mnist-multi-worker", ["chief 0", "worker 1"], SUMMARY_LINES, 0.95),
    Example("mnist-parameter-server", SERVED, SUMMARY_LINES, 0.95),
    Example("downpour", SERVED, ("staleness",), 0.93),
    Example("parameter-server-v1", ["chief 0", "ps 0", "worker 1"], SUMMARY_LINES, 0.93),
    Example("keras-text", ["chief 0", "worker 1"], (), 0.75),
    Example("programs/layers", ["chief 0", "worker 1"], ("uses 2 hosts",), 0.95),
    Example("programs/dtensor", ["chief 0", "worker 1"], ("a mesh of 1 x 2",), 0.95),
    Example(
        "programs/evaluator",
        ["chief 0", "evaluator 0", "worker 1"],
        ("Epoch 10/10",),
        evaluator_line="8/8 - .* accuracy: 0.9",
    ),
]
SIGNATURES = {"serving_default", "predict", "classify"}
READ = """
import json, sys, tensorflow as tf
for folder in sys.stdin:
    found = tf.saved_model.load(folder.rstrip()).signatures
    print(json.dumps({name: str(each.structured_input_signature) for name, each in found.items()}), flush=True)
"""
Reader = subprocess.Popen[str]


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    """Start a process that loads models and shares no code with the programs that saved them."""
    command = [str(HOST_PYTHON), "-c", READ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        yield started


def test_every_job_file_is_tested() -> None:
    files = (*EXAMPLES.glob("*.yaml"), *EXAMPLES.glob("programs/*.yaml"))
    names = {path.relative_to(EXAMPLES).with_suffix("").as_posix() for path in files}
    assert names == {example.name for example in EXAMPLE_JOBS} | {"digits", "digits-study", "mnist-study"}, (
        "make demo runs digits.yaml; test_study.py runs studies"
    )


@pytest.mark.parametrize("example", EXAMPLE_JOBS, ids=[example.name for example in EXAMPLE_JOBS])
def test_an_example_reaches_its_documented_result(
    runs: Runs, reader: Reader, example: Example, tmp_path: Path
) -> None:
    job = EXAMPLES / f"{example.name}.yaml"
    upload(runs.yard.bucket, job)
    run = runs.finish(runs.yard.submit(job))
    assert run.succeeded, run.why()
    assert [attempt["ending"] for attempt in run.summary["attempts"]] == ["finished"]
    hosts = run.json("attempts/1/cluster.json")["hosts"]
    assert sorted(f"{host['role']} {host['index']}" for host in hosts) == example.roles
    log = run.log()
    for line in example.chief_lines:
        assert line in log
    if example.accuracy:
        leaves_a_classifier(run, example.accuracy, reader, tmp_path)
    if example.evaluator_line:
        measured_the_last_checkpoint(run, example.evaluator_line)


def measured_the_last_checkpoint(run: Run, line: str) -> None:
    """Check that the evaluator ended by itself before the run ended, and that its events and log are in the bucket."""
    log = run.log("evaluator-0")
    assert re.search(line, log), log
    assert "the program ended with exit code 0" in log.splitlines()[-1]
    assert "the evaluator has not ended" not in run.log()
    assert any(key.startswith("tensorboard/validation/events.out.tfevents.") for key in run.keys)
    hosts = run.json("attempts/1/cluster.json")["hosts"]
    (evaluator,) = (host["instance"] for host in hosts if host["role"] == "evaluator")
    types = {host["instance"]: host["type"] for host in run.summary["hosts"]}
    assert types.pop(evaluator).startswith("m")
    assert {name.partition(".")[0] for name in types.values()} <= {"g4dn", "g5", "g6"}


def leaves_a_classifier(run: Run, accuracy: float, reader: Reader, folder: Path) -> None:
    """Check the curve in the metrics, the TensorBoard events, and a model that another process can load."""
    metrics = run.json("metrics.json")
    assert metrics["accuracy"] >= accuracy
    assert metrics["step"] == run.summary["steps"]["done"]
    losses = [sample["loss"] for sample in metrics["samples"]]
    assert len(losses) > 1, "a curve"
    assert losses[-1] < losses[0]
    assert any(key.startswith("tensorboard/") for key in run.keys)
    made_by = run.json("model/trainyard.json")
    assert (made_by["run"], made_by["step"]) == (run.id, metrics["step"])
    assert signatures(reader, run.model(folder)).keys() >= SIGNATURES


def signatures(reader: Reader, model: Path) -> dict[str, str]:
    """Return the inputs of each signature of a SavedModel."""
    assert reader.stdin
    assert reader.stdout
    print(model, file=reader.stdin, flush=True)
    found: dict[str, str] = json.loads(reader.stdout.readline())
    return found
