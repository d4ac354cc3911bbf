"""Classify scans of handwritten digits with a convolutional network, trained by any number of workers.

Reads TFRecord shards from the data entries `train` and `test` (datasets/digits.py creates them from real scans).
"""

import argparse

import tensorflow as tf

from training.programs.arguments import add_step_delay, loop_arguments, training_parser
from training.programs.classification import RECORD, evaluate, is_right, losses, write_metrics
from trainyard.runtime import Runtime, start
from trainyard.runtime.data import Records
from trainyard.runtime.export import classifier
from trainyard.runtime.models import for_inference
from trainyard.runtime.plan import Trained

SIDE = 8
DIGITS = 10
BRIGHTEST = 16.0


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
        **loop_arguments(arguments),
    )
    trained = loop.train(train)
    conclude(runtime, model, trained, test)
    runtime.finish(trained.step)


def parse_arguments() -> argparse.Namespace:
    parser = training_parser(
        __doc__, epochs=30, global_batch_size=64, learning_rate=1e-3, checkpoint_every=100
    )
    add_step_delay(parser)
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
    """Parse a batch of serialized records. Return images from 0 to 1, and labels."""
    found = tf.io.parse_example(records, RECORD)
    pixels = tf.io.decode_raw(found["image"], tf.uint8, fixed_length=SIDE * SIDE)
    images = tf.reshape(tf.cast(pixels, tf.float32) / BRIGHTEST, (-1, SIDE, SIDE, 1))
    return images, found["label"]


def conclude(runtime: Runtime, model: tf.keras.Model, trained: Trained, test: Records) -> None:
    """Evaluate the model on held-out scans, and save it."""
    numbers = evaluate(for_inference(model), test)
    print(
        f"test loss {numbers['loss']:.4f} accuracy {numbers['accuracy']:.4f} on {test.count} held-out scans",
        flush=True,
    )
    image = tf.TensorSpec((None, SIDE, SIDE, 1), tf.float32, name="image")
    runtime.save_model(model, classifier(for_inference(model), image), step=trained.step)
    write_metrics(runtime, trained, **numbers)


if __name__ == "__main__":
    main()
