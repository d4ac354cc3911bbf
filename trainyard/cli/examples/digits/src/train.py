"""Classify digits on any number of hosts. After an interruption, training continues from the last checkpoint."""

import argparse

import numpy as np
import tensorflow as tf

from trainyard.runtime import start
from trainyard.runtime.data import Arrays
from trainyard.runtime.export import classifier
from trainyard.runtime.models import for_inference

SIDE, BRIGHTEST = 8, 16.0

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--lr", type=float, default=0.002)
arguments = parser.parse_args()

runtime = start(seed=1)
scans = np.loadtxt(runtime.data("digits") / "train.csv", delimiter=",", dtype=np.float32)
labels, images = scans[:, 0].astype(np.int64), scans[:, 1:].reshape(-1, SIDE, SIDE, 1) / BRIGHTEST
layers = tf.keras.layers
with runtime.strategy.scope():
    model = tf.keras.Sequential(
        [
            layers.Input((SIDE, SIDE, 1)),
            layers.Conv2D(16, 3, activation="relu"),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )
    optimizer = tf.keras.optimizers.Adam(arguments.lr)
loop = runtime.loop(
    model=model,
    optimizer=optimizer,
    losses=lambda label, logits: tf.nn.sparse_softmax_cross_entropy_with_logits(label, logits),
    is_right=lambda label, logits: tf.cast(tf.argmax(logits, axis=1) == label, tf.float32),
    epochs=arguments.epochs,
    global_batch_size=64,
)
trained = loop.train(Arrays(images, labels))
image = tf.TensorSpec((None, SIDE, SIDE, 1), tf.float32, name="image")
runtime.save_model(model, classifier(for_inference(model), image), step=trained.step)
runtime.write_metrics({"step": trained.step, "history": trained.history, **trained.history[-1]})
runtime.finish(trained.step)
