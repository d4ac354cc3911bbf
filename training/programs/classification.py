"""What the reference programs that classify share: records, loss, accuracy, evaluation, metrics.json of a training."""

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
"""What a TFRecord of digits holds (datasets/digits.py writes them)."""


def losses(labels: Any, outputs: Any) -> Any:
    """Labels (n,), logits (n, classes): a loss for each example, (n,)."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs)


def is_right(labels: Any, outputs: Any) -> Any:
    """1.0 for each example whose largest logit is its label's, else 0.0."""
    return tf.cast(tf.equal(tf.argmax(outputs, axis=1), labels), tf.float32)


def evaluate(model: Callable[[Any], Any], examples: Examples) -> dict[str, float]:
    """`loss` and `accuracy`, the means over all examples."""
    loss = right = 0.0
    for features, labels in examples.once(EVALUATION_BATCH):
        outputs = model(features)
        loss += float(tf.reduce_sum(losses(labels, outputs)))
        right += float(tf.reduce_sum(is_right(labels, outputs)))
    return {"loss": loss / examples.count, "accuracy": right / examples.count}


def write_metrics(runtime: Runtime, trained: Trained, **further: Any) -> None:
    """metrics.json of a training, with what there is further to say: loss and accuracy of the evaluation, for two."""
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
