"""Pause of a step for a checkpoint: `python -m benchmarks.programs.pause`. Requires TensorFlow; prints JSON."""

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import tensorflow as tf

from trainyard.protocol.cluster import Strategy
from trainyard.runtime.checkpoints import Checkpoints
from trainyard.runtime.environment import Environment
from trainyard.runtime.processes.cluster import Cluster
from trainyard.runtime.processes.place import Place

ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[1, 64, 256])
    print(json.dumps([measure(size) for size in parser.parse_args().megabytes]))


def measure(megabytes: int) -> dict[str, Any]:
    """Return the median seconds of a save. `plain` is TensorFlow's own write, measured in alternate rounds."""
    variables = [tf.Variable(tf.random.stateless_normal((256, 1024), seed=(1, i))) for i in range(megabytes)]
    cluster = Cluster(Place.from_tf_config(None), Strategy.SINGLE, tf.distribute.get_strategy())
    saves, plains = [], []
    with tempfile.TemporaryDirectory(prefix="pause-") as folder:
        environment = Environment.from_os({**os.environ, "TRAINYARD_CHECKPOINTS": f"{folder}/checkpoints"})
        checkpoints = Checkpoints.of(cluster, environment, variables=variables)
        for number in range(1, ROUNDS + 1):
            saves.append(seconds(lambda: checkpoints.save(number, {"step": number})))  # noqa: B023 - called here
            plains.append(seconds(lambda: checkpoints.tracked.write(str(Path(folder) / "plain"))))
    return {
        "megabytes": megabytes,
        "seconds": round(statistics.median(saves), 3),
        "plain_seconds": round(statistics.median(plains), 3),
    }


def seconds(act: Any) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
