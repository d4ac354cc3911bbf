"""A Keras script for one machine that continues after an interruption by Keras' own callback."""

import argparse
import time

import keras
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--backup", default="/tmp/backup")
parser.add_argument("--epochs", type=int, default=30)
parser.add_argument("--pause", type=float, default=0.0, help="seconds after each epoch of the first attempt")
parser.add_argument("--attempt", type=int, default=1)
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
pause = flags.pause if flags.attempt == 1 else 0.0
slow = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: time.sleep(pause))
history = model.fit(
    points,
    labels,
    epochs=flags.epochs,
    verbose=2,
    callbacks=[keras.callbacks.BackupAndRestore(flags.backup, delete_checkpoint=False), slow],
)
print(f"epochs run here: {len(history.epoch)}, the first was {history.epoch[0] if history.epoch else 'none'}")
