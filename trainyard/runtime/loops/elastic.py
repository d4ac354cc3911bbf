"""The elastic loop: the batches and the weights stay the same if workers join or leave between attempts.

Four rules make a restarted run equal to an uninterrupted one:
- The batch size is global. A worker's share follows from the number of workers.
- The order of the data is a function of seed, epoch and step (data.py).
- One all-reduce in every step carries two votes of each worker: it must stop, or the chief's clock requires a
  checkpoint. So all workers save and stop at the same step.
- If a peer is gone, every process exits at once with the code that requests a restart.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from trainyard.protocol.processes import RESTART
from trainyard.runtime.checkpoints import Checkpoints
from trainyard.runtime.data import Examples
from trainyard.runtime.environment import Environment
from trainyard.runtime.loops.feeding import HELD, distribute, steps_per_epoch
from trainyard.runtime.metrics import History, Reporter
from trainyard.runtime.models import for_training, state_of
from trainyard.runtime.plan import Plan, Resumed, Trained
from trainyard.runtime.processes.cluster import Cluster
from trainyard.runtime.processes.exiting import leave


@dataclass(frozen=True, slots=True)
class StepResults:
    """The results and votes of all workers in one step."""

    loss: float
    accuracy: float
    stop_requested: bool
    checkpoint_requested: bool


class Elastic:
    """Trains `model` with `optimizer` in step on all replicas. Both must be created in the strategy's scope.

    `losses(labels, outputs)` returns one loss for each example, and `is_right(labels, outputs)` returns 0 or 1 for
    each. `optimizer.apply_gradients` must add up the replicas' gradients, as every Keras optimizer does.
    """

    def __init__(
        self,
        cluster: Cluster,
        environment: Environment,
        plan: Plan,
        *,
        model: Any,
        optimizer: Any,
        losses: Callable[[Any, Any], Any],
        is_right: Callable[[Any, Any], Any],
    ) -> None:
        self._cluster = cluster
        self._environment = environment
        self._plan = plan
        self._model = model
        self._optimizer = optimizer
        self._losses = losses
        self._is_right = is_right
        self._history = History()
        self._saved_at = time.monotonic()
        self._checkpoints = Checkpoints.of(cluster, environment, optimizer=optimizer, **state_of(model))

    def train(self, examples: Examples) -> Trained:
        """Train from the latest checkpoint to the last step. Never return if the workers must stop."""
        per_epoch = steps_per_epoch(self._cluster, self._environment, examples, self._plan.global_batch_size)
        steps = per_epoch * self._plan.epochs
        resumed = self._resume(per_epoch)
        step = resumed.step if resumed else 0
        reporter = Reporter(
            self._environment,
            self._plan,
            steps=steps,
            per_epoch=per_epoch,
            is_chief=self._cluster.is_chief,
            resumed=resumed,
        )
        batches = iter(self._batches(examples, step, per_epoch))
        HELD.append(batches)
        while step < steps:
            result = self._one_step(next(batches))
            step += 1
            self._history.add(result.loss, result.accuracy)
            reporter.say(step, result.loss, result.accuracy)
            if step % per_epoch == 0:
                closed = self._history.close_epoch(step // per_epoch)
                reporter.add_scalars(step, **{f"epoch/{name}": closed[name] for name in ("loss", "accuracy")})
            last = step == steps
            if last or result.stop_requested or result.checkpoint_requested or self._plan.is_due(step):
                self._save(step, per_epoch)
            if result.stop_requested and not last:
                self._cluster.end_together()
                leave(RESTART, f"step {step} of {steps} is saved; stopping for a restart")
            if self._plan.step_delay:
                time.sleep(self._plan.step_delay)
        return Trained(step, steps, self._history.epochs)

    def _batches(self, examples: Examples, first_step: int, per_epoch: int) -> Any:
        """Return an endless data set of this process's parts of the global batches."""
        return distribute(
            self._cluster,
            self._environment,
            examples,
            global_batch_size=self._plan.global_batch_size,
            seed=self._plan.seed,
            first_step=first_step,
            per_epoch=per_epoch,
        )

    def _resume(self, per_epoch: int) -> Resumed | None:
        with self._cluster.strategy.scope():
            if hasattr(self._optimizer, "build"):  # creates the state of a Keras optimizer
                self._optimizer.build(self._model.trainable_variables)
        resumed, saved = self._checkpoints.resume(self._plan, per_epoch)
        if resumed:
            self._history = History(**saved["history"])
        return resumed

    def _save(self, step: int, per_epoch: int) -> None:
        metadata = self._plan.metadata_at(step, per_epoch)
        self._checkpoints.save(step, metadata | {"history": self._history.to_json()})
        self._saved_at = time.monotonic()

    def _one_step(self, batch: Any) -> StepResults:
        clock = self._cluster.is_chief and time.monotonic() - self._saved_at >= self._plan.checkpoint_seconds
        votes = tf.constant([float(self._cluster.must_leave()), float(clock)])
        loss, right, leaves, checkpoint = self._reduce_step(batch, votes).tolist()
        size = self._plan.global_batch_size
        return StepResults(loss / size, right / size, leaves > 0, checkpoint > 0)

    def _reduce_step(self, batch: Any, votes: Any) -> Any:
        """Train one global step. Return an array: the sum of losses, the number of correct examples, and the votes."""
        return self._train_step(batch, votes).numpy()

    @tf.function(reduce_retracing=True)
    def _train_step(self, batch: Any, votes: Any) -> Any:

        def on_replica(batch: Any, votes: Any) -> Any:
            features, labels = batch
            with tf.GradientTape() as tape:
                outputs = for_training(self._model)(features)
                losses = self._losses(labels, outputs)
                # The sum over all replicas is the mean over the global batch, however uneven the shares are.
                scaled = tf.reduce_sum(losses) / self._plan.global_batch_size
            variables = self._model.trainable_variables
            self._optimizer.apply_gradients(zip(tape.gradient(scaled, variables), variables, strict=True))
            right = tf.reduce_sum(self._is_right(labels, outputs))
            summed = tf.concat([tf.stack([tf.reduce_sum(losses), right]), votes], axis=0)
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, summed)

        reduced = self._cluster.strategy.run(on_replica, args=(batch, votes))
        return self._cluster.strategy.experimental_local_results(reduced)[0]
