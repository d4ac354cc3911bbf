"""Layers on two hosts: the chief places them by `tf.device`, and micro-batches keep both hosts busy."""

import argparse

import numpy as np
import tensorflow as tf
import tf_keras

from trainyard.runtime import serve
from trainyard.runtime.data import Arrays
from trainyard.runtime.export import classifier

parser = argparse.ArgumentParser()
parser.add_argument("--micro-batches", type=int, default=4)
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--step-delay", type=float, default=0.0)
flags = parser.parse_args()


class Network(tf.Module):
    """64 numbers in, 2 logits out. Each layer's variables and operations are on the layer's device."""

    def __init__(self, first: str | None, last: str | None, pieces: int) -> None:
        super().__init__()
        self.first, self.last, self.pieces = first, last, pieces
        with tf.device(first):
            self.hidden = tf.Variable(tf.random.stateless_normal((64, 512), seed=(1, 1)) * 0.1)
        with tf.device(last):
            self.out = tf.Variable(tf.random.stateless_normal((512, 2), seed=(1, 2)) * 0.1)

    def __call__(self, points: tf.Tensor) -> tf.Tensor:
        return tf.concat([self.layers(piece) for piece in tf.split(points, self.pieces)], axis=0)

    def layers(self, points: tf.Tensor) -> tf.Tensor:
        """Return the logits of a micro-batch. While the last device has one, the first computes the next."""
        with tf.device(self.first):
            hidden = tf.nn.relu(points @ self.hidden)
        with tf.device(self.last):
            return hidden @ self.out


runtime = serve(seed=1)  # the other hosts never return from here
points = np.random.default_rng(1).normal(size=(4096, 64)).astype("float32")
labels = (points[:, :32].sum(axis=1) > points[:, 32:].sum(axis=1)).astype("int64")
model = Network(runtime.devices[0], runtime.devices[-1], flags.micro_batches)
loop = runtime.loop(
    model=model,
    optimizer=tf_keras.optimizers.SGD(0.1, momentum=0.9),
    losses=lambda labels, logits: tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits),
    is_right=lambda labels, logits: tf.cast(tf.argmax(logits, axis=1) == labels, tf.float32),
    epochs=flags.epochs,
    global_batch_size=64,
    step_delay=flags.step_delay,
)
trained = loop.train(Arrays(points, labels))
here = Network(None, None, 1)  # a copy to export, without devices
for own, there in zip(here.variables, model.variables, strict=True):
    own.assign(there.numpy())
runtime.save_model(
    here, classifier(here, tf.TensorSpec((None, 64), tf.float32, name="point")), step=trained.step
)
runtime.write_metrics({"step": trained.step, "history": trained.history, **trained.history[-1]})
runtime.finish(trained.step)
