"""The elastic loop on a DTensor mesh. Layouts divide variables and batches, and every process runs the same steps.

A checkpoint has all parts: each process gathers the variables into copies in its main memory, and the chief writes its
copies. After a restart every process reads the whole checkpoint, and spreads it over the mesh.
"""

from typing import Any

import tensorflow as tf
from tensorflow.experimental import dtensor

from trainyard.runtime.checkpoints import Checkpoints, variables_of
from trainyard.runtime.data import Examples, Share
from trainyard.runtime.loops.elastic import Elastic
from trainyard.runtime.models import for_training, state_of
from trainyard.runtime.plan import Resumed
from trainyard.runtime.processes.meshing import BATCH, Meshed, read


class OnMesh(Elastic):
    """Trains `model` with `optimizer`, whose variables are on the mesh."""

    _cluster: Meshed

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        size, parts = self._plan.global_batch_size, self._cluster.mesh.dim_size(BATCH)
        if size % parts:
            raise SystemExit(f"the global batch size {size} cannot be divided by batch={parts} of the mesh")
        self._tracked = tf.train.Checkpoint(optimizer=self._optimizer, **state_of(self._model))
        self._copies: list[Any] = []

    def _batches(self, examples: Examples, first_step: int, per_epoch: int) -> Any:
        """Return the global batches, which every process reads as a whole."""
        share = Share.of_all_data(self._plan.global_batch_size, replicas=range(1), of=1)
        return examples.batches(share, seed=self._plan.seed, first_step=first_step, per_epoch=per_epoch)

    def _resume(self, per_epoch: int) -> Resumed | None:
        if hasattr(self._optimizer, "build"):  # creates the state of a Keras optimizer
            self._optimizer.build(self._model.trainable_variables)
        with tf.device("CPU:0"):
            self._copies = [tf.Variable(self._cluster.whole(each)) for each in variables_of(self._tracked)]
        self._checkpoints = Checkpoints.of(self._cluster, self._environment, variables=self._copies)
        resumed = super()._resume(per_epoch)
        if resumed:
            for variable, copy in zip(variables_of(self._tracked), self._copies, strict=True):
                variable.assign(self._cluster.spread(copy.read_value(), variable.layout))
        return resumed

    def _save(self, step: int, per_epoch: int) -> None:
        for variable, copy in zip(variables_of(self._tracked), self._copies, strict=True):
            copy.assign(self._cluster.whole(variable))
        super()._save(step, per_epoch)

    def _reduce_step(self, batch: Any, votes: Any) -> Any:
        features, labels = (self._cluster.pack_batch(part) for part in batch)
        gradients, sums = self._mesh_gradients(features, labels, self._cluster.pack_row(votes))
        self._apply(gradients)
        return read(sums)

    @tf.function(reduce_retracing=True)
    def _mesh_gradients(self, features: Any, labels: Any, votes: Any) -> tuple[list[Any], Any]:
        """Return the gradients, and an array of the sum of losses, the number of correct examples, and the votes."""
        with tf.GradientTape() as tape:
            outputs = for_training(self._model)(features)
            losses = self._losses(labels, outputs)
            scaled = tf.reduce_sum(losses) / self._plan.global_batch_size
        variables = self._model.trainable_variables
        gradients = [
            dtensor.relayout(gradient, variable.layout)
            for gradient, variable in zip(tape.gradient(scaled, variables), variables, strict=True)
        ]
        right = tf.reduce_sum(self._is_right(labels, outputs))
        sums = tf.concat(
            [tf.stack([tf.reduce_sum(losses), right]), tf.reduce_sum(votes, axis=[0, 1])], axis=0
        )
        return gradients, self._cluster.replicated(sums, 1)

    @tf.function(reduce_retracing=True)
    def _apply(self, gradients: Any) -> None:
        """Apply the gradients in a function of its own.

        In one function, TensorFlow 2.21 moves a gradient's all-reduce past the addition of the momentum, and loses it.
        """
        variables = self._model.trainable_variables
        self._optimizer.apply_gradients(zip(gradients, variables, strict=True))
