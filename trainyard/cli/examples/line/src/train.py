"""Fit a line to points. After an interruption, training continues from the last checkpoint."""

import argparse

import numpy as np
import tensorflow as tf

from trainyard.runtime import start
from trainyard.runtime.data import Arrays
from trainyard.runtime.export import plain
from trainyard.runtime.models import for_inference

NEAR = 0.25

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--lr", type=float, default=0.05)
arguments = parser.parse_args()

runtime = start(seed=1)
points = np.loadtxt(runtime.data("points") / "train.csv", delimiter=",", skiprows=1, dtype=np.float32)
with runtime.strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Input((1,)), tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.Adam(arguments.lr)
loop = runtime.loop(
    model=model,
    optimizer=optimizer,
    losses=lambda y, found: tf.square(found[:, 0] - y),
    is_right=lambda y, found: tf.cast(tf.abs(found[:, 0] - y) < NEAR, tf.float32),
    epochs=arguments.epochs,
    global_batch_size=64,
)
trained = loop.train(Arrays(points[:, :1], points[:, 1]))
x = tf.TensorSpec((None, 1), tf.float32, name="x")
runtime.save_model(model, plain(for_inference(model), x), step=trained.step)
runtime.write_metrics({"step": trained.step, "history": trained.history, **trained.history[-1]})
runtime.finish(trained.step)
