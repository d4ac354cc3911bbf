"""Classify the sentiment of film reviews, with tf_keras `fit` that survives interruptions.

Reads reviews from the data entry `reviews` in the layout of aclImdb (train/pos/*.txt and so on, in folders or in one
tar archive). datasets/keras_text.py creates such data. The vocabulary has words and pairs of words of the training
texts. It is part of the exported model, whose inputs are texts. Strategies: single, mirrored, multi_worker."""

import argparse
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from training.programs.arguments import SHOWN, at_least, training_parser
from training.programs.classification import evaluate, write_metrics
from training.programs.datasets import reviews
from training.programs.datasets.reviews import SENTIMENTS, Reviews
from trainyard.runtime import Runtime, start
from trainyard.runtime.data import Arrays
from trainyard.runtime.environment import Environment
from trainyard.runtime.export import classifier
from trainyard.runtime.keras import Resumable
from trainyard.runtime.models import for_inference
from trainyard.runtime.plan import Trained

READ_AT_ONCE = 256
UNITS = 16


class Reader(tf.Module):
    """The vocabulary and the model as one module: texts (n,) in, logits (n, 2) out."""

    def __init__(self, vocabulary: Any, model: Any) -> None:
        super().__init__(name="reader")
        self.vocabulary = vocabulary
        self.model = model

    def __call__(self, texts: Any) -> Any:
        return self.model(self.vocabulary(plain(texts)), training=False)


def main() -> None:
    arguments = parse_arguments()
    refuse_parameter_servers(Environment.from_os().strategy)
    runtime = start(seed=arguments.seed)
    found = reviews.read(runtime.data("reviews"))
    vocabulary = learnt_vocabulary(found["train"], arguments)
    train, test = (number_words(found[part], vocabulary) for part in ("train", "test"))
    with runtime.strategy.scope():
        model = compile_model(build(vocabulary.vocabulary_size(), arguments), arguments.learning_rate)
    steps = runtime.steps_per_epoch(train, global_batch_size=arguments.global_batch_size)
    resumable = Resumable(
        runtime,
        model,
        steps_per_epoch=steps,
        global_batch_size=arguments.global_batch_size,
        seed=arguments.seed,
        checkpoint_every=arguments.checkpoint_every,
    )
    model.fit(
        resumable.batches_of(train),
        epochs=arguments.epochs,
        steps_per_epoch=steps,
        callbacks=[resumable],
        verbose=0,
    )
    conclude(runtime, Reader(vocabulary, model), test, resumable)
    runtime.finish(resumable.step)


def parse_arguments() -> argparse.Namespace:
    parser = training_parser(__doc__, epochs=10, global_batch_size=50, learning_rate=3e-3)
    parser.add_argument(
        "--vocabulary", type=at_least(3), default=20_000, help=f"most entries of the vocabulary {SHOWN}"
    )
    parser.add_argument("--together", type=at_least(1), default=2, help=f"most words of an entry {SHOWN}")
    parser.add_argument(
        "--length", type=at_least(1), default=500, help=f"most entries of a text; the rest is cut off {SHOWN}"
    )
    parser.add_argument(
        "--dimensions", type=at_least(1), default=16, help=f"dimensions of a word's vector {SHOWN}"
    )
    return parser.parse_args()


def refuse_parameter_servers(strategy: str | None) -> None:
    """Raise SystemExit for parameter servers, before the processes wait for each other. Resumable would fail later."""
    if strategy == "parameter_server":
        raise SystemExit(
            "this program trains with Keras fit, which cannot be resumed with parameter servers: "
            "write strategy: multi_worker, or single or mirrored on one host"
        )


def plain(texts: Any) -> Any:
    """Replace the HTML line breaks of real reviews by spaces."""
    return tf.strings.regex_replace(texts, "<br ?/?>", " ")


def learnt_vocabulary(train: Reviews, arguments: argparse.Namespace) -> Any:
    """Return a layer that converts texts to numbers, one for each word or group of words in the training texts."""
    layer = tf_keras.layers.TextVectorization(
        max_tokens=arguments.vocabulary, ngrams=arguments.together, output_sequence_length=arguments.length
    )
    layer.adapt(tf.data.Dataset.from_tensor_slices(list(train.texts)).batch(READ_AT_ONCE).map(plain))
    print(f"{layer.vocabulary_size()} words and groups of words in {train.count} training texts", flush=True)
    return layer


def number_words(found: Reviews, vocabulary: Any) -> Arrays:
    texts = tf.data.Dataset.from_tensor_slices(list(found.texts)).batch(READ_AT_ONCE)
    numbers = [vocabulary(plain(batch)).numpy().astype(np.int32) for batch in texts]
    return Arrays(np.concatenate(numbers), np.array(found.labels, np.int64))


def build(words: int, arguments: argparse.Namespace) -> Any:
    """Return the model: numbers (n, length) in, logits (n, 2) out, from the mean of the words' vectors."""
    layers = tf_keras.layers
    return tf_keras.Sequential(
        [
            layers.Input((arguments.length,), dtype=tf.int32),
            layers.Embedding(words, arguments.dimensions, mask_zero=True),
            layers.GlobalAveragePooling1D(),
            layers.Dense(UNITS, activation="relu"),
            layers.Dense(len(SENTIMENTS)),
        ]
    )


def compile_model(model: Any, learning_rate: float) -> Any:
    model.compile(
        optimizer=tf_keras.optimizers.Adam(learning_rate),
        loss=tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def conclude(runtime: Runtime, reader: Reader, test: Arrays, resumable: Resumable) -> None:
    """Evaluate the model on held-out reviews, and save it."""
    numbers = evaluate(for_inference(reader.model), test)
    if runtime.is_chief:
        print(f"Test-Accuracy: {numbers['accuracy']:.4f} on {test.count} reviews", flush=True)
    texts = tf.TensorSpec((None,), tf.string, name="texts")
    runtime.save_model(reader, classifier(reader, texts), step=resumable.step)
    trained = Trained(resumable.step, resumable.step, resumable.history)
    write_metrics(runtime, trained, **numbers, classes=list(SENTIMENTS))


if __name__ == "__main__":
    main()
