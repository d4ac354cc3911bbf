"""Classify scans of handwritten digits: a convolutional network, trained by any number of workers.

Reads TFRecord shards from the data entries `train` and `test` (digits_data.py makes them from real scans).
"""

import argparse

import tensorflow as tf

from trainyard.runtime import Runtime, start
from trainyard.runtime.data import Records
from trainyard.runtime.export import classifier
from trainyard.runtime.models import used
from trainyard.runtime.plan import Trained

SIDE = 8
DIGITS = 10
BRIGHTEST = 16.0
EVALUATION_BATCH = 512
RECORD = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def main() -> None:
    arguments = parse_arguments()
    runtime = start(seed=arguments.seed)
    train, test = (Records.under(runtime.data(name), parse) for name in ("train", "test"))
    with runtime.strategy.scope():
        model = build()
        optimizer = tf.keras.optimizers.Adam(arguments.learning_rate)
    loop = runtime.loop(
        model=model,
        optimizer=optimizer,
        losses=losses,
        is_right=is_right,
        epochs=arguments.epochs,
        global_batch_size=arguments.global_batch_size,
        seed=arguments.seed,
        checkpoint_every=arguments.checkpoint_every,
        step_delay=arguments.step_delay,
    )
    trained = loop.train(train)
    conclude(runtime, model, trained, test)
    runtime.finish(trained.step)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--global-batch-size", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint-every", type=int, default=100, help="steps; 0: by the clock alone")
    parser.add_argument(
        "--step-delay", type=float, default=0.0, help="seconds to wait after a step, to watch it"
    )
    return parser.parse_args()


def build() -> tf.keras.Model:
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Input((SIDE, SIDE, 1)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dense(DIGITS),
        ]
    )


def parse(records: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """A batch of serialised records: images as numbers from 0 to 1, labels."""
    found = tf.io.parse_example(records, RECORD)
    pixels = tf.io.decode_raw(found["image"], tf.uint8, fixed_length=SIDE * SIDE)
    images = tf.reshape(tf.cast(pixels, tf.float32) / BRIGHTEST, (-1, SIDE, SIDE, 1))
    return images, found["label"]


def losses(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs)


def is_right(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.equal(tf.argmax(outputs, axis=1), labels), tf.float32)


def conclude(runtime: Runtime, model: tf.keras.Model, trained: Trained, test: Records) -> None:
    """Judge the model on scans it has never seen, and leave it behind."""
    loss, accuracy = evaluate(model, test)
    print(f"test loss {loss:.4f} accuracy {accuracy:.4f} on {test.count} held-out scans", flush=True)
    image = tf.TensorSpec((None, SIDE, SIDE, 1), tf.float32, name="image")
    runtime.save_model(model, classifier(used(model), image), step=trained.step)
    runtime.write_metrics(
        {
            "step": trained.step,
            "steps": trained.steps,
            "epochs": len(trained.history),
            "loss": loss,
            "accuracy": accuracy,
            "workers": runtime.workers,
            "history": trained.history,
        }
    )


def evaluate(model: tf.keras.Model, records: Records) -> tuple[float, float]:
    """Mean loss and accuracy over all records."""
    loss = right = 0.0
    for images, labels in records.once(EVALUATION_BATCH):
        outputs = model(images, training=False)
        loss += float(tf.reduce_sum(losses(labels, outputs)))
        right += float(tf.reduce_sum(is_right(labels, outputs)))
    return loss / records.count, right / records.count


if __name__ == "__main__":
    main()
