"""TensorFlow's own evaluation during the training: SidecarEvaluator. The program does not use Trainyard's code.

Its job: cluster: {strategy: multi_worker, workers: 2, evaluator: true} and
  args: {checkpoints: "${checkpoints}", events: "${tensorboard}", model: "${model}"}
"""

import argparse
import json
import os

import numpy as np
import tensorflow as tf
import tf_keras

parser = argparse.ArgumentParser()
for folder in ("checkpoints", "events", "model"):
    parser.add_argument(f"--{folder}", required=True)
parser.add_argument("--epochs", type=int, default=5)
flags = parser.parse_args()


def examples(seed: int, count: int) -> tf.data.Dataset:
    points = np.random.default_rng(seed).normal(size=(count, 16)).astype("float32")
    labels = (points[:, :8].sum(axis=1) > points[:, 8:].sum(axis=1)).astype("int64")
    return tf.data.Dataset.from_tensor_slices((points, labels))


def compiled() -> tf_keras.Model:
    model = tf_keras.Sequential(
        [
            tf_keras.layers.Input((16,)),
            tf_keras.layers.Dense(32, activation="relu"),
            tf_keras.layers.Dense(2),
        ]
    )
    model.compile(
        optimizer=tf_keras.optimizers.SGD(0.1),
        loss=tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


task = json.loads(os.environ["TF_CONFIG"])["task"]
if task["type"] == "evaluator":
    tf_keras.utils.SidecarEvaluator(
        model=compiled(),
        data=examples(2, 1024).batch(128),
        checkpoint_dir=flags.checkpoints,
        max_evaluations=flags.epochs,
        callbacks=[tf_keras.callbacks.TensorBoard(flags.events)],
    ).start()
    raise SystemExit

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = compiled()
saved = tf.train.latest_checkpoint(flags.checkpoints)
if saved:
    model.load_weights(saved)
model.fit(
    examples(1, 4096).repeat().batch(64),
    steps_per_epoch=64,
    initial_epoch=int(saved.rpartition("-")[2]) if saved else 0,
    epochs=flags.epochs,
    callbacks=[
        tf_keras.callbacks.ModelCheckpoint(f"{flags.checkpoints}/ckpt-{{epoch}}", save_weights_only=True)
    ],
    verbose=2,
)
if task["index"] == 0:
    model.export(flags.model)
