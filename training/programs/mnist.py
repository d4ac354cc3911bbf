"""Classify handwritten digits of 28 x 28 pixels: 784 inputs, 100 sigmoid units, 10 softmax outputs, plain SGD.

The program supports every strategy of the job file: single, mirrored, multi_worker (synchronous), and parameter_server
(asynchronous). It reads the four IDX files of MNIST (plain or .gz) from the data entry `mnist`, or TFRecord shards with
{image: 784 bytes, label: int64} from the entries `train` and `test`. datasets/mnist.py creates both.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import tensorflow as tf
import tf_keras

from training.programs.arguments import SHOWN, add_step_delay, at_least, loop_arguments, training_parser
from training.programs.classification import RECORD, evaluate, is_right, losses, write_metrics
from training.programs.datasets import idx
from trainyard.runtime import Runtime, evaluation, start
from trainyard.runtime.data import Arrays, Examples, Records
from trainyard.runtime.export import classifier
from trainyard.runtime.plan import Step, Trained

SIDE = 28
PIXELS = SIDE * SIDE
HIDDEN = 100
DIGITS = 10


class Classifier(tf.Module):
    """The network: images (n, 784) from 0 to 1 in, logits (n, 10) out."""

    def __init__(self, seed: int) -> None:
        super().__init__(name="classifier")
        self.hidden_weights = tf.Variable(draw_normal((PIXELS, HIDDEN), seed), name="hidden/weights")
        self.hidden_biases = tf.Variable(tf.zeros((HIDDEN,)), name="hidden/biases")
        self.weights = tf.Variable(draw_normal((HIDDEN, DIGITS), seed + 1), name="softmax/weights")
        self.biases = tf.Variable(tf.zeros((DIGITS,)), name="softmax/biases")

    def __call__(self, images: Any) -> Any:
        hidden = tf.sigmoid(tf.linalg.matmul(images, self.hidden_weights) + self.hidden_biases)
        return tf.linalg.matmul(hidden, self.weights) + self.biases


class Diary:
    """Prints the progress of a run, every `frequency` steps and at the end of an epoch. `cost` is the last loss."""

    def __init__(self, frequency: int) -> None:
        self._frequency = frequency
        self._begun = self._printed_at = time.monotonic()
        self._printed: Step | None = None
        self.cost: float | None = None

    def note(self, done: Step) -> None:
        """Note a finished step, and print it if it is due. Asynchronous workers may have finished several meanwhile."""
        self.cost = done.loss
        if self._is_due(done):
            self._print(done)

    def _is_due(self, done: Step) -> bool:
        printed = self._printed
        if printed is None:
            return True
        if done.step <= printed.step:  # two simultaneous asynchronous updates may both read the later step
            return False
        if done.batch == done.batches:
            return True
        missed_the_end = done.epoch > printed.epoch and printed.batch < printed.batches
        return missed_the_end or done.step // self._frequency > printed.step // self._frequency

    def _print(self, done: Step) -> None:
        now = time.monotonic()
        steps = done.step - self._printed.step if self._printed else 1
        average = 1000 * (now - self._printed_at) / steps
        print(
            f"Step: {done.step},  Epoch: {done.epoch},  Batch: {done.batch} of {done.batches},  "
            f"Cost: {done.loss:.4f},  AvgTime: {average:.2f} ms",
            flush=True,
        )
        self._printed, self._printed_at = done, now

    def close(self, accuracy: float, cost: float) -> None:
        print(f"Test-Accuracy: {accuracy:.4f}", flush=True)
        print(f"Total Time: {time.monotonic() - self._begun:.2f} s", flush=True)
        print(f"Final Cost: {cost:.4f}", flush=True)


def main() -> None:
    arguments = parse_arguments()
    runtime = start(seed=arguments.seed)
    train, test = read_digits(runtime)
    with runtime.strategy.scope():
        model = Classifier(arguments.seed)
        optimizer = tf_keras.optimizers.SGD(arguments.learning_rate)
    if runtime.is_evaluator:
        evaluation.follow(
            runtime,
            lambda: evaluate(model, test),
            model=model,
            optimizer=optimizer,
            epochs=arguments.epochs,
        )
    diary = Diary(arguments.frequency)
    loop = runtime.loop(
        model=model,
        optimizer=optimizer,
        losses=losses,
        is_right=is_right,
        **loop_arguments(arguments),
        each_step=diary.note,
    )
    trained = loop.train(train)
    conclude(runtime, model, trained, test, diary)
    runtime.finish(trained.step)


def parse_arguments() -> argparse.Namespace:
    parser = training_parser(__doc__, epochs=20, global_batch_size=100, learning_rate=0.5)
    parser.add_argument("--frequency", type=at_least(1), default=100, help=f"steps between two lines {SHOWN}")
    add_step_delay(parser)
    return parser.parse_args()


def read_digits(runtime: Runtime) -> tuple[Examples, Examples]:
    """Return training and test digits: images (n, 784) from 0 to 1, and labels. Raises SystemExit for other data."""
    if "mnist" in runtime.environment.data:
        return arrays(runtime.data("mnist"), idx.TRAIN), arrays(runtime.data("mnist"), idx.TEST)
    if "train" in runtime.environment.data:
        return records(runtime.data("train")), records(runtime.data("test"))
    raise SystemExit(
        "this program needs data.mnist (the four IDX files), or data.train and data.test (TFRecord shards): name them "
        "in the job file, or set TRAINYARD_DATA_MNIST to a folder when you run it by hand"
    )


def arrays(folder: Path, part: str) -> Arrays:
    found = idx.read_part(folder, part)
    if found.images.shape[1] != PIXELS or found.labels.min() < 0 or found.labels.max() >= DIGITS:
        raise SystemExit(
            f"{part} in {folder} has images of {found.images.shape[1]} pixels and labels from {found.labels.min()} to "
            f"{found.labels.max()}: this program reads {SIDE} x {SIDE} pixels and labels from 0 to {DIGITS - 1}"
        )
    return Arrays(found.images, found.labels)


def records(folder: Path) -> Records:
    found = Records.under(folder, parse)
    for file in found.files[:1]:  # a process that does not train has no files
        first = next(iter(tf.data.TFRecordDataset(file)))
        size = len(tf.io.parse_single_example(first, RECORD)["image"].numpy())
        if size != PIXELS:
            raise SystemExit(
                f"{file} has images of {size} bytes: this program reads {SIDE} x {SIDE} pixels of one byte each"
            )
    return found


def parse(serialised: Any) -> tuple[Any, Any]:
    """Parse a batch of serialized records. Return images from 0 to 1, and labels."""
    found = tf.io.parse_example(serialised, RECORD)
    pixels = tf.io.decode_raw(found["image"], tf.uint8, fixed_length=PIXELS)
    return tf.cast(pixels, tf.float32) / idx.BRIGHTEST, found["label"]


def draw_normal(shape: tuple[int, int], seed: int) -> Any:
    """Draw normal numbers whose deviation falls with the number of inputs. Equal seeds give equal numbers."""
    return tf.random.stateless_normal(shape, seed=(seed, 0), stddev=shape[0] ** -0.5)


def conclude(runtime: Runtime, model: Classifier, trained: Trained, test: Examples, diary: Diary) -> None:
    """Evaluate the model on held-out digits, and save it."""
    numbers = evaluate(model, test)
    if runtime.is_chief:
        last = trained.history[-1]["loss"] if diary.cost is None else diary.cost
        diary.close(numbers["accuracy"], last)
    images = tf.TensorSpec((None, PIXELS), tf.float32, name="images")
    runtime.save_model(model, classifier(model, images), step=trained.step)
    write_metrics(runtime, trained, **numbers)


if __name__ == "__main__":
    main()
