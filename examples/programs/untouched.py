"""Depth (a): a program without Trainyard's code. It reads TF_CONFIG, as in TensorFlow's tutorials, and its arguments.

Its job passes the folders: args: {data: "${data.digits}", checkpoints: "${checkpoints}", model: "${model}"}.
"""

import argparse
import os

import numpy as np
import tensorflow as tf
import tf_keras

parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
parser.add_argument("--checkpoints", required=True)
parser.add_argument("--model", required=True)
parser.add_argument("--epochs", type=int, default=5)
arguments = parser.parse_args()

several = "TF_CONFIG" in os.environ
strategy = tf.distribute.MultiWorkerMirroredStrategy() if several else tf.distribute.get_strategy()
scans = np.load(f"{arguments.data}/digits.npz")
with strategy.scope():
    model = tf_keras.Sequential(
        [
            tf_keras.layers.Input((64,)),
            tf_keras.layers.Dense(64, activation="relu"),
            tf_keras.layers.Dense(10),
        ]
    )
    model.compile(
        optimizer="adam",
        loss=tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
backup = tf_keras.callbacks.BackupAndRestore(arguments.checkpoints, delete_checkpoint=False)
model.fit(
    scans["images"], scans["labels"], batch_size=64, epochs=arguments.epochs, callbacks=[backup], verbose=2
)
if not several or strategy.cluster_resolver.task_id == 0:
    model.export(arguments.model)
