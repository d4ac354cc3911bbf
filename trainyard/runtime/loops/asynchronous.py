"""The asynchronous loop: parameter servers hold the parameters; workers fetch, compute and push at their own pace.

A step is one push: the gradients of one worker's batch of `global_batch_size` / workers examples. In an epoch, the
workers together see as many examples as the data set has. Each worker has its own order (seed + worker), and a fast
worker gets further than a slow one, so no two runs are equal.

The chief keeps the workers busy, reads the statistics (step_statistics.py), and saves while the workers are idle. If a
worker is gone, the chief saves and exits for a restart. If a parameter server is gone or a process hangs, nothing can
be saved: the chief exits at once, and the next attempt continues from the last checkpoint.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import keras
import tensorflow as tf

from trainyard.protocol.processes import RESTART
from trainyard.runtime.checkpoints import Checkpoints
from trainyard.runtime.data import Examples, Share
from trainyard.runtime.environment import Environment
from trainyard.runtime.loops.step_statistics import Snapshot, StepStatistics, worker_here
from trainyard.runtime.metrics import Reporter
from trainyard.runtime.models import for_training
from trainyard.runtime.plan import Plan, Resumed, Trained
from trainyard.runtime.processes.cluster import Cluster
from trainyard.runtime.processes.exiting import leave
from trainyard.runtime.processes.watch import Watch, WorkerProgress
from trainyard.runtime.worker_local import SharedExamples, WorkerLocalExamples, by_worker

LOOK_SECONDS = 0.02
AHEAD_SECONDS = 0.3
"""Seconds of work that are scheduled ahead: enough to keep the workers busy, and little enough to stop soon."""
DRAIN_SECONDS = 45.0


class Turn(Protocol):
    """A unit of work of a worker: it takes `batches` batches and pushes `pushes` times."""

    @property
    def batches(self) -> int: ...

    @property
    def pushes(self) -> int: ...

    def __call__(self, batches: Sequence[Any], statistics: StepStatistics) -> None:
        """Run in the worker's graph on batches of (features, labels), and count every push in the statistics."""


@dataclass(frozen=True, slots=True)
class OneBatch:
    """The turn that fetches the parameters, computes the gradients of one batch, and pushes them.

    `losses(labels, outputs)` returns one loss for each example, `is_right(labels, outputs)` returns 0 or 1 for each.
    """

    model: Any
    optimizer: Any
    losses: Callable[[Any, Any], Any]
    is_right: Callable[[Any, Any], Any]
    batches: int = 1
    pushes: int = 1

    def __call__(self, batches: Sequence[Any], statistics: StepStatistics) -> None:
        ((features, labels),) = batches
        fetched_at = statistics.step.read_value()
        with tf.control_dependencies([fetched_at]), tf.GradientTape() as tape:
            outputs = for_training(self.model)(features)
            loss = tf.reduce_mean(self.losses(labels, outputs))
        variables = self.model.trainable_variables
        gradients = tape.gradient(loss, variables)
        self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        accuracy = tf.reduce_mean(self.is_right(labels, outputs))
        statistics.add_push(gradients, fetched_at=fetched_at, loss=loss, accuracy=accuracy)


class Work:
    """The scheduler of the workers. Each worker creates `dataset_of(worker)`; `done` steps were trained before."""

    def __init__(
        self,
        strategy: Any,
        statistics: StepStatistics,
        turn: Turn,
        dataset_of: Callable[[Any], Any],
        *,
        done: int,
    ) -> None:
        self._strategy = strategy
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        self._datasets = iter(self._coordinator.create_per_worker_dataset(lambda: dataset_of(worker_here())))
        self._statistics = statistics
        self._turn = turn
        self._scheduled = done

    def schedule(self, until: int, *, delay: float) -> None:
        """Schedule turns up to this step."""
        if self._coordinator.done():
            self._scheduled = self._statistics.read().step
        while self._scheduled < until:
            self._coordinator.schedule(self._one_turn, args=(self._datasets,))
            self._scheduled += self._turn.pushes
            time.sleep(delay)

    def stop(self) -> Snapshot:
        """Wait until the scheduled work is done, for at most DRAIN_SECONDS, and return the statistics.

        Raises the errors of workers and parameter servers.
        """
        end = time.monotonic() + DRAIN_SECONDS
        while not self._coordinator.done() and time.monotonic() < end:
            time.sleep(LOOK_SECONDS)
        if self._coordinator.done():
            self._coordinator.join()
        snapshot = self._statistics.read()
        self._scheduled = snapshot.step
        return snapshot

    @tf.function
    def _one_turn(self, dataset: Any) -> None:
        batches = tuple(next(dataset) for _ in range(self._turn.batches))
        self._strategy.run(self._turn, args=(batches, self._statistics))
        self._statistics.add_turn()


