"""Tests of TensorFlow that need a GPU: `python -m pytest tests/gpu/test_tensorflow.py`, as root, in the hosts' Python
(requirements/locks/host.txt) with pytest. The tests in tests/training can run there, too.

On other machines they are skipped, so neither `make test` nor the continuous integration runs them.
"""

import signal
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gpu.machine import ON_A_GPU, WORK_PERCENT, how_busy, meaning, pair, ran, reason_of_end, shown
from training.baking import install, tests
from training.baking.bench import Bench
from training.baking.results import Finding
from training.baking.shell import end
from training.host.program.advice import GPU_MEMORY, NO_GPU
from training.host.program.ending import Stopped
from trainyard.protocol.signals import StopReason

pytestmark = ON_A_GPU

HOLDS = """
import time, tensorflow as tf
a = tf.zeros(2**30)
print('ready', flush=True)
time.sleep(600)
"""
MULTIPLIES = """
import tensorflow as tf
a = tf.random.normal((4096, 4096))
print('ready', flush=True)
while True:
    float(tf.linalg.matmul(a, a)[0, 0])
"""
FITS = """
import numpy as np, keras
net = keras.Sequential([keras.layers.Dense(128, "relu"), keras.layers.Dense(10)])
net.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
chance = np.random.default_rng(1)
examples = chance.normal(size=(25600, 32)).astype("float32"), chance.integers(10, size=25600)
net.fit(*examples, batch_size=256, verbose=0)
print('ready', flush=True)
net.fit(*examples, batch_size=256, epochs=10**6, verbose=0)
"""

CONVOLVES = """
import hashlib, numpy as np, tensorflow as tf, tf_keras
from trainyard.runtime import start
start({arguments})
layers = tf_keras.layers
net = tf_keras.Sequential([
    layers.Input((28, 28, 1)), layers.Conv2D(32, 3, activation="relu"), layers.BatchNormalization(),
    layers.Conv2D(64, 3, activation="relu"), layers.MaxPool2D(), layers.Flatten(), layers.Dropout(0.2),
    layers.Dense(10),
])
net.compile("adam", tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True))
chance = np.random.default_rng(1)
images, labels = chance.normal(size=(6400, 28, 28, 1)).astype("float32"), chance.integers(10, size=6400)
net.fit(images, labels, batch_size=64, epochs=2, shuffle=False, verbose=0)
print(hashlib.sha256(b"".join(weight.tobytes() for weight in net.get_weights())).hexdigest())
"""

TOO_LARGE = "import tensorflow as tf\ntf.zeros(2**40)"
TOO_LARGE_A_STEP = """
import tensorflow as tf
@tf.function
def step(side):
    return tf.reduce_sum(tf.random.normal((side, side)) @ tf.random.normal((side, 1)))
step(2**20)
"""
TOO_LARGE_COMPILED = """
import tensorflow as tf
tf.function(lambda x: x @ x, jit_compile=True)(tf.ones((120_000, 120_000)))
"""
ON_THE_GPU = """
import tensorflow as tf
tf.config.set_soft_device_placement(False)
with tf.device("/GPU:0"):
    tf.linalg.matmul(tf.ones((4, 4)), tf.ones((4, 4)))
"""

RANK = """
import json, os
addresses = ["127.0.0.1:29541", "127.0.0.1:29542"]
task = {"type": "worker", "index": int(os.environ["RANK"])}
os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": task})
import tensorflow as tf
options = tf.distribute.experimental.CommunicationOptions(
    implementation=tf.distribute.experimental.CommunicationImplementation.NCCL
)
strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
@tf.function
def step():
    def one():
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.ones(2**20))
    return strategy.run(one)
while True:
    step().numpy()
    print("step", flush=True)
"""


@pytest.fixture(autouse=True)
def baked(bench: Bench) -> None:
    """Prepare Python as a bake does."""
    install.link_cuda_libraries(bench.builder)


@pytest.mark.parametrize("does", [tests.tensorflow_gpus, tests.matmul, tests.cuda, tests.two_processes])
def test_a_bake_finds_that_tensorflow_computes_on_each_gpu(
    does: Callable[[Bench], Finding], bench: Bench
) -> None:
    found = tests.run(does.__name__, does, bench)
    print(found.reason)
    assert found.outcome == "passed", found.reason


def test_memory_alone_is_no_work_and_a_small_fit_is() -> None:
    for name, program, works in (
        ("holds 4 GiB and waits", HOLDS, False),
        ("multiplies", MULTIPLIES, True),
        ("fits a small network", FITS, True),
    ):
        assert (how_busy(name, program) >= WORK_PERCENT) is works, name


def test_deterministic_operations_end_with_the_same_weights_each_time() -> None:
    """By default, trainyard.runtime.start() leaves them off on a GPU, and weights may differ."""
    print(f"without: {fitted('')} and {fitted('')}")
    assert fitted("deterministic=True") == fitted("deterministic=True")


def fitted(arguments: str) -> str:
    """Return the hash of the final weights."""
    done = ran(CONVOLVES.format(arguments=arguments))
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1]


@pytest.mark.parametrize(
    ("program", "environment", "advice"),
    [
        (TOO_LARGE, {}, GPU_MEMORY),
        (TOO_LARGE_A_STEP, {}, GPU_MEMORY),
        (TOO_LARGE_COMPILED, {}, GPU_MEMORY),
        (ON_THE_GPU, {"CUDA_VISIBLE_DEVICES": ""}, NO_GPU),
    ],
    ids=["a tensor", "a step", "a compiled step", "no GPU"],
)
def test_an_error_of_the_gpu_says_what_to_do(program: str, environment: dict[str, str], advice: str) -> None:
    assert advice in reason_of_end(program, **environment)


def test_a_peer_that_is_gone_ends_the_attempt_alone(tmp_path: Path) -> None:
    with pair(RANK, tmp_path) as (first, (second, _)):
        end(second)
        assert meaning(*first) == Stopped(StopReason.PEER)


def test_a_gang_that_waits_in_nccl_for_a_peer_that_hangs_looks_busy(tmp_path: Path) -> None:
    with pair(RANK, tmp_path) as (_, (second, _)):
        second.send_signal(signal.SIGSTOP)
        time.sleep(3)
        busy, _ = shown(10.0)
        print(f"waits for a peer in NCCL: {min(busy):g} to {max(busy):g} %")
        assert statistics.median(busy) >= WORK_PERCENT
