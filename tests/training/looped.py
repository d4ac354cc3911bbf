"""A program for test_strategies: the elastic loop, slow enough to be interrupted."""

import argparse

import numpy as np
import tensorflow as tf
import tf_keras

from trainyard.runtime import start
from trainyard.runtime.data import Arrays
from trainyard.runtime.loops.feeding import HELD

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--delay", type=float, default=0.0)
arguments = parser.parse_args()

runtime = start(seed=3)
scans = np.load(runtime.data("digits") / "digits.npz")
with runtime.strategy.scope():
    model = tf_keras.Sequential(
        [
            tf_keras.layers.Input((64,)),
            tf_keras.layers.Dense(64, activation="relu"),
            tf_keras.layers.Dense(10),
        ]
    )
    optimizer = tf_keras.optimizers.SGD(0.1, momentum=0.9)
loop = runtime.loop(
    model=model,
    optimizer=optimizer,
    losses=lambda labels, logits: tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits),
    is_right=lambda labels, logits: tf.cast(tf.argmax(logits, axis=1) == labels, tf.float32),
    epochs=2,
    global_batch_size=arguments.batch,
    step_delay=arguments.delay,
)
trained = loop.train(Arrays(scans["images"], scans["labels"]))
assert len(HELD) == 1, (
    "whoever lets go of what the strategy's devices iterate may wait for TensorFlow, up to a minute"
)
runtime.finish(trained.step)
