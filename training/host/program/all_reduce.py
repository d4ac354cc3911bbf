"""An all-reduce over all GPUs of a gang by TensorFlow's NCCL, as a process of its own.

The process prints rows in the format of NVIDIA's all_reduce_perf. agent/collectives.py reads both.
"""

import os
import sys
import time
from typing import Any

FORMED = "all hosts of the gang have found each other"
"""The line at which the time limit begins: before it, a host may still wait for another one."""
WITHOUT_TENSORFLOW = 4
"""The exit code if Python has no TensorFlow, so nothing was checked."""
ROUNDS = 5
SIZES = (8, 64 * 2**20)
FLOAT_BYTES = 4
LEADER_SECONDS = 2.0
"""The other hosts may still need the process of the first one, which coordinates them."""


def main(gpus: int) -> int:
    try:
        import tensorflow as tf
    except ImportError as error:
        print(error)
        return WITHOUT_TENSORFLOW
    found = tf.config.list_physical_devices("GPU")
    if len(found) < gpus:
        print(f"TensorFlow finds {len(found)} of the {gpus} GPUs of this host")
        return 1
    for each in found:
        tf.config.experimental.set_memory_growth(each, True)
    nccl = tf.distribute.experimental.CommunicationImplementation.NCCL
    options = tf.distribute.experimental.CommunicationOptions(implementation=nccl)
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    print(FORMED, flush=True)
    ranks = strategy.num_replicas_in_sync

    def in_replica(count: Any) -> Any:
        context = tf.distribute.get_replica_context()
        total = context.all_reduce(tf.distribute.ReduceOp.SUM, tf.ones([count]), options)
        return tf.math.count_nonzero(total != float(ranks))

    reduce = tf.function(lambda count: strategy.run(in_replica, args=(count,)))

    def count_wrong(count: Any) -> int:
        return sum(int(each) for each in strategy.experimental_local_results(reduce(count)))

    for size in SIZES:
        count = size // FLOAT_BYTES
        wrong = count_wrong(tf.constant(count))  # connects
        began = time.monotonic()
        wrong += sum(count_wrong(tf.constant(count)) for _ in range(ROUNDS))
        seconds = (time.monotonic() - began) / ROUNDS
        rate = size / seconds / 1e9
        of_bus = rate * 2 * (ranks - 1) / ranks
        print(f"{size} {count} float sum -1 {seconds * 1e6:.2f} {rate:.2f} {of_bus:.2f} {wrong}", flush=True)
        if wrong:
            return 1
    return 0


if __name__ == "__main__":
    code = main(int(sys.argv[1]))
    sys.stdout.flush()
    if sys.argv[2:] == ["leader"]:
        time.sleep(LEADER_SECONDS)
    os._exit(code)  # TensorFlow's own end may wait for other hosts
