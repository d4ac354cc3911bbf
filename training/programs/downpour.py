"""Downpour SGD, after Dean et al., Large Scale Distributed Deep Networks (NIPS 2012), on handwritten digits.

The parameters are on parameter servers, which apply pushed gradients with Adagrad. Each worker has a replica of the
model. It fetches the parameters every --fetch-every batches, uses its own gradients in between, and pushes the sum of
its gradients every --push-every batches. Workers do not wait for each other; the staleness of pushes is reported.

For `cluster.strategy: parameter_server`. Network and data are the same as in mnist.py.
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from training.programs import mnist
from training.programs.arguments import SHOWN, add_step_delay, at_least, loop_arguments, training_parser
from training.programs.classification import evaluate, is_right, losses, write_metrics
from trainyard.runtime import Runtime, evaluation, start
from trainyard.runtime.data import Examples
from trainyard.runtime.export import classifier
from trainyard.runtime.loops.asynchronous import Asynchronous
from trainyard.runtime.loops.step_statistics import StepStatistics
from trainyard.runtime.plan import Trained

FIRST_SUM = 0.1
"""The start value of Adagrad's sums of squares, without which the first steps would be too long."""


class Network(tf.Module):
    """784 pixels, 100 sigmoid units, 10 classes. Images (n, 784) from 0 to 1 in, logits (n, 10) out."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        shapes = ((mnist.PIXELS, mnist.HIDDEN), (mnist.HIDDEN, mnist.DIGITS))
        self.parameters = [
            tf.Variable(value)
            for layer, shape in enumerate(shapes)
            for value in (mnist.draw_normal(shape, seed + layer), tf.zeros((shape[1],)))
        ]

    def __call__(self, images: Any) -> Any:
        return self.at(self.parameters, images)

    @staticmethod
    def at(parameters: Sequence[Any], images: Any) -> Any:
        """Return the network's logits for these parameters."""
        hidden_weights, hidden_biases, weights, biases = parameters
        hidden = tf.sigmoid(tf.linalg.matmul(images, hidden_weights) + hidden_biases)
        return tf.linalg.matmul(hidden, weights) + biases


class Adagrad(tf.Module):
    """A learning rate for each parameter: `learning_rate` over the root of the sum of its squared gradients so far.

    The sums are on the servers of their parameters. A push is one operation there for each tensor.
    """

    def __init__(self, learning_rate: float, parameters: Sequence[tf.Variable]) -> None:
        super().__init__()
        self._learning_rate = learning_rate
        self._parameters = parameters
        self.sums = [tf.Variable(tf.fill(one.shape, FIRST_SUM), trainable=False) for one in parameters]

    def push(self, gradients: Sequence[Any]) -> None:
        for parameter, sums, gradient in zip(self._parameters, self.sums, gradients, strict=True):
            tf.raw_ops.ResourceApplyAdagradV2(
                var=parameter.handle,
                accum=sums.handle,
                lr=self._learning_rate,
                epsilon=0.0,
                grad=gradient,
                use_locking=True,
            )


@dataclass(frozen=True, slots=True)
class Replica:
    """The paper's DownpourSGDClient, for the number of batches after which fetch and push coincide again."""

    network: Network
    adagrad: Adagrad
    learning_rate: float
    fetch_every: int
    push_every: int

    @property
    def batches(self) -> int:
        return math.lcm(self.fetch_every, self.push_every)

    @property
    def pushes(self) -> int:
        return self.batches // self.push_every

    def __call__(self, batches: Sequence[Any], statistics: StepStatistics) -> None:
        accrued: list[Any] = []
        for number, (images, labels) in enumerate(batches):
            if number % self.fetch_every == 0:
                fetched_at = statistics.step.read_value()
                with tf.control_dependencies([fetched_at]):
                    parameters = [one.read_value() for one in self.network.parameters]
            with tf.GradientTape() as tape:
                tape.watch(parameters)
                outputs = Network.at(parameters, images)
                loss = tf.reduce_mean(losses(labels, outputs))
            gradients = tape.gradient(loss, parameters)
            accrued.append((gradients, loss, tf.reduce_mean(is_right(labels, outputs))))
            parameters = [
                one - self.learning_rate * gradient
                for one, gradient in zip(parameters, gradients, strict=True)
            ]
            if len(accrued) == self.push_every:
                self._push(accrued, fetched_at, statistics)
                accrued = []

    def _push(self, accrued: Sequence[Any], fetched_at: Any, statistics: StepStatistics) -> None:
        gradients = [tf.add_n(same) for same in zip(*(one for one, _, _ in accrued), strict=True)]
        self.adagrad.push(gradients)
        loss, accuracy = (tf.reduce_mean([one[place] for one in accrued]) for place in (1, 2))
        statistics.add_push(gradients, fetched_at=fetched_at, loss=loss, accuracy=accuracy)


def main() -> None:
    arguments = parse_arguments()
    runtime = start(seed=arguments.seed)
    if runtime.cluster.kind != "parameter_server":
        raise SystemExit(
            f"downpour trains with cluster.strategy: parameter_server, but this run has {runtime.cluster.kind}; "
            "training.programs.mnist trains the same network with every strategy"
        )
    train, test = mnist.read_digits(runtime)
    with runtime.strategy.scope():
        network = Network(arguments.seed)
        adagrad = Adagrad(arguments.learning_rate, network.parameters)
    if runtime.is_evaluator:
        evaluation.follow(
            runtime,
            lambda: evaluate(network, test),
            model=network,
            optimizer=adagrad,
            epochs=arguments.epochs,
        )
    replica = Replica(network, adagrad, arguments.learning_rate, arguments.fetch_every, arguments.push_every)
    plan = runtime.plan(**loop_arguments(arguments))
    loop = Asynchronous(
        runtime.cluster, runtime.environment, plan, model=network, optimizer=adagrad, turn=replica
    )
    trained = loop.train(train)
    conclude(runtime, network, trained, test)
    runtime.finish(trained.step)


def parse_arguments() -> argparse.Namespace:
    parser = training_parser(__doc__, epochs=20, global_batch_size=64, learning_rate=0.05)
    parser.add_argument("--fetch-every", type=at_least(1), default=1, help=f"n_fetch, in batches {SHOWN}")
    parser.add_argument("--push-every", type=at_least(1), default=1, help=f"n_push, in batches {SHOWN}")
    add_step_delay(parser)
    return parser.parse_args()


def conclude(runtime: Runtime, network: Network, trained: Trained, test: Examples) -> None:
    """Evaluate the network on held-out digits, and save it."""
    numbers = evaluate(network, test)
    last = trained.history[-1]
    print(
        f"Test-Accuracy: {numbers['accuracy']:.4f} on {test.count} digits after {trained.step} pushes, whose staleness "
        f"in the last epoch was {last['staleness']:.2f} on average and {last['staleness_max']:.0f} at most",
        flush=True,
    )
    images = tf.TensorSpec((None, mnist.PIXELS), tf.float32, name="images")
    runtime.save_model(network, classifier(network, images), step=trained.step)
    staleness = sum(one["staleness"] for one in trained.history) / len(trained.history)
    most_stale = max(one["staleness_max"] for one in trained.history)
    write_metrics(runtime, trained, **numbers, staleness=staleness, staleness_max=most_stale)


if __name__ == "__main__":
    main()
