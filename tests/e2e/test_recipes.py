"""Every job file under examples/, as its page in docs/recipes says: run to its end, with its documented result."""

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
class Recipe:
    """What a user sees of it: roles, lines of the chief's log, the least accuracy; a classifier leaves a model."""

    name: str
    roles: list[str]
    says: tuple[str, ...]
    accuracy: float = 0.0
    evaluates: str = ""
    """A line of the evaluator's log, on a host without a GPU."""


TOLD = ("Test-Accuracy: 0.9", "Total Time: ", "Final Cost: ")
RECIPES = [
    Recipe("matmul", ["chief 0"], ("GFLOP/s",)),
    Recipe("replicate", ["chief 0"], ("joined product and unsplit product are",)),
    Recipe("mnist-single", ["chief 0"], TOLD, 0.95),
    Recipe("mnist-mirrored", ["chief 0"], (*TOLD, "2 replicas"), 0.95),
    Recipe("mnist-multi-worker", ["chief 0", "worker 1"], TOLD, 0.95),
    Recipe("mnist-parameter-server", SERVED, TOLD, 0.95),
    Recipe("downpour", SERVED, ("staleness",), 0.93),
    Recipe("parameter-server-v1", ["chief 0", "ps 0", "worker 1"], TOLD, 0.93),
    Recipe("keras-text", ["chief 0", "worker 1"], (), 0.75),
    Recipe(
        "programs/evaluator",
        ["chief 0", "evaluator 0", "worker 1"],
        ("Epoch 10/10",),
        evaluates="8/8 - .* accuracy: 0.9",
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
    """A process that knows nothing of what has made the models that it loads."""
    command = [str(HOST_PYTHON), "-c", READ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        yield started


def test_every_job_file_is_tried() -> None:
    files = (*EXAMPLES.glob("*.yaml"), *EXAMPLES.glob("programs/*.yaml"))
    names = {path.relative_to(EXAMPLES).with_suffix("").as_posix() for path in files}
    assert names == {recipe.name for recipe in RECIPES} | {"digits"}, "the demo tries digits.yaml"


@pytest.mark.parametrize("recipe", RECIPES, ids=[recipe.name for recipe in RECIPES])
def test_a_recipe_reaches_its_documented_result(
    runs: Runs, reader: Reader, recipe: Recipe, tmp_path: Path
) -> None:
    job = EXAMPLES / f"{recipe.name}.yaml"
    upload(runs.yard.bucket, job)
    run = runs.finish(runs.yard.submit(job))
    assert run.succeeded, run.why()
    assert [attempt["ending"] for attempt in run.summary["attempts"]] == ["finished"]
    hosts = run.json("attempts/1/cluster.json")["hosts"]
    assert sorted(f"{host['role']} {host['index']}" for host in hosts) == recipe.roles
    log = run.log()
    for words in recipe.says:
        assert words in log
    if recipe.accuracy:
        leaves_a_classifier(run, recipe.accuracy, reader, tmp_path)
    if recipe.evaluates:
        measured_the_last_checkpoint(run, recipe.evaluates)


def measured_the_last_checkpoint(run: Run, line: str) -> None:
    """Its program ends by itself then, and the run's end waits for it; its events and its log are in the bucket."""
    said = run.log("evaluator-0")
    assert re.search(line, said), said
    assert "the program ended with exit code 0" in said.splitlines()[-1]
    assert "the evaluator has not ended" not in run.log()
    assert any(key.startswith("tensorboard/validation/events.out.tfevents.") for key in run.keys)
    hosts = run.json("attempts/1/cluster.json")["hosts"]
    (evaluator,) = (host["instance"] for host in hosts if host["role"] == "evaluator")
    types = {host["instance"]: host["type"] for host in run.summary["hosts"]}
    assert types.pop(evaluator).startswith("m")
    assert {name.partition(".")[0] for name in types.values()} <= {"g4dn", "g5", "g6"}


def leaves_a_classifier(run: Run, accuracy: float, reader: Reader, folder: Path) -> None:
    """Metrics with a curve, TensorBoard events, and a model that another process loads."""
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
    """By name of a SavedModel's what it takes."""
    assert reader.stdin
    assert reader.stdout
    print(model, file=reader.stdin, flush=True)
    found: dict[str, str] = json.loads(reader.stdout.readline())
    return found
