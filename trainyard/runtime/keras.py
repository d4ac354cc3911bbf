"""Keras `fit` that continues at the step of its interruption.

    steps = runtime.steps_per_epoch(train, global_batch_size=64)
    resumable = Resumable(runtime, model, steps_per_epoch=steps, global_batch_size=64)
    model.fit(resumable.batches_of(train), epochs=5, steps_per_epoch=steps, callbacks=[resumable])

It supports `tf_keras` models with every strategy except parameter_server, and Keras 3 models on one host.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from trainyard.protocol.processes import RESTART
from trainyard.runtime.checkpoints import Checkpoints
from trainyard.runtime.data import Examples
from trainyard.runtime.loops.feeding import distribute
from trainyard.runtime.metrics import Reporter
from trainyard.runtime.models import state_of
from trainyard.runtime.plan import Resumed
from trainyard.runtime.processes.exiting import leave
from trainyard.runtime.session import Runtime


class Resumable(keras.callbacks.Callback):
    """Saves model, optimizer and position in the data, and restores the latest checkpoint when it is created.

    It saves every few steps, by time, when a worker must stop, and at the end. Every worker has one. The model must be
    compiled and built. `steps_per_epoch` must equal the argument of `fit`. After a restore, `fit` starts at the next
    step, and Keras' metrics of the interrupted epoch cover only the steps since. Pass it as the last callback, so that
    it sees the decisions of the others.
    """

    def __init__(
        self,
        runtime: Runtime,
        model: Any,
        *,
        steps_per_epoch: int,
        global_batch_size: int,
        seed: int = 1,
        checkpoint_every: int | None = None,
    ) -> None:
        super().__init__()
        self._is_keras_3 = isinstance(model, keras.Model)
        refuse_what_cannot_work(runtime, is_keras_3=self._is_keras_3, is_built=model.built)
        self._runtime = runtime
        self._plan = runtime.plan(
            epochs=0, global_batch_size=global_batch_size, seed=seed, checkpoint_every=checkpoint_every
        )
        self._per_epoch = steps_per_epoch
        with runtime.strategy.scope():
            model.optimizer.build(model.trainable_variables)
        self._checkpoints = Checkpoints.of(
            runtime.cluster,
            runtime.environment,
            optimizer=model.optimizer,
            **state_of(model),
        )
        self.history: list[dict[str, float]] = []
        self._finished = False
        self._resumed = self._restore()
        self.step = self._resumed.step if self._resumed else 0
        self._epoch = 0
        self._steps = 0
        self._reporter: Reporter | None = None
        self._saved_at = time.monotonic()

    def batches_of(self, examples: Examples) -> Any:
        """Return an endless distributed data set of the remaining examples, in their reproducible order."""
        return distribute(
            self._runtime.cluster,
            self._runtime.environment,
            examples,
            global_batch_size=self._plan.global_batch_size,
            seed=self._plan.seed,
            first_step=self.step,
            per_epoch=self._per_epoch,
        )

    def rest_of(self, dataset: Any) -> Any:
        """Return the rest of a data set of global batches, repeated without end.

        The data set must have the same order every time it is built. Batches that were trained before are read and
        skipped. Each worker takes its part of every batch.
        """
        options = tf.data.Options()
        options.deterministic = True
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
        endless = dataset.cardinality() == tf.data.INFINITE_CARDINALITY
        return (dataset if endless else dataset.repeat()).skip(self.step).with_options(options)

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Set the epoch and step at which `fit` starts."""
        if self.params["steps"] != self._per_epoch:
            raise SystemExit(
                f"fit has {self.params['steps']} steps per epoch, but Resumable has {self._per_epoch}: "
                "pass the same steps_per_epoch to both"
            )
        self._steps = self.params["epochs"] * self._per_epoch
        self._reporter = Reporter(
            self._runtime.environment,
            self._plan,
            steps=self._steps,
            per_epoch=self._per_epoch,
            is_chief=self._runtime.is_chief,
            resumed=self._resumed,
        )
        epoch, batch = divmod(self.step, self._per_epoch)
        begin = _Begin(self.params["epochs"], 0) if self._finished else _Begin(epoch, batch)
        (begin_keras_3 if self._is_keras_3 else begin_tf_keras)(self.model, begin)

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Record the epoch, which Keras counts from 0."""
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Report a step. The last step of an epoch is saved in `on_epoch_end`, after its sums are closed."""
        step = self._epoch * self._per_epoch + batch + 1
        if step <= self.step:  # skipped: it was trained before the restart
            return
        self.step = step
        assert self._reporter
        # tf_keras adds up the metrics of all replicas.
        of = 1 if self._is_keras_3 else self._runtime.strategy.num_replicas_in_sync
        self._reporter.report(step, {name: float(value) / of for name, value in (logs or {}).items()})
        if step % self._per_epoch:
            self._agree()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Record the means of an epoch, including its validation."""
        means = {name: float(value) for name, value in (logs or {}).items()}
        self.history.append({"epoch": epoch + 1, **means})
        assert self._reporter
        self._reporter.report_epoch(self.step, epoch + 1, means)
        if self.step < self._steps and not self.model.stop_training:
            self._agree()

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Save the end of `fit`, so that a restart trains nothing."""
        if not self._finished:
            self._finished = True
            self._save()

    def _agree(self) -> None:
        """Save, and stop, if any worker must. All workers learn it at the same step."""
        clock = time.monotonic() - self._saved_at >= self._plan.checkpoint_seconds
        leaves = self._runtime.cluster.must_leave()
        votes = self._runtime.cluster.gather(2 * leaves + (clock and self._runtime.is_chief))
        if any(votes) or self._plan.is_due(self.step):
            self._save()
        if any(vote >= 2 for vote in votes):
            self._runtime.cluster.end_together()
            leave(RESTART, f"step {self.step} of {self._steps} is saved; stopping for a restart")

    def _save(self) -> None:
        metadata = self._plan.metadata_at(self.step, self._per_epoch)
        self._checkpoints.save(self.step, metadata | {"history": self.history, "finished": self._finished})
        self._saved_at = time.monotonic()

    def _restore(self) -> Resumed | None:
        resumed, saved = self._checkpoints.resume(self._plan, self._per_epoch)
        if resumed:
            self.history = saved["history"]
            self._finished = saved["finished"]
        return resumed

    def _implements_train_batch_hooks(self) -> bool:
        """Tell tf_keras which hooks this callback implements."""
        return True

    def _implements_test_batch_hooks(self) -> bool:
        return False

    def _implements_predict_batch_hooks(self) -> bool:
        return False


