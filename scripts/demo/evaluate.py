"""Evaluate a SavedModel on held-out digits: `python -m scripts.demo.evaluate MODEL SHARDS` prints JSON.

Requires TensorFlow (.venv-host). Only the model's folder and signature are used.
"""

import json
import sys
from pathlib import Path

import tensorflow as tf

from training.programs.digits import parse

BATCH = 256


def accuracy(model_folder: Path, shards: Path) -> tuple[float, int]:
    """Return the share of correct predictions, and the number of scans."""
    model = tf.saved_model.load(str(model_folder))
    predict = model.signatures["serving_default"]
    (name,) = predict.structured_input_signature[1]
    files = sorted(map(str, shards.glob("*.tfrecord")))
    right = scans = 0
    for records in tf.data.TFRecordDataset(files).batch(BATCH):
        images, labels = parse(records)
        (logits,) = predict(**{name: images}).values()
        right += int(tf.reduce_sum(tf.cast(tf.equal(tf.argmax(logits, axis=1), labels), tf.int64)))
        scans += int(labels.shape[0])
    return right / scans, scans


if __name__ == "__main__":
    share, count = accuracy(Path(sys.argv[1]), Path(sys.argv[2]))
    print(json.dumps({"accuracy": share, "scans": count}))
