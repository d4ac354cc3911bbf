"""A program for test_keras: `fit`, slow enough to be interrupted."""

import argparse
import time
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tf_keras

from trainyard.runtime import start
from trainyard.runtime.data import Arrays
from trainyard.runtime.keras import Resumable

BATCH = 64

parser = argparse.ArgumentParser()
parser.add_argument("--library", choices=("keras", "tf_keras"), required=True)
parser.add_argument("--data", choices=("examples", "dataset"), required=True)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--validate", type=int, default=0)
parser.add_argument("--delay", type=float, default=0.0)
arguments = parser.parse_args()
library: Any = {"keras": keras, "tf_keras": tf_keras}[arguments.library]


slowly = library.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: time.sleep(arguments.delay))
runtime = start(seed=3)
tf_keras.backend.experimental.enable_tf_random_generator()
scans = np.load(runtime.data("digits") / "digits.npz")
train = Arrays(scans["images"], scans["labels"])
steps = runtime.steps_per_epoch(train, global_batch_size=BATCH)
with runtime.strategy.scope():
    model = library.Sequential(
        [
            library.layers.Input((64,)),
            library.layers.Dense(64, activation="relu"),
            library.layers.Dropout(0.2, seed=5),
            library.layers.Dense(10),
        ]
    )
    loss = library.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
resumable = Resumable(runtime, model, steps_per_epoch=steps, global_batch_size=BATCH)
if arguments.data == "examples":
    fed = resumable.batches_of(train)
else:
    dataset = tf.data.Dataset.from_tensor_slices((train.features, train.labels))
    mixed = dataset.shuffle(train.count, seed=3).batch(BATCH, drop_remainder=True)
    fed = resumable.rest_of(mixed)
held_out = [each[: arguments.validate] for each in (train.features, train.labels)]
model.fit(
    fed,
    epochs=arguments.epochs,
    steps_per_epoch=steps,
    callbacks=[slowly, resumable],
    validation_data=tuple(held_out) if arguments.validate else None,
    verbose=0,
)
runtime.write_metrics({"step": resumable.step, "history": resumable.history})
runtime.finish(resumable.step)
