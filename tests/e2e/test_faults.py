"""Faults on hosts that EC2 lists as running: a program is killed or stopped, a host is frozen or disconnected."""

import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scripts.datasets import DIGITS, upload
from scripts.local_yard import ROOT
from tests.e2e.runs import Runs
from tests.support import quick
from trainyard.client import Run

EPOCHS, PER_EPOCH = 10, 22
STEPS = EPOCHS * PER_EPOCH
ARGUMENTS = {"epochs": EPOCHS, "global-batch-size": 64, "checkpoint-every": 20, "step-delay": 0.1}
SERVED = ROOT / "examples" / "mnist-parameter-server.yaml"

Injection = Callable[[Runs, str], object]
"""A fault on a host."""


def signal(name: str, module: str) -> Injection:
    """Return an injection that sends a signal to a program."""

    return lambda runs, host: runs.signal(host, name, module)


def fault(word: str) -> Injection:
    return lambda runs, host: runs.cloud.fault(word, host)


def digits(runs: Runs, name: str) -> dict[str, Any]:
    """Return a job of the digits program on two workers."""
    folder = f"s3://{runs.yard.bucket.name}/{DIGITS.prefix}"
    job = runs.job(
        name,
        program={"source": None, "module": "training.programs.digits", "args": None},
        data={"few": None, "train": f"{folder}train/", "test": f"{folder}test/"},
    )
    job["program"]["args"] = ARGUMENTS
    return job


def fingerprint(run: Run) -> str:
    """Return the fingerprint of all variables at the last step, including the optimizer's."""
    return str(run.json(f"checkpoints/{STEPS:08d}/{STEPS:08d}/trainyard-metadata.json")["fingerprint"])


def check_continued(run: Run) -> tuple[dict[str, Any], dict[str, Any]]:
    """Check that the second attempt continued from a checkpoint of the first, and return both."""
    assert run.succeeded, run.why()
    assert len(run.summary["attempts"]) == 2, run.why()
    first, second = run.summary["attempts"]
    proof = run.summary["resume"]
    assert proof["resumed_at"] == [second["from_step"]]
    assert second["from_step"] > 0
    assert proof["verified"] is True
    return first, second


LOADER = "kept = bytearray(64 << 20); import time; time.sleep(600)"
LOADS = (
    "import resource, subprocess, sys; "
    f"loader = subprocess.Popen([sys.executable, '-c', {LOADER!r}]); "
    "print('descriptors:', resource.getrlimit(resource.RLIMIT_NOFILE)[0], flush=True); "
    "print('the loader ended with', loader.wait(), flush=True)"
)
"""A program with a data loader."""


def test_a_data_loader_that_the_kernel_kills_for_memory_ends_neither_program_nor_agent(runs: Runs) -> None:
    program = {"module": None, "command": ["python", "-c", LOADS], "args": None}
    one_host = {"strategy": "single", "workers": 1}
    run = runs.start(runs.job("out-of-memory", program=program, cluster=one_host, limits={"restarts": 0}))
    runs.until("its program", lambda: "descriptors:" in run.log("chief-0"))
    runs.cloud.fault("oom", runs.host_of(run, "chief"), "--process", "bytearray")
    runs.finish(run)
    assert run.succeeded, run.why()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert f"descriptors: {hard if 0 <= hard < 65536 else 65536}\n" in run.log("chief-0")
    assert "the loader ended with -9" in run.log("chief-0")


FATAL = {
    # name: the fault, and its reason
    "xid": (("xid", "79"), "a GPU of this host (PCI:0000:00:1e) reports Xid 79"),
    "ecc": (("gpu", "ecc"), "GPU 0 of this host reports 2 uncorrectable memory errors (ECC)"),
    "disk": (
        ("kernel", "nvme nvme1: Disabling device after reset failure: -19"),
        "a disk of this host has failed; the kernel reports: nvme nvme1: Disabling device",
    ),
}


@pytest.mark.parametrize("name", FATAL)
def test_a_host_with_a_fatal_fault_is_replaced_and_named_in_one_sentence(runs: Runs, name: str) -> None:
    fault, reason = FATAL[name]
    waits = "echo attempt $TRAINYARD_ATTEMPT; [ $TRAINYARD_ATTEMPT = 2 ] || sleep 600"
    program = {"module": None, "command": ["sh", "-c", waits], "args": None}
    one_host = {"strategy": "single", "workers": 1}
    run = runs.start(runs.job(f"broken-{name}", program=program, cluster=one_host, limits={"restarts": 1}))
    runs.until("its program", lambda: "attempt 1" in run.log("chief-0"))
    host = runs.host_of(run, "chief")
    runs.cloud.fault("xid", host, "31")  # the error of a program: nothing happens
    runs.cloud.fault("kernel", host, "I/O error, dev nvme1n1, sector 2048")  # a program continues with it
    runs.cloud.fault(fault[0], host, *fault[1:])
    runs.finish(run)
    assert run.succeeded, run.why()
    said = f"{host} is terminated and not used again: {reason}"
    assert any(line.startswith(said) for line in run.reason().lines), run.why()
    assert [event.instance for event in run.timeline if event.reason.startswith(said)] == [host]
    first, second = run.summary["attempts"]
    assert reason in first["reason"]
    assert host not in second["hosts"]
    (faulty,) = [each for each in run.summary["hosts"] if each["faulty"]]
    assert faulty["instance"] == host