def refuse_what_cannot_work(runtime: Runtime, *, is_keras_3: bool, is_built: bool) -> None:
    """Raise SystemExit with an alternative if `fit` cannot be resumed."""
    kind = runtime.cluster.kind
    if kind.is_asynchronous:
        raise SystemExit("Keras fit cannot be resumed with parameter servers: use runtime.loop(...)")
    if is_keras_3 and kind.trains_in_step:
        raise SystemExit(
            "Keras 3 fit does not work on several hosts (TensorFlow's MultiWorkerMirroredStrategy): build the model "
            "with tf_keras instead of keras or tf.keras, or train it with runtime.loop(...)"
        )
    if not is_built:
        raise SystemExit(
            "the model has no variables yet, so nothing can be restored: add an Input layer or call "
            "model.build(input_shape) before Resumable(...)"
        )


@dataclass(frozen=True, slots=True)
class _Begin:
    """The position at which `fit` starts, counted from 0."""

    epoch: int
    batch: int

    def maybe_load_initial_counters_from_ckpt(
        self, steps_per_epoch: int, initial_epoch: int, mode: str
    ) -> tuple[int, int]:
        """Return the position to tf_keras, which asks as it asks its own BackupAndRestore."""
        return self.epoch, self.batch


def begin_tf_keras(model: Any, begin: _Begin) -> None:
    """Take the place of tf_keras' BackupAndRestore, which is asked once after `on_train_begin`."""
    model._training_state = begin  # noqa: SLF001


def begin_keras_3(model: Any, begin: _Begin) -> None:
    """Set the first epoch as Keras' BackupAndRestore does, and skip the finished steps one by one.

    Keras 3 starts every epoch at its first step.
    """
    model._initial_epoch = begin.epoch  # noqa: SLF001
    if begin.batch:
        model.train_function = _skip_steps(begin.batch, model)


def _skip_steps(count: int, model: Any) -> Callable[[Any], Mapping[str, Any]]:
    """Return a train function that does nothing `count` times and then restores the real one."""
    real, passed = model.train_function, 0

    def step(iterator: Any) -> Mapping[str, Any]:
        nonlocal passed
        passed += 1
        if passed == count:
            model.train_function = real
        return {}

    return step
