"""Step statistics of asynchronous training. The steps add to them on the parameter servers.

They are exact although the workers race: no step is lost or counted twice. Staleness is the number of pushes between
the fetch and the push of a step. `step` is counted by an operation that increments and returns in one go, and each
worker has its own rows, because concurrent additions to one row may lose one (4 of 60,000 did).
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
    """The statistics at one moment."""

    epochs: Any
    """One row for each epoch."""
    stalest: Any
    """One value for each epoch."""
    turns: tuple[int, ...]
    """One value for each worker."""

    @property
    def step(self) -> int:
        return int(self.epochs[:, STEPS].sum())

    @property
    def staleness(self) -> dict[str, float]:
        """Return the mean and the maximum of all steps so far."""
        return {
            "staleness": round(float(self.epochs[:, STALENESS].sum() / max(self.step, 1)), 3),
            "staleness_max": int(self.stalest.max()),
        }

    def since(self, earlier: "Snapshot") -> tuple[float, float]:
        """Return the mean loss and accuracy of the steps since `earlier`. At least one step is required."""
        sums = self.epochs.sum(axis=0) - earlier.epochs.sum(axis=0)
        return float(sums[LOSS] / sums[STEPS]), float(sums[ACCURACY] / sums[STEPS])

    def history(self, per_epoch: int) -> list[dict[str, float]]:
        """Return the means of each finished epoch."""
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
    """The statistics on the parameter servers. Create it in the strategy's scope."""

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
        """Restore the JSON of a snapshot into the first worker's rows. It may have fewer epochs."""
        done = np.asarray(saved["epochs"])
        epochs, stalest = np.zeros(self._epochs.shape), np.zeros(self._stalest.shape, np.int64)
        epochs[: len(done)], stalest[: len(done)] = done, saved["stalest"]
        self._epochs.assign(epochs)
        self._stalest.assign(stalest)
        self._turns.assign(saved["turns"])
        self.step.assign(int(epochs[:, STEPS].sum()))

    def add_push(self, gradients: Sequence[Any], *, fetched_at: Any, loss: Any, accuracy: Any) -> None:
        """Count a step in the worker's graph once its gradients exist.

        `fetched_at` is the value of `step` when the parameters were fetched.
        """
        with tf.control_dependencies(gradients):
            before = tf.raw_ops.ResourceCountUpTo(resource=self.step.handle, limit=WITHOUT_END, T=tf.int64)
        epochs = self._shape[1]
        row = worker_here() * epochs + tf.minimum(before // self._per_epoch, epochs - 1)
        staleness = before - fetched_at
        sums = tf.stack([tf.cast(number, tf.float64) for number in (loss, accuracy, staleness, 1)])
        _add(self._epochs, row, sums)
        tf.raw_ops.ResourceScatterMax(resource=self._stalest.handle, indices=[row], updates=[staleness])

    def add_turn(self) -> None:
        """Count a finished turn in the worker's graph."""
        _add(self._turns, worker_here(), tf.ones((), tf.int64))


def worker_here() -> Any:
    """Return the index of the worker whose graph this is."""
    return tf.cast(tf.distribute.coordinator.experimental_get_current_worker_index(), tf.int64)


def _add(table: tf.Variable, row: Any, values: Any) -> None:
    tf.raw_ops.ResourceScatterAdd(resource=table.handle, indices=[row], updates=values[None])
