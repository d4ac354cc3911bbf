"""A program's training session: what `trainyard.runtime.start()` hands it."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from trainyard.protocol.cluster import Strategy
from trainyard.runtime import export, metrics
from trainyard.runtime.data import Examples
from trainyard.runtime.environment import Environment
from trainyard.runtime.export import Signature
from trainyard.runtime.loops import feeding
from trainyard.runtime.loops.asynchronous import Asynchronous, OneBatch
from trainyard.runtime.loops.elastic import Elastic
from trainyard.runtime.plan import Plan, Step
from trainyard.runtime.processes.cluster import Cluster, join
from trainyard.runtime.processes.forming import gpus
from trainyard.runtime.processes.leaving import FINISHED, leave


def start(*, deterministic: bool | None = None, seed: int = 1) -> "Runtime":
    """Form the cluster and make its strategy. Call it before anything else of TensorFlow.

    A parameter server, and a worker of one, serves in here and never comes back. `deterministic` operations are on
    where there is no GPU, unless said otherwise; `seed` is given to Python, NumPy and TensorFlow.
    """
    random.seed(seed)
    np.random.seed(seed)
    tf.random.set_seed(seed)
    if deterministic if deterministic is not None else not gpus():
        tf.config.experimental.enable_op_determinism()
    environment = Environment.from_os()
    return Runtime(join(environment), environment)


@dataclass(frozen=True, slots=True)
class Runtime:
    """The formed cluster and what the host told this program."""

    cluster: Cluster
    environment: Environment

    @property
    def strategy(self) -> Any:
        return self.cluster.strategy

    @property
    def is_chief(self) -> bool:
        """Whether this process is the one that saves, reports and exports."""
        return self.cluster.is_chief

    @property
    def is_evaluator(self) -> bool:
        return self.cluster.place.role == "evaluator"

    @property
    def workers(self) -> int:
        """How many processes compute gradients."""
        return self.cluster.workers

    def data(self, name: str) -> Path:
        """The folder of the data entry `name`. Raises SystemExit when the job has none of that name."""
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
        """The training loop of this strategy, for `model` and `optimizer` made under `strategy.scope()`.

        `losses(labels, outputs)` answers one loss an example, `is_right(labels, outputs)` one 0/1 an example.
        `checkpoint_every` steps; None: what the job says, 0: by the clock alone. `each_step` is called by the
        chief after every step, in place of the loop's own lines. Raises SystemExit on an evaluator.
        """
        if self.is_evaluator:
            raise SystemExit(
                "this host is the evaluator, which trains nothing: call trainyard.runtime.evaluation.follow where "
                "runtime.is_evaluator (docs/examples/evaluator.md), or leave out cluster.evaluator"
            )
        plan = self.plan(
            epochs=epochs,
            global_batch_size=global_batch_size,
            seed=seed,
            checkpoint_every=checkpoint_every,
            step_delay=step_delay,
            each_step=each_step,
        )
        if self.cluster.kind == Strategy.PARAMETER_SERVER:
            turn = OneBatch(model, optimizer, losses, is_right)
            return Asynchronous(
                self.cluster, self.environment, plan, model=model, optimizer=optimizer, turn=turn
            )
        return Elastic(
            self.cluster,
            self.environment,
            plan,
            model=model,
            optimizer=optimizer,
            losses=losses,
            is_right=is_right,
        )

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
        """`checkpoint_every` None: what the job says."""
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
        """How many whole global batches an epoch has. Every worker calls it."""
        return feeding.steps_per_epoch(self.cluster, self.environment, examples, global_batch_size)

    def save_model(self, model: Any, signatures: Mapping[str, Signature], *, step: int) -> None:
        """A SavedModel of the model at `step`, whole, written by the chief alone. Every worker calls it."""
        export.save(self.cluster, self.environment, model, signatures, step)

    def write_metrics(self, facts: Mapping[str, Any]) -> None:
        """metrics.json, by the chief alone: `step`, `steps`, `epochs`, `loss`, `accuracy`, ..."""
        if self.is_chief:
            metrics.write_metrics(self.environment.metrics, facts)

    def finish(self, step: int) -> NoReturn:
        """The end: waits until every worker has got this far, then leaves with success."""
        self.cluster.finish(self.environment)
        leave(FINISHED, f"finished at step {step}")