class Asynchronous:
    """Trains `model` with `optimizer`, both created in the scope of the cluster's strategy.

    `turn` is the unit of work of a worker. Raises SystemExit for combinations that cannot be trained asynchronously.
    """

    def __init__(
        self,
        cluster: Cluster,
        environment: Environment,
        plan: Plan,
        *,
        model: Any,
        optimizer: Any,
        turn: Turn,
    ) -> None:
        refuse_what_cannot_work(optimizer, plan, cluster.workers, cluster.strategy.num_replicas_in_sync)
        self._cluster = cluster
        self._environment = environment
        self._plan = plan
        self._model = model
        self._optimizer = optimizer
        self._turn = turn
        self._checkpoints = Checkpoints.of(self._cluster, self._environment, model=model, optimizer=optimizer)
        self._saved_at = time.monotonic()
        self._saved_step = 0

    def train(self, examples: Examples) -> Trained:
        """Train from the latest checkpoint to the last step. Never return if the chief must stop."""
        share = self._plan.global_batch_size // self._cluster.workers
        examples_of = by_worker(self._environment, examples, self._cluster.workers, batch=share)
        per_epoch = steps_per_epoch(examples_of.count, share, self._turn)
        steps = per_epoch * self._plan.epochs
        with self._cluster.strategy.scope():
            if hasattr(self._optimizer, "build"):  # creates the state of a Keras optimizer
                self._optimizer.build(self._model.trainable_variables)
            statistics = StepStatistics(
                epochs=self._plan.epochs, per_epoch=per_epoch, workers=self._cluster.workers
            )
        with Watch(vital=self._addresses("ps"), helpers=self._addresses("worker")) as watch:
            resumed = self._resume(statistics, per_epoch)
            snapshot = statistics.read()
            dataset_of = self._datasets(examples_of, share, turns_before=snapshot.turns)
            work = Work(self._cluster.strategy, statistics, self._turn, dataset_of, done=snapshot.step)
            reporter = Reporter(
                self._environment,
                self._plan,
                steps=steps,
                per_epoch=per_epoch,
                is_chief=True,
                resumed=resumed,
            )
            snapshot = self._go_on(
                snapshot, statistics, work, watch, reporter, steps=steps, per_epoch=per_epoch
            )
        return Trained(snapshot.step, steps, snapshot.history(per_epoch))

    def _resume(self, statistics: StepStatistics, per_epoch: int) -> Resumed | None:
        resumed, saved = self._checkpoints.resume(self._plan, per_epoch)
        if resumed:
            statistics.restore(saved["statistics"])
            self._saved_step = resumed.step
        return resumed

    def _datasets(
        self, examples_of: SharedExamples | WorkerLocalExamples, share: int, turns_before: Sequence[int]
    ) -> Callable[[Any], Any]:
        """Return a function for the endless data set of a worker, which continues at its position."""
        batches_before = tf.constant(turns_before, tf.int64) * self._turn.batches

        def dataset_of(worker: Any) -> Any:
            examples = examples_of.of(worker)
            return examples.batches(
                Share.of_all_data(share, replicas=range(1), of=1),
                seed=self._plan.seed + worker,
                first_step=batches_before[worker],
                per_epoch=examples.count // share,
            )

        return dataset_of

    def _go_on(
        self,
        snapshot: Snapshot,
        statistics: StepStatistics,
        work: Work,
        watch: Watch,
        reporter: Reporter,
        *,
        steps: int,
        per_epoch: int,
    ) -> Snapshot:
        worker_progress = WorkerProgress(snapshot.turns, time.monotonic())
        while snapshot.step < steps:
            work.schedule(
                min(snapshot.step + self._ahead(worker_progress), steps), delay=self._plan.step_delay
            )
            time.sleep(LOOK_SECONDS)
            snapshot = self._report(snapshot, statistics.read(), reporter, per_epoch)
            worker_progress.see(snapshot.turns, time.monotonic())
            watch.saw(snapshot.step, patience=worker_progress.patience(time.monotonic()))
            self._leave_if_one_hangs(worker_progress)
            why = self._why_to_leave(watch)
            if why or self._is_due(snapshot.step):
                snapshot = self._report(snapshot, work.stop(), reporter, per_epoch)
                self._save(snapshot, per_epoch)
            if why and snapshot.step < steps:
                leave(
                    RESTART,
                    f"{why}: step {snapshot.step} of {steps} is saved; stopping for a restart",
                )
        snapshot = work.stop()
        self._save(snapshot, per_epoch)
        return snapshot

    def _report(self, before: Snapshot, now: Snapshot, reporter: Reporter, per_epoch: int) -> Snapshot:
        """Report the steps between two snapshots, with the means of loss and accuracy."""
        if now.step > before.step:
            loss, accuracy = now.since(before)
            for step in range(before.step + 1, now.step + 1):
                reporter.say(step, loss, accuracy, **now.staleness)
            for closed in now.history(per_epoch)[before.step // per_epoch :]:
                scalars = {name: value for name, value in closed.items() if name != "epoch"}
                at = int(closed["epoch"]) * per_epoch
                reporter.add_scalars(at, **{f"epoch/{name}": value for name, value in scalars.items()})
        return now

    def _ahead(self, worker_progress: WorkerProgress) -> int:
        """Return the number of steps to schedule ahead: two turns for every worker, or AHEAD_SECONDS of work."""
        turns = max(
            2 * self._cluster.workers, int(worker_progress.turns_per_second(time.monotonic()) * AHEAD_SECONDS)
        )
        return turns * self._turn.pushes

    def _leave_if_one_hangs(self, worker_progress: WorkerProgress) -> None:
        """Stop without a checkpoint: TensorFlow would wait for a connected worker that does not answer."""
        hanging = worker_progress.hanging(time.monotonic())
        if hanging:
            named = ", ".join(map(str, hanging))
            leave(
                RESTART,
                f"worker {named} hangs: it has finished no step for too long; stopping for a restart from the "
                f"checkpoint of step {self._saved_step}",
            )

    def _why_to_leave(self, watch: Watch) -> str:
        if self._cluster.asked_to_leave:
            return "stopping on request"
        return f"a peer is gone (no answer from {watch.gone})" if watch.gone else ""

    def _is_due(self, step: int) -> bool:
        every, clock = self._plan.checkpoint_every, time.monotonic() - self._saved_at
        by_steps = every > 0 and step // every > self._saved_step // every
        return by_steps or (clock >= self._plan.checkpoint_seconds and step > self._saved_step)

    def _save(self, snapshot: Snapshot, per_epoch: int) -> None:
        self._checkpoints.save(
            snapshot.step,
            {**self._plan.metadata_at(snapshot.step, per_epoch), "statistics": snapshot.to_json()},
        )
        self._saved_at, self._saved_step = time.monotonic(), snapshot.step

    def _addresses(self, role: str) -> dict[str, str]:
        return {
            address: f"{role} {index} at {address}"
            for index, address in enumerate(self._cluster.place.members[role])
        }


def steps_per_epoch(examples: int, share: int, turn: Turn) -> int:
    """Return the steps of an epoch in whole turns of a worker. Raises SystemExit if an epoch has none."""
    turns = examples // (share * turn.batches)
    if not turns:
        raise SystemExit(
            f"one turn of a worker takes {share * turn.batches} examples, but only {examples} exist: "
            "reduce the global batch size"
        )
    return turns * turn.pushes


def refuse_what_cannot_work(optimizer: Any, plan: Plan, workers: int, replicas: int) -> None:
    if isinstance(optimizer, keras.optimizers.Optimizer):
        raise SystemExit(
            "optimizers of Keras 3 lose counts if several workers push at once: "
            f"use tf_keras.optimizers.{type(optimizer).__name__}"
        )
    if plan.global_batch_size < workers:
        raise SystemExit(
            f"the global batch size {plan.global_batch_size} is smaller than the number of workers, {workers}: "
            "increase it"
        )
    if replicas > 1:
        raise SystemExit(
            f"each worker has {replicas} GPUs, but an asynchronous worker uses only one: "
            "choose types with one GPU in hardware.instance_types, and more workers"
        )
