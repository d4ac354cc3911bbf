"""The training session that `trainyard.runtime.start()` returns."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from trainyard.runtime import export, metrics
from trainyard.runtime.data import Examples
from trainyard.runtime.environment import Environment
from trainyard.runtime.export import Signature
from trainyard.runtime.loops import feeding
from trainyard.runtime.loops.asynchronous import Asynchronous, OneBatch
from trainyard.runtime.loops.elastic import Elastic
from trainyard.runtime.plan import Plan, Step
from trainyard.runtime.processes.cluster import Cluster, join
from trainyard.runtime.processes.exiting import FINISHED, leave
from trainyard.runtime.processes.forming import gpus


def start(*, deterministic: bool | None = None, seed: int = 1) -> "Runtime":
    """Form the cluster and create its strategy. Call it before all other TensorFlow code.

    On a parameter server and on its workers, it serves the chief and never returns. By default, `deterministic`
    operations are on without a GPU. `seed` applies to Python, NumPy and TensorFlow.
    """
    set_seeds(deterministic=deterministic, seed=seed)
    environment = Environment.from_os()
    return Runtime(join(environment), environment)


def set_seeds(*, deterministic: bool | None, seed: int) -> None:
    """Set the seeds of Python, NumPy and TensorFlow, and choose deterministic operations."""
    random.seed(seed)
    np.random.seed(seed)
    tf.random.set_seed(seed)
    if deterministic if deterministic is not None else not gpus():
        tf.config.experimental.enable_op_determinism()


@dataclass(frozen=True, slots=True)
class Runtime:
    """The cluster, and the settings that the host passed to this program."""

    cluster: Cluster
    environment: Environment

    @property
    def strategy(self) -> Any:
        return self.cluster.strategy

    @property
    def is_chief(self) -> bool:
        """Return True on the process that saves, reports and exports."""
        return self.cluster.is_chief

    @property
    def is_evaluator(self) -> bool:
        return self.cluster.place.role == "evaluator"

    @property
    def workers(self) -> int:
        """Return the number of processes that compute gradients."""
        return self.cluster.workers

    def data(self, name: str) -> Path:
        """Return the folder of the data entry `name`. Raises SystemExit if the job has no such entry."""
        return self.environment.data_folder(name)

    def loop(
        self,
        *,
        model: Any,
        optimizer: Any,
        losses: Callable[[Any, Any], Any],
        is_right: Callable[[Any, Any], Any],
        epochs: int,
        global_batch_size: int,
        seed: int = 1,
        checkpoint_every: int | None = None,
        step_delay: float = 0.0,
        each_step: Callable[[Step], None] | None = None,
    ) -> Elastic | Asynchronous:
        """Return the training loop of this strategy, for `model` and `optimizer` created in `strategy.scope()`.

        `losses(labels, outputs)` returns one loss for each example, `is_right(labels, outputs)` returns 0 or 1 for
        each. `checkpoint_every` counts steps: None takes the value of the job, and 0 saves only by time. The chief
        calls `each_step` after every step, instead of printing the loop's own lines. Raises SystemExit on an
        evaluator.
        """
        if self.is_evaluator:
            raise SystemExit(
                "this host is the evaluator, which trains nothing: call trainyard.runtime.evaluation.follow if "
                "runtime.is_evaluator (docs/examples/evaluator.md), or remove cluster.evaluator from the job file"
            )
        plan = self.plan(
            epochs=epochs,
            global_batch_size=global_batch_size,
            seed=seed,
            checkpoint_every=checkpoint_every,
            step_delay=step_delay,
            each_step=each_step,
        )
        if self.cluster.kind.is_asynchronous:
            turn = OneBatch(model, optimizer, losses, is_right)
            return Asynchronous(
                self.cluster, self.environment, plan, model=model, optimizer=optimizer, turn=turn
            )
        return self._loop_in_step()(
            self.cluster,
            self.environment,
            plan,
            model=model,
            optimizer=optimizer,
            losses=losses,
            is_right=is_right,
        )

    def _loop_in_step(self) -> type[Elastic]:
        return Elastic

    def plan(
        self,
        *,
        epochs: int,
        global_batch_size: int,
        seed: int,
        checkpoint_every: int | None,
        step_delay: float = 0.0,
        each_step: Callable[[Step], None] | None = None,
    ) -> Plan:
        """Return a plan. `checkpoint_every` None takes the value of the job."""
        environment = self.environment
        return Plan(
            epochs=epochs,
            global_batch_size=global_batch_size,
            seed=seed,
            checkpoint_every=environment.checkpoint_steps if checkpoint_every is None else checkpoint_every,
            checkpoint_seconds=environment.checkpoint_seconds,
            step_delay=step_delay,
            each_step=each_step,
        )

    def steps_per_epoch(self, examples: Examples, *, global_batch_size: int) -> int:
        """Return the whole global batches of an epoch. Every worker must call it."""
        return feeding.steps_per_epoch(self.cluster, self.environment, examples, global_batch_size)

    def save_model(self, model: Any, signatures: Mapping[str, Signature], *, step: int) -> None:
        """Write a SavedModel on the chief. Every worker must call it, at the same step."""
        export.save(self.cluster, self.environment, model, signatures, step)

    def report(self, step: int, **values: float) -> None:
        """Report metrics of your own at a step, on the chief: `runtime.report(step, val_f1=0.93)`."""
        if self.is_chief:
            metrics.report_progress(self.environment, {"step": step, **values})

    def write_metrics(self, values: Mapping[str, Any]) -> None:
        """Write metrics.json on the chief: `step`, `steps`, `epochs`, `loss`, `accuracy`, ..."""
        if self.is_chief:
            metrics.write_metrics(self.environment.metrics, values)

    def finish(self, step: int) -> NoReturn:
        """Wait until every worker has called it, then exit with success."""
        self.cluster.finish(self.environment)
        leave(FINISHED, f"finished at step {step}")
