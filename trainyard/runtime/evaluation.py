"""The evaluator: it measures each new checkpoint while the other hosts train."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import tensorflow as tf

from trainyard.protocol.processes import RESTART
from trainyard.runtime.checkpoints import Checkpoints, steps_in
from trainyard.runtime.processes.exiting import FINISHED, leave
from trainyard.runtime.session import Runtime

LOOK_SECONDS = 0.5


def follow(
    runtime: Runtime, evaluate: Callable[[], Mapping[str, float]], *, model: Any, optimizer: Any, epochs: int
) -> NoReturn:
    """Restore each new checkpoint into `model`, evaluate it, and write the metrics to TensorBoard until the last one.

    `model` and `optimizer` must be built as in the training: a checkpoint is restored only as a whole.
    """
    if hasattr(optimizer, "build"):  # creates the state of a Keras optimizer
        optimizer.build(model.trainable_variables)
    checkpoints = Checkpoints.of(runtime.cluster, runtime.environment, model=model, optimizer=optimizer)
    events = tf.summary.create_file_writer(str(runtime.environment.tensorboard / "evaluation"))
    evaluated = -1
    while not runtime.cluster.asked_to_leave:
        if max(steps_in(runtime.environment.checkpoints), default=-1) <= evaluated:
            time.sleep(LOOK_SECONDS)
            continue
        metadata = checkpoints.restore()
        if metadata is None:
            continue
        evaluated = int(metadata["step"])
        numbers = evaluate()
        with events.as_default(evaluated):
            for name, number in numbers.items():
                tf.summary.scalar(f"evaluation/{name}", number)
        events.flush()
        text = " ".join(f"{name} {number:.4f}" for name, number in numbers.items())
        print(f"evaluation at step {evaluated}: {text}", flush=True)
        if evaluated >= metadata["steps_per_epoch"] * epochs:
            leave(FINISHED, f"evaluated up to the last step, {evaluated}")
    leave(RESTART, f"stopping on request; evaluated up to step {evaluated}")
