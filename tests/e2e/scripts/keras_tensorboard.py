"""A script of a Keras tutorial: fit with a TensorBoard callback."""

import argparse

import keras
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--logs", default="logs/fit")
parser.add_argument("--epochs", type=int, default=5)
flags = parser.parse_args()

rng = np.random.default_rng(3)
points = rng.normal(size=(1024, 8)).astype("float32")
labels = (points.sum(axis=1) > 0).astype("int32")
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(2)]
)
model.compile(
    optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"]
)
model.fit(
    points,
    labels,
    epochs=flags.epochs,
    validation_split=0.25,
    verbose=2,
    callbacks=[keras.callbacks.TensorBoard(flags.logs)],
)
