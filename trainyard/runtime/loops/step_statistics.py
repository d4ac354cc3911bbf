"""Step statistics of asynchronous training, kept on the parameter servers and added to by the steps themselves.

They are exact however the workers race: no step is lost or counted twice, and each knows its staleness, that is how
many pushes came between its fetch and its own. For that `step` counts by the one operation that counts and answers in
one go, and each worker has rows of its own: two that add to one row at a time may lose one (4 of 60,000 did).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

WITHOUT_END = 2**62
LOSS, ACCURACY, STALENESS, STEPS = range(4)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The statistics as the chief read them. `epochs` and `stalest` have a row an epoch, `turns` a number a worker."""

    epochs: Any
    stalest: Any
    turns: tuple[int, ...]

    @property
    def step(self) -> int:
        return int(self.epochs[:, STEPS].sum())

    @property
    def staleness(self) -> dict[str, float]:
        """Of all steps so far, the mean and the largest."""
        return {
            "staleness": round(float(self.epochs[:, STALENESS].sum() / max(self.step, 1)), 3),
            "staleness_max": int(self.stalest.max()),
        }

    def since(self, earlier: "Snapshot") -> tuple[float, float]:
        """Mean loss and accuracy of the steps since `earlier`, of which there must be some."""
        sums = self.epochs.sum(axis=0) - earlier.epochs.sum(axis=0)
        return float(sums[LOSS] / sums[STEPS]), float(sums[ACCURACY] / sums[STEPS])

    def history(self, per_epoch: int) -> list[dict[str, float]]:
        """The means over the steps of every epoch that is over."""
        over = min(self.step // per_epoch, len(self.epochs))
        means = (self.epochs[:over] / self.epochs[:over, STEPS:]).tolist()
        return [
            {
                "epoch": epoch,
                "loss": mean[LOSS],
                "accuracy": mean[ACCURACY],
                "staleness": mean[STALENESS],
                "staleness_max": int(self.stalest[epoch - 1]),
            }
            for epoch, mean in enumerate(means, start=1)
        ]

    def to_json(self) -> dict[str, Any]:
        return {"epochs": self.epochs.tolist(), "stalest": self.stalest.tolist(), "turns": list(self.turns)}


class StepStatistics(tf.Module):
    """To be made under the strategy's scope. `per_epoch` steps are an epoch."""

    def __init__(self, *, epochs: int, per_epoch: int, workers: int) -> None:
        super().__init__()
        self._shape = (workers, epochs)
        self._per_epoch = per_epoch
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._epochs = tf.Variable(tf.zeros((workers * epochs, 4), tf.float64), trainable=False)
        self._stalest = tf.Variable(tf.zeros((workers * epochs,), tf.int64), trainable=False)
        self._turns = tf.Variable(tf.zeros((workers,), tf.int64), trainable=False)

    def read(self) -> Snapshot:
        return Snapshot(
            self._epochs.numpy().reshape(*self._shape, 4).sum(axis=0),
            self._stalest.numpy().reshape(self._shape).max(axis=0),
            tuple(self._turns.numpy().tolist()),
        )

    def restore(self, saved: Mapping[str, Any]) -> None:
        """`saved`: what `Snapshot.to_json` said, for as many epochs or fewer. The first worker's rows take it all."""
        done = np.asarray(saved["epochs"])
        epochs, stalest = np.zeros(self._epochs.shape), np.zeros(self._stalest.shape, np.int64)
        epochs[: len(done)], stalest[: len(done)] = done, saved["stalest"]
        self._epochs.assign(epochs)
        self._stalest.assign(stalest)
        self._turns.assign(saved["turns"])
        self.step.assign(int(epochs[:, STEPS].sum()))

    def add_push(self, gradients: Sequence[Any], *, fetched_at: Any, loss: Any, accuracy: Any) -> None:
        """In the worker's graph: a step is done as soon as its gradients are there. `fetched_at`: what `step` was when
        the parameters were fetched."""
        with tf.control_dependencies(gradients):
            before = tf.raw_ops.ResourceCountUpTo(resource=self.step.handle, limit=WITHOUT_END, T=tf.int64)
        epochs = self._shape[1]
        row = worker_here() * epochs + tf.minimum(before // self._per_epoch, epochs - 1)
        staleness = before - fetched_at
        sums = tf.stack([tf.cast(number, tf.float64) for number in (loss, accuracy, staleness, 1)])
        _add(self._epochs, row, sums)
        tf.raw_ops.ResourceScatterMax(resource=self._stalest.handle, indices=[row], updates=[staleness])

    def add_turn(self) -> None:
        """In the worker's graph: it has done with the batches it took."""
        _add(self._turns, worker_here(), tf.ones((), tf.int64))


def worker_here() -> Any:
    """Whose graph this is, as a number, where the coordinator runs something on a worker."""
    return tf.cast(tf.distribute.coordinator.experimental_get_current_worker_index(), tf.int64)


def _add(table: tf.Variable, row: Any, values: Any) -> None:
    tf.raw_ops.ResourceScatterAdd(resource=table.handle, indices=[row], updates=values[None])
