"""The tutorial on several workers: TF_CONFIG, MultiWorkerMirroredStrategy, compile and fit."""

import argparse
import json
import os

import numpy as np
import tensorflow as tf

PER_WORKER_BATCH_SIZE = 32


def dataset(batch_size):
    rng = np.random.default_rng(5)
    points = rng.normal(size=(4096, 16)).astype("float32")
    labels = (points[:, :8].sum(axis=1) > points[:, 8:].sum(axis=1)).astype("int64")
    return (
        tf.data.Dataset.from_tensor_slices((points, labels)).shuffle(4096, seed=1).repeat().batch(batch_size)
    )


def build_and_compile():
    model = tf.keras.Sequential(
        [tf.keras.Input((16,)), tf.keras.layers.Dense(32, activation="relu"), tf.keras.layers.Dense(2)]
    )
    model.compile(
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=tf.keras.optimizers.SGD(learning_rate=0.1),
        metrics=["accuracy"],
    )
    return model


def is_chief(task_type, task_id):
    return task_type is None or task_type == "chief" or (task_type == "worker" and task_id == 0)


parser = argparse.ArgumentParser()
parser.add_argument("--model_dir", default="/tmp/model")
flags = parser.parse_args()

workers = len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = build_and_compile()
history = model.fit(dataset(PER_WORKER_BATCH_SIZE * workers), epochs=3, steps_per_epoch=60, verbose=2)

resolver = strategy.cluster_resolver
path = flags.model_dir
if not is_chief(resolver.task_type, resolver.task_id):
    path = f"/tmp/worker-{resolver.task_id}"
model.save(path)
print(f"workers {workers} accuracy {history.history['accuracy'][-1]:.3f}")
