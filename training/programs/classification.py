"""Shared parts of the reference programs that classify: records, loss, accuracy, evaluation, metrics.json."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainyard.runtime import Runtime
from trainyard.runtime.data import Examples
from trainyard.runtime.plan import Trained

EVALUATION_BATCH = 512
RECORD = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}
"""The fields of a TFRecord of digits (datasets/digits.py writes them)."""


def losses(labels: Any, outputs: Any) -> Any:
    """Return a loss for each example, (n,), from labels (n,) and logits (n, classes)."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs)


def is_right(labels: Any, outputs: Any) -> Any:
    """Return 1.0 for each example whose largest logit is its label's, otherwise 0.0."""
    return tf.cast(tf.equal(tf.argmax(outputs, axis=1), labels), tf.float32)


def evaluate(model: Callable[[Any], Any], examples: Examples) -> dict[str, float]:
    """Return `loss` and `accuracy`, the means over all examples."""
    loss = right = 0.0
    for features, labels in examples.once(EVALUATION_BATCH):
        outputs = model(features)
        loss += float(tf.reduce_sum(losses(labels, outputs)))
        right += float(tf.reduce_sum(is_right(labels, outputs)))
    return {"loss": loss / examples.count, "accuracy": right / examples.count}


def write_metrics(runtime: Runtime, trained: Trained, **further: Any) -> None:
    """Write metrics.json of a training, with further values such as loss and accuracy of the evaluation."""
    runtime.write_metrics(
        {
            "step": trained.step,
            "steps": trained.steps,
            "epochs": len(trained.history),
            **further,
            "workers": runtime.workers,
            "history": trained.history,
        }
    )
