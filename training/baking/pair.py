"""One training step on two hosts, simulated by two processes with a TF_CONFIG each, the runtime of programs, and
tf_keras. Python compiles the imported modules, so that programs need not.

`python -m training.baking.pair` runs one of the two. It prints its loss, which must be equal in both.
"""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from training.baking.builder import Builder
from training.baking.shell import end
from training.host.errors import HostTrouble

MODULE = "training.baking.pair"
FORM_SECONDS = 120
PATIENCE_SECONDS = 300.0


def losses_of_two(builder: Builder, *, gpus: int) -> tuple[str, str]:
    """Return the loss that each process has printed. Raises HostTrouble with the last lines of a process that fails.

    Each process gets its own GPU if there are two, because two processes cannot reduce over one GPU."""
    shell = builder.shell
    with tempfile.TemporaryDirectory() as place, ExitStack() as running:
        addresses = [f"127.0.0.1:{port}" for port in _free_ports(2)]
        outputs = [Path(place) / f"worker-{index}" / "loss" for index in range(2)]
        processes = []
        for index, output in enumerate(outputs):
            output.parent.mkdir()
            environment = _environment(addresses, index, output, gpu=str(index) if gpus > 1 else "-1")
            command = [shutil.which("python", path=shell.environment["PATH"]) or "python", "-m", MODULE]
            process = shell.start(command, cwd=output.parent, environment={**builder.our_path, **environment})
            running.callback(end, process)
            processes.append(process)
        until = time.monotonic() + PATIENCE_SECONDS
        for index, process in enumerate(processes):
            code = _wait(process, until)
            if code != 0:
                how = f"ended with exit code {code}" if code is not None else "did not come to an end"
                raise HostTrouble(f"worker {index} of two {how}; see its lines in the builder's log")
        first, second = (output.read_text().strip() for output in outputs)
        return first, second


def main() -> None:
    import numpy as np
    import tensorflow as tf
    import tf_keras

    from trainyard.runtime import start
    from trainyard.runtime.data import Arrays

    runtime = start()
    chance = np.random.default_rng(1)
    features = chance.normal(size=(8, 4)).astype(np.float32)
    labels = (features.sum(axis=1) > 0).astype(np.int64)
    with runtime.strategy.scope():
        model = tf_keras.Sequential([tf_keras.layers.Input((4,)), tf_keras.layers.Dense(2)])
        optimizer = tf_keras.optimizers.SGD(0.1)
    loop = runtime.loop(
        model=model,
        optimizer=optimizer,
        losses=lambda true, outputs: tf.nn.sparse_softmax_cross_entropy_with_logits(true, outputs),
        is_right=lambda true, outputs: tf.cast(tf.equal(tf.argmax(outputs, axis=1), true), tf.float32),
        epochs=1,
        global_batch_size=len(labels),
    )
    trained = loop.train(Arrays(features, labels))
    Path(os.environ["TRAINYARD_LOSS"]).write_text(repr(trained.history[-1]["loss"]))
    runtime.finish(trained.step)


def _environment(addresses: list[str], index: int, output: Path, *, gpu: str) -> dict[str, str]:
    cluster = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
    return {
        "TF_CONFIG": json.dumps(cluster),
        "TRAINYARD_STRATEGY": "multi_worker",
        "TRAINYARD_FORM_SECONDS": str(FORM_SECONDS),
        "TRAINYARD_LOSS": str(output),
        "CUDA_VISIBLE_DEVICES": gpu,
    }


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        addresses = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in addresses:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in addresses]


def _wait(process: "subprocess.Popen[bytes]", until: float) -> int | None:
    try:
        return process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None


if __name__ == "__main__":
    main()
