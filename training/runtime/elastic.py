"""The elastic loop: the same batches and the same weights, whoever comes and goes between the attempts.

Rules that make a restarted run equal to an uninterrupted one:
- the batch size is global; a worker's share follows from how many workers there are;
- the order of the data is a function of seed, epoch and step (data.py);
- every step carries the wishes of all workers along in one all-reduce: that somebody was told to leave, that the
  chief's clock asks for a checkpoint. So all save and all leave at the same step;
- when a peer is gone, everybody leaves at once with the code that means "start me again".
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from training.runtime.checkpoints import Checkpoints
from training.runtime.cluster import Cluster
from training.runtime.data import Records
from training.runtime.environment import Environment
from training.runtime.leaving import RESTART, leave
from training.runtime.metrics import History, Reporter

CHECKPOINT_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`checkpoint_every` steps, or `checkpoint_seconds` by the chief's clock, whichever comes first."""

    epochs: int
    global_batch_size: int
    seed: int
    checkpoint_every: int = 0
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    step_delay: float = 0.0

    def is_due(self, step: int) -> bool:
        return self.checkpoint_every > 0 and step % self.checkpoint_every == 0


@dataclass(frozen=True, slots=True)
class Trained:
    step: int
    steps: int
    history: list[dict[str, float]]


@dataclass(frozen=True, slots=True)
class StepFacts:
    """What all workers learned together in one step."""

    loss: float
    accuracy: float
    somebody_leaves: bool
    chief_wants_checkpoint: bool


class Elastic:
    """Trains `model` with `optimizer`, both made inside the cluster's strategy scope.

    `losses(labels, outputs)` answers one loss an example, `is_right(labels, outputs)` one 0/1 an example.
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
        self._checkpoints = Checkpoints.of(
            environment.checkpoints, cluster, tidy=not environment.hosted, model=model, optimizer=optimizer
        )

    def train(self, records: Records) -> Trained:
        """To the last step, from wherever the latest checkpoint is. Does not return when the workers must leave."""
        per_epoch = records.steps_per_epoch(self._plan.global_batch_size)
        steps = per_epoch * self._plan.epochs
        step = self._resume()
        tensorboard = self._environment.tensorboard if self._cluster.is_chief else None
        reporter = Reporter.of(self._environment.progress, tensorboard, steps=steps, per_epoch=per_epoch)
        batches = iter(self._batches(records, step))
        while step < steps:
            facts = self._one_step(next(batches))
            step += 1
            self._history.add(facts.loss, facts.accuracy)
            reporter.say(step, facts.loss, facts.accuracy)
            if step % per_epoch == 0:
                closed = self._history.close_epoch(step // per_epoch)
                reporter.add_scalars(step, epoch__loss=closed["loss"], epoch__accuracy=closed["accuracy"])
            last = step == steps
            if last or facts.somebody_leaves or facts.chief_wants_checkpoint or self._plan.is_due(step):
                self._save(step)
            if facts.somebody_leaves and not last:
                self._cluster.all_arrived()
                leave(RESTART, f"leaving at step {step} of {steps}, which is saved, to be started again")
            if self._plan.step_delay:
                time.sleep(self._plan.step_delay)
        return Trained(step, steps, self._history.epochs)

    def _resume(self) -> int:
        """The step to go on from. A checkpoint of another seed or batch size would not be this run's."""
        with self._cluster.strategy.scope():
            self._optimizer.build(self._model.trainable_variables)
        saved = self._checkpoints.restore()
        if saved is None:
            print("starting at step 0", flush=True)
            return 0
        for name in ("seed", "global_batch_size"):
            if saved[name] != getattr(self._plan, name):
                raise SystemExit(
                    f"the checkpoint was made with {name} {saved[name]}, this program was started with "
                    f"{getattr(self._plan, name)}: a run cannot change it on the way"
                )
        self._history = History(**saved["history"])
        step = int(saved["step"])
        print(f"resumed from step {step}", flush=True)
        return step

    def _save(self, step: int) -> None:
        self._checkpoints.save(
            step,
            {
                "step": step,
                "seed": self._plan.seed,
                "global_batch_size": self._plan.global_batch_size,
                "history": self._history.to_json(),
            },
        )
        self._saved_at = time.monotonic()

    def _batches(self, records: Records, first_step: int) -> Any:
        def of_pipeline(context: tf.distribute.InputContext) -> Any:
            here = context.num_replicas_in_sync // context.num_input_pipelines
            first = context.input_pipeline_id * here
            return records.shares(
                seed=self._plan.seed,
                global_batch_size=self._plan.global_batch_size,
                first_step=first_step,
                epochs=self._plan.epochs,
                replicas=range(first, first + here),
                of=context.num_replicas_in_sync,
            )

        return self._cluster.strategy.distribute_datasets_from_function(of_pipeline)

    def _one_step(self, batch: Any) -> StepFacts:
        clock = self._cluster.is_chief and time.monotonic() - self._saved_at >= self._plan.checkpoint_seconds
        wishes = tf.constant([float(self._cluster.asked_to_leave), float(clock)])
        loss, right, leaves, checkpoint = self._train_step(batch, wishes).numpy().tolist()
        size = self._plan.global_batch_size
        return StepFacts(loss / size, right / size, leaves > 0, checkpoint > 0)

    @tf.function(reduce_retracing=True)
    def _train_step(self, batch: Any, wishes: Any) -> Any:
        """One global step. Sum of losses, number right, and everybody's wishes, reduced over all replicas at once."""

        def on_replica(batch: Any, wishes: Any) -> Any:
            features, labels = batch
            with tf.GradientTape() as tape:
                outputs = self._model(features, training=True)
                losses = self._losses(labels, outputs)
                # The sum over all replicas is the mean over the global batch, however uneven the shares are.
                scaled = tf.reduce_sum(losses) / self._plan.global_batch_size
            variables = self._model.trainable_variables
            self._optimizer.apply(tape.gradient(scaled, variables), variables)
            right = tf.reduce_sum(self._is_right(labels, outputs))
            told = tf.concat([tf.stack([tf.reduce_sum(losses), right]), wishes], axis=0)
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, told)

        reduced = self._cluster.strategy.run(on_replica, args=(batch, wishes))
        return self._cluster.strategy.experimental_local_results(reduced)[0]
