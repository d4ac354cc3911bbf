"""Bad input of every kind: answered with a reason that names what is wrong, and nothing is launched."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.runs import Runs
from trainyard.client import Run


@dataclass(frozen=True)
class Bad:
    """One bad input. `says` are words that the reason must hold; `files` the program's, by path."""

    name: str
    says: tuple[str, ...]
    changes: dict[str, Any] | None = None
    files: dict[str, str] | None = None
    body: bytes | None = None
    given: Callable[[Runs], dict[str, Any]] | None = None


def changed(name: str, *says: str, **changes: Any) -> Bad:
    """A good job file with something wrong in it."""
    return Bad(name, says, changes=changes)


def file(name: str, body: bytes, *says: str) -> Bad:
    """An uploaded file that is no job file."""
    return Bad(name, says, body=body)


def given(name: str, payload: Callable[[Runs], dict[str, Any]], *says: str) -> Bad:
    """An execution started by hand with a bad input."""
    return Bad(name, says, given=payload)


def program(name: str, *says: str, files: dict[str, str], **changes: Any) -> Bad:
    """A good job file whose program cannot run, or will probably fail."""
    return Bad(name, says, changes=changes, files=files)


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
SERVERS = {"strategy": "parameter_server", "workers": 2, "parameter_servers": 1}
BAD = [
    file("not-yaml", b"name: [unclosed\n", "YAML"),
    file("two-megabytes", b"# " + b"x" * 2_000_000, "bytes"),
    file("empty", b"", "empty"),
    file("a-list", b"[1, 2]", "mapping"),
    file("binary", bytes(range(256)), "text"),
    changed("unknown-key", "colour", colour="red"),
    changed("unknown-inner-key", "hardware.vcpus", hardware={"vcpus": 4}),
    changed("wrong-type", "cluster.workers", cluster={"workers": "two"}),
    changed("negative-workers", "cluster.workers", cluster={"workers": -1}),
    changed("no-program", "program", program=None),
    changed("impossible-type", "g5.xlarg", "did you mean", hardware={"instance_types": ["g5.xlarg"]}),
    changed("no-gpu-type", "t3.micro", hardware={"instance_types": ["t3.micro"]}),
    changed("no-types", "hardware.instance_types", hardware={"instance_types": []}),
    changed("unknown-market", "hardware.market", hardware={"market": "cheap"}),
    changed("zero-hours", "limits.hours", limits={"hours": 0}),
    changed("zero-dollars", "limits.dollars", limits={"dollars": 0}),
    changed("negative-restarts", "limits.restarts", limits={"restarts": -1}),
    changed("endless-hours", "limits.hours", limits={"hours": float("inf")}),
    changed("shell-in-module", "program.module", program={"module": "steps; rm -rf /"}),
    changed("source-elsewhere", "program.source", program={"source": "s3://somebody-else/programs/x.tar.gz"}),
    changed("source-outside", "program.source", program={"source": "s3://BUCKET/runs/x.tar.gz"}),
    changed("source-upwards", "program.source", program={"source": "s3://BUCKET/programs/../jobs/x.json"}),
    changed(
        "source-missing", "programs/nowhere.tar.gz", program={"source": "s3://BUCKET/programs/nowhere.tar.gz"}
    ),
    changed(
        "source-no-tar", "programs/not-a.tar.gz", program={"source": "s3://BUCKET/programs/not-a.tar.gz"}
    ),
    changed("data-empty", "data/nothing/", data={"few": "s3://BUCKET/data/nothing/"}),
    changed("data-outside", "data.few", data={"few": "s3://BUCKET/jobs/"}),
    changed("unaffordable", "max_dollars_per_hour", hardware={"max_dollars_per_hour": 0.01}),
    changed("unknown-strategy", "cluster.strategy", cluster={"strategy": "horovod"}),
    changed("stop-spot", "after.hosts", after={"hosts": "stop"}),
    changed("no-workers", "cluster.workers", "only workers train", cluster=SERVERS | {"workers": 0}),
    changed(
        "no-servers", "cluster.parameter_servers", "1 or more", cluster=SERVERS | {"parameter_servers": 0}
    ),
    changed(
        "more-servers", "more parameter servers than workers", cluster=SERVERS | {"parameter_servers": 3}
    ),
    changed("servers-alone", "cluster.parameter_servers", cluster={"parameter_servers": 1}),
    changed("too-many", "51 hosts", cluster=SERVERS | {"workers": 48, "parameter_servers": 2}),
    changed(
        "gpu-for-servers",
        "cpu_instance_types[0]",
        "instance_types",
        cluster=SERVERS,
        hardware={"cpu_instance_types": ["g6.xlarge"]},
    ),
    changed(
        "both-sorts-of-types",
        "hardware.instance_types",
        "m7i.xlarge has none",
        hardware={"instance_types": ["g6.xlarge", "m7i.xlarge"]},
    ),
    changed("our-variable", "program.environment.TF_CONFIG", program={"environment": {"TF_CONFIG": "{}"}}),
    changed("number-as-variable", "program.environment.N", "quotes", program={"environment": {"N": 1}}),
    changed(
        "unknown-word",
        "${data.trian}",
        "did you mean",
        program={"args": {"in": "${data.trian}"}},
        data={"train": "s3://BUCKET/data/few/"},
    ),
    changed("expect-much", "program.expect[0]", program={"expect": ["modle"]}),
    changed("keep-none", "checkpoints.keep", checkpoints={"keep": 0}),
    changed(
        "too-few-files",
        "data.few.sharding",
        "1 file",
        "2 workers",
        data={"few": {"source": "s3://BUCKET/data/few/", "sharding": "file"}},
    ),
    changed(
        "unknown-program",
        "did you mean",
        program={"source": None, "module": "training.programs.mnits", "args": None},
    ),
    program(
        "no-module", "program.module: steps cannot be found in s3://", files={"other.py": "print('here')\n"}
    ),
    program("folder-packed-too", "-C mine", files={"mine/steps.py": ""}),
    program(
        "no-requirements",
        "program.requirements",
        "did you mean",
        files={"steps.py": "", "requirement.txt": ""},
        program={"requirements": "requirements.txt"},
    ),
    program(
        "python-2",
        "helper.py line 2",
        "Python 2",
        files={"steps.py": "import helper\n", "helper.py": "x = 1\nprint x\n"},
    ),
    given("neither-input", lambda runs: {}, "job_key", "job"),
    given("both-inputs", lambda runs: {"job_key": "jobs/x.json", "job": runs.job("both")}, "both"),
    given("job-is-a-text", lambda runs: {"job": "digits"}, "job"),
    given("key-elsewhere", lambda runs: {"job_key": "data/few/numbers.txt"}, "job_key"),
    given("object-deleted", lambda runs: {"job_key": "jobs/never-there.json"}, "jobs/never-there.json"),
]
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
    """Every bad input, given at once; the runs when they are over."""
    runs.yard.bucket.put("programs/not-a.tar.gz", b"this is no archive")
    started = {bad.name: start(runs, bad) for bad in BAD}
    return {name: runs.finish(run) for name, run in started.items()}


def start(runs: Runs, bad: Bad) -> Run:
    """The run that the bad input started."""
    if bad.given is not None:
        return runs.yard.start("train", bad.given(runs))
    job = bad.body if bad.body is not None else runs.job(bad.name, **(bad.changes or {}))
    if bad.files is not None and isinstance(job, dict):
        key = f"programs/{bad.name}.tar.gz"
        runs.yard.bucket.put(key, packed(bad.files))
        job["program"]["source"] = f"s3://BUCKET/{key}"
    return runs.yard.run(runs.upload(job, bad.name).run).started()


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
    """The shipped facts give no P5 spot quota."""
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
