"""A DTensor mesh over all hosts: examples are split along `batch`, and the variables along `model`."""

import argparse
from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tf_keras

from trainyard.runtime import mesh
from trainyard.runtime.data import Arrays
from trainyard.runtime.export import classifier

parser = argparse.ArgumentParser()
parser.add_argument("--mesh", default="batch=2,model=2")
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--step-delay", type=float, default=0.0)
flags = parser.parse_args()


class Network(tf.Module):
    """64 numbers in, 2 logits out. The hidden units are split along `model`."""

    def __init__(self, variable: Callable[..., tf.Variable]) -> None:
        super().__init__()
        self.hidden = variable(tf.random.stateless_normal((64, 512), seed=(1, 1)) * 0.1, None, "model")
        self.out = variable(tf.random.stateless_normal((512, 2), seed=(1, 2)) * 0.1, "model", None)

    def __call__(self, points: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(points @ self.hidden) @ self.out


sizes = dict(pair.split("=") for pair in flags.mesh.split(","))
runtime = mesh(batch=int(sizes["batch"]), model=int(sizes["model"]), seed=1)
points = np.random.default_rng(1).normal(size=(4096, 64)).astype("float32")
labels = (points[:, :32].sum(axis=1) > points[:, 32:].sum(axis=1)).astype("int64")
model = Network(runtime.variable)
loop = runtime.loop(
    model=model,
    optimizer=tf_keras.optimizers.SGD(0.1, momentum=0.9, mesh=runtime.mesh),
    losses=lambda labels, logits: tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits),
    is_right=lambda labels, logits: tf.cast(tf.argmax(logits, axis=1) == labels, tf.float32),
    epochs=flags.epochs,
    global_batch_size=64,
    step_delay=flags.step_delay,
)
trained = loop.train(Arrays(points, labels))
whole = Network(lambda initial, *_: tf.Variable(initial))
runtime.gather(model, whole)
runtime.save_model(
    whole, classifier(whole, tf.TensorSpec((None, 64), tf.float32, name="point")), step=trained.step
)
runtime.write_metrics({"step": trained.step, "history": trained.history, **trained.history[-1]})
runtime.finish(trained.step)
