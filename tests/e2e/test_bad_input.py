"""Bad input of each kind is refused with a reason that names the fault, and no host is launched."""

from __future__ import annotations

import io
import tarfile

import pytest

from tests.e2e.runs import Runs
from tests.support.bad_input import BAD, Bad, program
from trainyard.client import Run

TUTORIAL = """import tensorflow as tf
from tensorflow.examples.tutorials.mnist import input_data
mnist = input_data.read_data_sets("/tmp/data/", one_hot=True)
x = tf.placeholder(tf.float32, [None, 784])
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
"""
KERAS_FIT = """import tensorflow as tf

def main():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(loss="mse", optimizer="sgd")
    model.fit(tf.data.Dataset.from_tensors(([[1.0]], [[1.0]])).repeat(), epochs=3, steps_per_epoch=70)

if __name__ == "__main__":
    main()
"""
WARNED = [
    program(
        "tutorial-of-2017",
        "tensorflow.examples",
        "tf.placeholder (line 4)",
        "compat.v1",
        files={"steps.py": TUTORIAL},
    ),
    program("keras-3-across-hosts", "steps.py line 8", "import tf_keras", files={"steps.py": KERAS_FIT}),
]


@pytest.fixture(scope="module")
def refused(runs: Runs) -> dict[str, Run]:
    """Submit all bad inputs at once, and return their runs after they have ended."""
    runs.yard.bucket.put("programs/not-a.tar.gz", b"this is no archive")
    started = {bad.name: start(runs, bad) for bad in BAD}
    return {name: runs.finish(run) for name, run in started.items()}


def start(runs: Runs, bad: Bad) -> Run:
    """Start the run of a bad input."""
    if bad.given is not None:
        return runs.yard.start("train", bad.given(runs))
    job = bad.body if bad.body is not None else runs.job(bad.name, **(bad.changes or {}))
    if bad.files is not None and isinstance(job, dict):
        key = f"programs/{bad.name}.tar.gz"
        runs.yard.bucket.put(key, packed(bad.files))
        job["program"]["source"] = f"s3://BUCKET/{key}"
    return runs.begun(runs.upload(job, bad.name).run)


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
def test_bad_input_is_refused_with_its_reason_and_nothing_is_launched(
    runs: Runs, refused: dict[str, Run], bad: Bad
) -> None:
    run = refused[bad.name]
    assert run.execution.status == "FAILED", run.why()
    assert run.summary, "a refused run leaves its summary too"
    for word in bad.says:
        assert word in run.summary["reason"], run.summary["reason"]
        assert word in run.execution.cause, run.execution.cause
    assert runs.yard.instances(run.id) == []


@pytest.mark.parametrize("bad", WARNED, ids=lambda bad: bad.name)
def test_a_program_that_will_probably_fail_is_run_and_its_end_says_what_was_expected(
    runs: Runs, bad: Bad
) -> None:
    run = runs.finish(start(runs, bad))
    assert run.execution.status == "FAILED", run.why()
    assert run.summary["error"] == "ProgramFailed", run.why()
    (admitted,) = [event.reason for event in run.timeline if event.event == "admitted"]
    for word in bad.says:
        assert word in " ".join(run.summary["warnings"])
        assert word in admitted


def test_every_fault_is_told_at_once(runs: Runs) -> None:
    job = runs.job("many-faults", colour="red", cluster={"workers": 0}, limits={"hours": -1})
    run = runs.run(job)
    assert run.execution.status == "FAILED"
    for path in ("colour", "cluster.workers", "limits.hours"):
        assert path in run.execution.cause


def test_an_image_parameter_that_points_nowhere_is_a_reason(runs: Runs) -> None:
    ssm = runs.yard.session.client("ssm")
    image = ssm.get_parameter(Name="/trainyard/image")["Parameter"]["Value"]
    ssm.put_parameter(Name="/trainyard/image", Value="ami-00000000000000bad", Overwrite=True)
    try:
        run = runs.run(runs.job("no-image"))
    finally:
        ssm.put_parameter(Name="/trainyard/image", Value=image, Overwrite=True)
    assert run.execution.status == "FAILED"
    assert "ami-00000000000000bad" in run.execution.cause
    assert runs.yard.instances(run.id) == []


def test_no_quota_is_a_reason(runs: Runs) -> None:
    """The default settings of the local cloud have no spot quota for P5."""
    run = runs.run(runs.job("no-quota", hardware={"instance_types": ["p5.48xlarge"]}))
    assert run.execution.status == "FAILED"
    assert "quota" in run.execution.cause.lower(), run.execution.cause
    assert runs.yard.instances(run.id) == []


def packed(files: dict[str, str]) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    return archive.getvalue()