STARVED = """
import os, time
import tensorflow as tf
starved = os.environ["TRAINYARD_ROLE"] == "worker"
def read(number):
    time.sleep(0.4 if starved else 0.0)
    return number
data = tf.data.Dataset.range(10**9).map(lambda number: tf.py_function(read, [number], tf.int64))
for step, number in enumerate(data):
    print(f"step {step + 1} loss 0.5", flush=True)
    time.sleep(0.0 if starved else 0.4)
"""
"""A program whose second host waits for its input in every step."""


def test_a_host_that_waits_for_its_input_and_a_hot_gpu_are_named(runs: Runs) -> None:
    program = {"module": None, "command": ["python", "-c", STARVED], "args": None}
    run = runs.start(runs.job("starved", program=program, limits={"restarts": 0}))
    runs.until("its program", lambda: "step 1 " in run.log("chief-0"))
    chief, host = runs.host_of(run, "chief"), runs.host_of(run, "worker")
    runs.cloud.fault("gpu", chief, "thermal")

    def slow_hosts() -> list[str]:
        return [each.instance for each in run.timeline if each.event == "slow host"]

    runs.until("its slow hosts", lambda: len(slow_hosts()) == 2)
    *lines, limit = run.reason().lines
    slow = f"worker 1 ({host}) is slower than the others, which wait for it: it waited for its input "
    assert any(line.startswith(slow) for line in lines), run.why()
    hot = f"GPU 0 of chief 0 ({chief}) ran at 45 % of its clock for at least "
    assert any(line.startswith(hot) and line.endswith(" minutes: thermal slowdown.") for line in lines), (
        run.why()
    )
    assert limit.startswith("The GPUs waited for input ")
    assert f"on worker 1 ({host}): " in limit
    run.stop()
    runs.finish(run)
    assert sorted(slow_hosts()) == sorted([chief, host])
    assert {f"attempts/1/use/{name}.json" for name in ("chief-0", "worker-1")} <= set(run.keys)


@pytest.fixture(scope="module")
def uninterrupted(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the fingerprint of a run without a fault."""
    runs.yard.bucket.put_folder(DIGITS.made_in(tmp_path_factory.mktemp("data")), DIGITS.prefix)
    run = runs.run(digits(runs, "undisturbed"))
    assert run.succeeded, run.why()
    return fingerprint(run)


DIGITS_PROGRAM = "training.programs.digits"
INJECTIONS = [
    # name, role, injection, ending of the attempt, True if the host is replaced
    ("killed", "worker", signal("KILL", DIGITS_PROGRAM), "interrupted", False),
    ("cut-off", "worker", fault("cut"), "lost", True),
]


@pytest.mark.parametrize(
    ("name", "role", "strike", "ending", "replaced"), INJECTIONS, ids=[row[0] for row in INJECTIONS]
)
def test_no_bit_of_the_weights_is_lost(
    runs: Runs, uninterrupted: str, name: str, role: str, strike: Injection, ending: str, replaced: bool
) -> None:
    run = runs.in_mid_training(digits(runs, f"digits-{name}"))
    host = runs.host_of(run, role)
    strike(runs, host)
    runs.finish(run)
    first, second = check_continued(run)
    assert first["ending"] == ending
    assert (host not in second["hosts"]) is replaced
    assert len(set(first["hosts"]) & set(second["hosts"])) == (1 if replaced else 2)
    assert fingerprint(run) == uninterrupted


def test_a_host_that_systems_manager_never_learns_of_trains_and_leaves_when_it_is_told_to(runs: Runs) -> None:
    """Its peer is interrupted. The host saves and leaves, and continues in the next attempt. No program runs twice."""
    # a late start signal is ignored after the end of an attempt, so the second attempt must be long, too
    arguments = quick.LONG_AT_FIRST | {"step-delay": 0.05}
    run = runs.start(runs.job("unregistered", program={"args": arguments}))
    gang = runs.until("a gang", lambda: len(up := hosts_of(runs, run)) == 2 and up)
    runs.cloud.fault("unregister", gang[0])
    runs.until("a checkpoint in the bucket", lambda: runs.checkpoint_of(run))
    runs.cloud.fault("interrupt", gang[1])
    runs.finish(run)
    first, second = check_continued(run)
    assert first["ending"] == "interrupted"
    assert gang[0] in second["hosts"]
    assert gang[1] not in second["hosts"]
    timeline = run.timeline
    orders = [event.reason for event in timeline if event.event == "starting"]
    assert [f"without Systems Manager: {gang[0]}" in order for order in orders] == [True, True]
    of_it = [event.event for event in timeline if event.instance == gang[0]]
    assert (of_it.count("started"), of_it.count("stopped")) == (2, 1)


def hosts_of(runs: Runs, run: Run) -> list[str]:
    return sorted(one["InstanceId"] for one in runs.yard.instances(run.id))


@pytest.mark.parametrize(("role", "word"), [("ps", "KILL")])
def test_a_gang_with_parameter_servers_goes_on(runs: Runs, tmp_path: Path, role: str, word: str) -> None:
    changed = tmp_path / f"mnist-{role}-{word.lower()}.yaml"
    changed.write_text(SERVED.read_text().replace("mnist-parameter-server\n", f"{changed.stem}\n"))
    upload(runs.yard.bucket, changed)
    run = runs.yard.submit(changed)
    runs.until("a checkpoint in the bucket", lambda: runs.checkpoint_of(run))
    signal(word, "training.programs.mnist")(runs, runs.host_of(run, role))
    runs.finish(run)
    first, second = check_continued(run)
    assert first["ending"] == "interrupted"
    assert second["hosts"] == first["hosts"]
    assert run.json("metrics.json")["accuracy"] >= 0.95
